package clickhouse

import (
	"context"
	"fmt"
	"math"
	"time"

	ch "github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/logboom/logboom/pkg/record"
	"github.com/logboom/logboom/pkg/stream"
)

// lastStoredTimeout bounds LastRow and LastStored, which may look at every row.
const lastStoredTimeout = 25 * time.Second

// LastStored is the last message of a shard, above a sequence, that a row or
// the usage is of, and 0 where there is none: a stream.Stored. Usage is looked
// at because it outlasts the rows and counts dead letters, which have none; a
// stream that began again below it would go uncounted.
//
// From a sequence near the end it reads little. From 0 it reads one column of
// the whole table, so no bound on rows applies. Of several replicas, ask the
// one that the writers use.
func (c *Client) LastStored(ctx context.Context, kind record.Kind, shard int, above uint64) (last uint64, err error) {
	row, err := c.LastRow(ctx, kind, shard, above)
	if err != nil {
		return 0, err
	}
	counted, err := c.lastOf(ctx, "last_usage", "usage", ch.Named("stream", stream.Name(kind, shard)), ch.Named("above", above))
	return max(row, counted), err
}

// LastRow is the last message of a shard, above a sequence, that a row is of,
// and 0 where there is none: a stream.Stored too.
func (c *Client) LastRow(ctx context.Context, kind record.Kind, shard int, above uint64) (last uint64, err error) {
	if kind != record.KindLog && kind != record.KindEvent || shard < 0 || shard > math.MaxUint8 {
		return 0, fmt.Errorf("clickhouse: last row of stream %s: there is no such stream", stream.Name(kind, shard))
	}
	return c.lastOf(ctx, "last_row", kind.String(), ch.Named("table", kind.String()), ch.Named("shard", uint8(shard)), ch.Named("above", above))
}

// lastOf runs a query for one sequence.
func (c *Client) lastOf(ctx context.Context, query, table string, arguments ...any) (last uint64, err error) {
	whole := *c
	whole.config.MaxReadRows, whole.config.ReadTimeout = 0, lastStoredTimeout
	err = whole.each(ctx, statement(query), arguments, func(rows driver.Rows) (bool, error) {
		return true, rows.Scan(&last)
	})
	if err != nil {
		return 0, readError(table, err)
	}
	return last, nil
}
