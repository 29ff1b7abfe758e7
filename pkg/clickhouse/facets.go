package clickhouse

import (
	"context"
	"time"

	ch "github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"golang.org/x/sync/errgroup"

	"github.com/logboom/logboom/pkg/query"
)

// Bounds of the answer.
const (
	maxFacetValues = 20 // of a column
	maxFacetKeys   = 20
	maxKeyValues   = 10 // of a key
	// A key that has more than manyValues different ones among the first
	// sampledPairs pairs is one like a request's id: counting each of its values
	// would take half a second a million lines, and none would be frequent.
	manyValues   = 10_000
	sampledPairs = 200_000
)

// FacetQuery asks what the logs of some time are made of. Zero times do not
// bound.
type FacetQuery struct {
	Project  string
	From, To time.Time // From is included, To is not
	Filter   query.Query
}

// ValueCount is one value of a field and how many logs have it.
type ValueCount struct {
	Value string `json:"value"`
	Count uint64 `json:"count"`
}

// KeyFacet is one key of the metadata: how many logs have it, and its most
// frequent values. None are listed where Many says that there are too many to
// count, as of a request's id.
type KeyFacet struct {
	Key    string       `json:"key"`
	Count  uint64       `json:"count"`
	Many   bool         `json:"many"`
	Values []ValueCount `json:"values"`
}

// Facets are the most frequent values, the most frequent first.
type Facets struct {
	Total        uint64       `json:"total"` // logs
	Applications []ValueCount `json:"applications"`
	Severities   []ValueCount `json:"severities"`
	Hosts        []ValueCount `json:"hosts"`
	Sources      []ValueCount `json:"sources"`
	Metadata     []KeyFacet   `json:"metadata"`
}

// Facets counts the values of the columns and of the metadata, exactly. Errors
// are as those of Logs.
func (c *Client) Facets(ctx context.Context, q FacetQuery) (Facets, error) {
	f := Facets{Applications: []ValueCount{}, Severities: []ValueCount{}, Hosts: []ValueCount{}, Sources: []ValueCount{}, Metadata: []KeyFacet{}}
	s := newScope(q.Project, q.From, q.To, q.Filter)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return c.columnFacets(ctx, s, &f) })
	group.Go(func() error { return c.keyFacets(ctx, s, &f) })
	err := group.Wait()
	return f, err
}

// columnFacets fills everything but the metadata.
func (c *Client) columnFacets(ctx context.Context, s scope, f *Facets) error {
	lists := [...]*[]ValueCount{&f.Applications, &f.Severities, &f.Hosts, &f.Sources}
	return c.read(ctx, "facets", s, []any{ch.Named("limit", maxFacetValues)}, func(rows driver.Rows) (bool, error) {
		var facet uint8
		var one ValueCount
		if err := rows.Scan(&facet, &one.Value, &one.Count); err != nil {
			return false, err
		}
		switch {
		case int(facet) == len(lists):
			f.Total = one.Count
		case one.Value != "":
			*lists[facet] = append(*lists[facet], one)
		}
		return true, nil
	})
}

// keyFacets fills the metadata.
func (c *Client) keyFacets(ctx context.Context, s scope, f *Facets) error {
	arguments := []any{ch.Named("limit", maxKeyValues), ch.Named("sample", sampledPairs), ch.Named("many", manyValues)}
	return c.read(ctx, "facet_pairs", s, arguments, func(rows driver.Rows) (bool, error) {
		var key string
		var many uint8
		var one ValueCount
		var keyed uint64
		if err := rows.Scan(&key, &many, &one.Value, &one.Count, &keyed); err != nil {
			return false, err
		}
		n := len(f.Metadata)
		if n == 0 || f.Metadata[n-1].Key != key {
			if n == maxFacetKeys {
				return false, nil
			}
			f.Metadata = append(f.Metadata, KeyFacet{Key: key, Count: keyed, Many: many == 1, Values: []ValueCount{}})
			n++
		}
		if many == 0 {
			f.Metadata[n-1].Values = append(f.Metadata[n-1].Values, one)
		}
		return true, nil
	})
}
