package clickhouse

import (
	"context"
	"fmt"
	"strconv"
	"time"

	ch "github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/logboom/logboom/pkg/record"
)

// Range is a run of a shard's messages, as the ledger's intents have it. All
// bounds are included.
type Range struct {
	Kind                     record.Kind
	Shard                    uint8
	From, To                 uint64 // sequences
	ReceivedMin, ReceivedMax int64  // Unix nanoseconds; they spare the other partitions
}

// Partition names the partition of a row that the queue had at received: the
// day in UTC, such as "20261120", as ClickHouse names it itself.
func Partition(received int64) string {
	return time.Unix(0, received).UTC().Format("20060102")
}

// CountRange counts the rows of a range that are stored, by partition. What is
// not in the answer has no rows.
func (c *Client) CountRange(ctx context.Context, r Range) (map[string]uint64, error) {
	table, err := tableOf(r.Kind)
	if err != nil {
		return nil, fmt.Errorf("clickhouse: count: %w", err)
	}
	counts := make(map[string]uint64)
	err = c.each(ctx, statement("count"), r.arguments(table), func(rows driver.Rows) (bool, error) {
		var day uint32
		var n uint64
		if err := rows.Scan(&day, &n); err != nil {
			return false, err
		}
		counts[strconv.FormatUint(uint64(day), 10)] = n
		return true, nil
	})
	if err != nil {
		return nil, readError(table, err)
	}
	return counts, nil
}

func (r *Range) arguments(table string) []any {
	return []any{
		ch.Named("table", table),
		ch.Named("shard", r.Shard),
		ch.Named("from", r.From),
		ch.Named("to", r.To),
		ch.Named("received_min", r.ReceivedMin),
		ch.Named("received_max", r.ReceivedMax),
	}
}

func tableOf(kind record.Kind) (string, error) {
	switch kind {
	case record.KindLog:
		return "logs", nil
	case record.KindEvent:
		return "events", nil
	}
	return "", fmt.Errorf("kind %d has no table", kind)
}
