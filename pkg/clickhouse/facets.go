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
	// The values of a key with more than manyValues different ones among the first
	// sampledPairs pairs are not counted: it is like a request ID, counting would
	// take half a second per million lines, and no value would be frequent.
	manyValues   = 10_000
	sampledPairs = 200_000
)

// FacetQuery asks for the most frequent values of logs. Zero times do not bound
// it.
type FacetQuery struct {
	Project  string
	From, To time.Time // From is included, To is not
	Filter   query.Query
}

// ValueCount is a value of a field and the number of logs that have it.
type ValueCount struct {
	Value string `json:"value"`
	Count uint64 `json:"count"`
}

// KeyFacet is a key of the metadata: the number of logs that have it, and its
// most frequent values. Many says that it has too many values to count them, as a
// request ID has; then Values is empty.
type KeyFacet struct {
	Key    string       `json:"key"`
	Count  uint64       `json:"count"`
	Many   bool         `json:"many"`
	Values []ValueCount `json:"values"`
}

// Facets are the most frequent values of logs, the most frequent first.
type Facets struct {
	Total        uint64       `json:"total"` // logs
	Applications []ValueCount `json:"applications"`
	Severities   []ValueCount `json:"severities"`
	Hosts        []ValueCount `json:"hosts"`
	Sources      []ValueCount `json:"sources"`
	Metadata     []KeyFacet   `json:"metadata"`
}

// Facets counts the values of the columns and of the metadata, exactly. Its
// errors are those of Logs.
func (c *Client) Facets(ctx context.Context, q FacetQuery) (Facets, error) {
	f := Facets{Applications: []ValueCount{}, Severities: []ValueCount{}, Hosts: []ValueCount{}, Sources: []ValueCount{}, Metadata: []KeyFacet{}}
	s := newScope(q.Project, q.From, q.To, q.Filter)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return c.columnFacets(ctx, s, &f) })
	group.Go(func() error { return c.keyFacets(ctx, s, &f) })
	err := group.Wait()
	return f, err
}

// columnFacets fills in the facets of the columns and the total.
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

// keyFacets fills in the facets of the metadata.
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
