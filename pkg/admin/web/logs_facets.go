package web

import (
	"context"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/logboom/logboom/pkg/clickhouse"
	"github.com/logboom/logboom/pkg/project"
	"github.com/logboom/logboom/pkg/query"

	"github.com/logboom/logboom/pkg/record"
)

// facetsView is the most frequent values of the logs.
type facetsView struct {
	Facets  []facet
	Problem string
}

// facet is a field with its most frequent values.
type facet struct {
	Name     string // as the page shows it
	Metadata bool
	Many     bool // too many values to list
	Values   []facetValue
	Open     bool
}

// facetValue is a value, the number of logs that have it, and what clicks do.
type facetValue struct {
	Text, Value string
	Level       string // of a severity, else ""
	Count       uint64
	Share       int // percent of the most frequent value
	In, Out     bool
	Path        string // adds the value to the query, or removes it
	Exclude     string // excludes the value, or stops excluding it
}

const (
	maxOwnReads = 6 // of filtered fields
	openKeys    = 4 // of the metadata: facets that are open at first
	facetLength = 10
)

// readFacets counts values. The values of a field that the query filters are
// counted without that filter, so that a second value can be added.
func (p *Pages) readFacets(ctx context.Context, found project.Project, s logState, root string) (facetsView, error) {
	at := s.shown()
	read := func(ctx context.Context, filter query.Query) (clickhouse.Facets, error) {
		return p.service.Facets(ctx, found, clickhouse.FacetQuery{From: at.From, To: at.To, Filter: filter})
	}
	fields := slices.DeleteFunc(s.Filter.SelectedFields(), func(field string) bool { return field == "id" })
	own := map[string]clickhouse.Facets{}
	var mu sync.Mutex
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(2)
	var base clickhouse.Facets
	group.Go(func() (err error) {
		base, err = read(ctx, s.Filter)
		return err
	})
	for _, field := range fields[:min(len(fields), maxOwnReads)] {
		group.Go(func() error {
			counted, err := read(ctx, s.Filter.WithoutField(field))
			mu.Lock()
			defer mu.Unlock()
			own[field] = counted
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return facetsView{}, err
	}
	return facetsView{Facets: listFacets(base, own, s, root)}, nil
}

// listFacets lists the columns and then the keys of the metadata. own are the
// counts of filtered fields.
func listFacets(base clickhouse.Facets, own map[string]clickhouse.Facets, s logState, root string) []facet {
	var list []facet
	for _, field := range []string{"severity", "application", "host", "source"} {
		counted := base
		if f, ok := own[field]; ok {
			counted = f
		}
		f := newFacet(field, valuesOf(counted, field), s, root)
		if field == "severity" {
			f.sortSeverities()
		}
		if f.Open = true; len(f.Values) > 0 {
			list = append(list, f)
		}
	}
	keys := base.Metadata
	for field, counted := range own {
		if key, ok := strings.CutPrefix(field, "metadata."); ok {
			keys = withKey(keys, counted.Metadata, key)
		}
	}
	keys = slices.Clone(keys)
	slices.SortStableFunc(keys, func(a, b clickhouse.KeyFacet) int { return scattered(a) - scattered(b) })
	open := 0
	for _, key := range keys {
		f := newFacet("metadata."+key.Key, key.Values, s, root)
		f.Many = key.Many
		f.Open = open < openKeys && scattered(key) == 0
		if f.Open {
			open++
		}
		list = append(list, f)
	}
	return list
}

// scattered orders keys by how useful their values are as filters: 0 where a few
// values have most of the lines, 1 where each has few, 2 where there are too many
// to list.
func scattered(key clickhouse.KeyFacet) int {
	listed := uint64(0)
	for _, v := range key.Values {
		listed += v.Count
	}
	switch {
	case key.Many:
		return 2
	case listed*2 < key.Count:
		return 1
	}
	return 0
}

// withKey returns the keys with the counts of one key replaced by those in
// counted. A key that was missing becomes the first.
func withKey(keys, counted []clickhouse.KeyFacet, key string) []clickhouse.KeyFacet {
	is := func(k clickhouse.KeyFacet) bool { return k.Key == key }
	from := slices.IndexFunc(counted, is)
	if from < 0 {
		return keys
	}
	keys = slices.Clone(keys)
	if at := slices.IndexFunc(keys, is); at >= 0 {
		keys[at] = counted[from]
		return keys
	}
	return slices.Insert(keys, 0, counted[from])
}

// valuesOf returns the counted values of a field.
func valuesOf(found clickhouse.Facets, field string) []clickhouse.ValueCount {
	switch field {
	case "application":
		return found.Applications
	case "severity":
		return found.Severities
	case "host":
		return found.Hosts
	case "source":
		return found.Sources
	}
	for _, key := range found.Metadata {
		if "metadata."+key.Key == field {
			return key.Values
		}
	}
	return nil
}

// newFacet returns a facet with links for its values. Values that the query
// selects are shown even without a count.
func newFacet(field string, counted []clickhouse.ValueCount, s logState, root string) facet {
	key, metadata := strings.CutPrefix(field, "metadata.")
	f := facet{Name: printable(key), Metadata: metadata}
	if !metadata {
		f.Name = strings.ToUpper(key[:1]) + key[1:]
	}
	in, out := s.Filter.Selected(field)
	for _, value := range append(slices.Clone(in), out...) {
		if !slices.ContainsFunc(counted, func(c clickhouse.ValueCount) bool { return strings.EqualFold(c.Value, value) }) {
			counted = append(slices.Clone(counted), clickhouse.ValueCount{Value: value})
		}
	}
	most := uint64(1)
	for _, c := range counted {
		most = max(most, c.Count)
	}
	is := func(list []string, value string) bool {
		return slices.ContainsFunc(list, func(one string) bool { return strings.EqualFold(one, value) })
	}
	for i, c := range counted {
		one := facetValue{
			Text: printable(c.Value), Value: c.Value, Count: c.Count, Share: int(c.Count * 100 / most), In: is(in, c.Value), Out: is(out, c.Value),
			Path: s.editAddress(root, "in", field, c.Value), Exclude: s.editAddress(root, "out", field, c.Value),
		}
		if i < facetLength || one.In || one.Out {
			f.Values = append(f.Values, one)
		}
	}
	return f
}

// sortSeverities sorts severities, the most severe first. Other words follow.
func (f *facet) sortSeverities() {
	levels := record.SeverityLevels()
	place := func(v facetValue) int {
		if at := slices.Index(levels, strings.ToLower(v.Value)); at >= 0 {
			return at
		}
		return len(levels)
	}
	slices.SortStableFunc(f.Values, func(a, b facetValue) int { return place(a) - place(b) })
	for i, v := range f.Values {
		if f.Values[i].Level = "unknown"; place(v) < len(levels) {
			f.Values[i].Level = levels[place(v)]
		}
	}
}
