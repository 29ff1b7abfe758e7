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

// facetsView is what the logs are made of.
type facetsView struct {
	Facets  []facet
	Problem string
}

// facet is a field with its most frequent values.
type facet struct {
	Name     string // as it is shown
	Metadata bool
	Many     bool // too many values to list
	Values   []facetValue
	Open     bool
	Field    string
}

// facetValue is one value: how many logs have it, and what a click does.
type facetValue struct {
	Text, Value string
	Level       string // of a severity
	Count       uint64
	Share       int // of the most frequent, in percent
	In, Out     bool
	Path        string // asks for it, or no longer
	Exclude     string // keeps it out, or no longer
}

const (
	mostOwnQuestions = 6 // for the counts of filtered fields
	openKeys         = 4 // facets of metadata that are open
	facetLength      = 10
)

// readFacets counts values. A field that the query filters is counted without
// its own filter, so that a second value can be added.
func (p *Pages) readFacets(ctx context.Context, found project.Project, s logState, root string) (facetsView, error) {
	at := s.shown()
	ask := func(ctx context.Context, filter query.Query) (clickhouse.Facets, error) {
		return p.service.Facets(ctx, found, clickhouse.FacetQuery{From: at.From, To: at.To, Filter: filter})
	}
	fields := slices.DeleteFunc(s.Filter.SelectedFields(), func(field string) bool { return field == "id" })
	own := map[string]clickhouse.Facets{}
	var mu sync.Mutex
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(2)
	var base clickhouse.Facets
	group.Go(func() (err error) {
		base, err = ask(ctx, s.Filter)
		return err
	})
	for _, field := range fields[:min(len(fields), mostOwnQuestions)] {
		group.Go(func() error {
			counted, err := ask(ctx, s.Filter.WithoutField(field))
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

// listFacets lists the own fields and then the keys of the metadata, those that
// are filtered with their own counts.
func listFacets(base clickhouse.Facets, own map[string]clickhouse.Facets, s logState, root string) []facet {
	values := func(field string, of func(clickhouse.Facets) []clickhouse.ValueCount) facet {
		counted := base
		if f, ok := own[field]; ok {
			counted = f
		}
		return newFacet(field, of(counted), s, root)
	}
	list := []facet{
		severityFacet(values("severity", func(f clickhouse.Facets) []clickhouse.ValueCount { return f.Severities })),
		values("application", func(f clickhouse.Facets) []clickhouse.ValueCount { return f.Applications }),
		values("host", func(f clickhouse.Facets) []clickhouse.ValueCount { return f.Hosts }),
		values("source", func(f clickhouse.Facets) []clickhouse.ValueCount { return f.Sources }),
	}
	list = slices.DeleteFunc(list, func(f facet) bool { return len(f.Values) == 0 })
	for i := range list {
		list[i].Open = true
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

// scattered orders keys by how well their values tell lines apart: 0 where a few
// values have most of the lines, 1 where each has few, 2 where there are too
// many to list.
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

// withKey puts the counts of a key that were made without its own filter in the
// place of the others, first in the list where it was in none.
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

// facetNames are the own fields as they are shown.
var facetNames = map[string]string{"severity": "Severity", "application": "Application", "host": "Host", "source": "Source"}

func newFacet(field string, counted []clickhouse.ValueCount, s logState, root string) facet {
	key, metadata := strings.CutPrefix(field, "metadata.")
	f := facet{Name: printable(key), Metadata: metadata, Field: field}
	if name, ok := facetNames[field]; ok {
		f.Name = name
	}
	in, out := s.Filter.Selected(field)
	for _, value := range append(slices.Clone(in), out...) { // what is filtered is shown, with no count as well
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

// severityFacet orders severities by how bad they are; other words follow.
func severityFacet(f facet) facet {
	place := func(v facetValue) int {
		if at := slices.Index(record.SeverityLevels(), strings.ToLower(v.Value)); at >= 0 {
			return at
		}
		return len(record.SeverityLevels())
	}
	for i, v := range f.Values {
		f.Values[i].Level = "unknown"
		if at := place(v); at < len(record.SeverityLevels()) {
			f.Values[i].Level = record.SeverityLevels()[at]
		}
	}
	slices.SortStableFunc(f.Values, func(a, b facetValue) int { return place(a) - place(b) })
	return f
}
