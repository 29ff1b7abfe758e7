package clickhouse

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"time"

	ch "github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/logboom/logboom/pkg/record"
	"github.com/logboom/logboom/pkg/stream"
)

// Range is a run of one stream's messages. All bounds are inclusive.
type Range struct {
	Kind                     record.Kind
	Shard                    uint8
	From, To                 uint64 // sequences
	ReceivedMin, ReceivedMax int64  // Unix nanoseconds; they keep other partitions from being read
}

// Partition returns the partition of a row that the queue received at that
// time: the day in UTC, such as "20261120", as ClickHouse names it.
func Partition(received int64) string {
	return time.Unix(0, received).UTC().Format("20060102")
}

// Count is what one partition holds of a range.
type Count struct {
	Rows uint64
	// Distinct is the number of records that the rows are of. It is lower than
	// Rows if a record is stored more than once.
	Distinct uint64
	// FirstDoubled and LastDoubled are sequences: all records that are stored
	// more than once are of messages between them. Both are 0 if there are none.
	FirstDoubled, LastDoubled uint64
}

// CountRange counts the rows of a range by partition. Partitions without rows
// are not in the answer.
func (c *Client) CountRange(ctx context.Context, r Range) (map[string]Count, error) {
	table, err := tableOf(r.Kind)
	if err != nil {
		return nil, fmt.Errorf("clickhouse: count: %w", err)
	}
	arguments := []any{
		ch.Named("table", table),
		ch.Named("shard", r.Shard),
		ch.Named("from", r.From),
		ch.Named("to", r.To),
		ch.Named("received_min", r.ReceivedMin),
		ch.Named("received_max", r.ReceivedMax),
	}
	counts := make(map[string]Count)
	err = c.each(ctx, statement("count"), arguments, func(rows driver.Rows) (bool, error) {
		var day uint32
		var one Count
		if err := rows.Scan(&day, &one.Rows, &one.Distinct, &one.FirstDoubled, &one.LastDoubled); err != nil {
			return false, err
		}
		counts[strconv.FormatUint(uint64(day), 10)] = one
		return true, nil
	})
	if err != nil {
		return nil, readError(table, err)
	}
	return counts, nil
}

// tableOf returns the table of records of a kind.
func tableOf(kind record.Kind) (string, error) {
	if kind != record.KindLog && kind != record.KindEvent {
		return "", fmt.Errorf("kind %d has no table", kind)
	}
	return kind.String(), nil
}

// StreamHour names the messages that the queue received on one stream in one
// hour.
type StreamHour struct {
	Stream string // such as LOGS_2
	Hour   int64  // its start, Unix seconds
}

// HourRows is what a table knows of a StreamHour.
type HourRows struct {
	Rows              uint64
	FirstSeq, LastSeq uint64 // of the messages; FirstSeq is 0 in an answer of CountedRows
}

// CountedRows returns how many rows of logs and events the usage table has
// counted, from the hour of since on. Deleted projects are left out, because
// their rows go at another moment than their usage.
func (c *Client) CountedRows(ctx context.Context, since time.Time) (map[StreamHour]HourRows, error) {
	counted := map[StreamHour]HourRows{}
	arguments := []any{ch.Named("since", since.Truncate(time.Hour).Unix())}
	err := c.unbounded(auditTimeout).each(ctx, statement("counted_rows"), arguments, func(rows driver.Rows) (bool, error) {
		var at StreamHour
		var one HourRows
		err := rows.Scan(&at.Stream, &at.Hour, &one.Rows, &one.LastSeq)
		counted[at] = one
		return true, err
	})
	if err != nil {
		return nil, readError("usage", err)
	}
	return counted, nil
}

// StoredRows counts the rows of logs and events, from the hour of since on. It
// reads three columns of all these rows and has no bound on their number.
func (c *Client) StoredRows(ctx context.Context, since time.Time) (map[StreamHour]HourRows, error) {
	stored := map[StreamHour]HourRows{}
	for _, kind := range []record.Kind{record.KindLog, record.KindEvent} {
		arguments := []any{ch.Named("table", kind.String()), ch.Named("since", since.Truncate(time.Hour).UnixNano())}
		err := c.unbounded(auditTimeout).each(ctx, statement("stored_rows"), arguments, func(rows driver.Rows) (bool, error) {
			var shard uint8
			var hour int64
			var one HourRows
			err := rows.Scan(&shard, &hour, &one.Rows, &one.FirstSeq, &one.LastSeq)
			stored[StreamHour{stream.Name(kind, int(shard)), hour}] = one
			return true, err
		})
		if err != nil {
			return nil, readError(kind.String(), err)
		}
	}
	return stored, nil
}

// BrokenParts returns how many parts of its tables ClickHouse has put aside
// because it could not read them at a start. Their rows are missing. Replicated
// tables are left out, since they fetch what they lack from another replica.
func (c *Client) BrokenParts(ctx context.Context) (parts uint64, err error) {
	err = c.each(ctx, statement("broken_parts"), nil, func(rows driver.Rows) (bool, error) {
		return true, rows.Scan(&parts)
	})
	if err != nil {
		return 0, readError("detached parts", err)
	}
	return parts, nil
}

// Bounds of the reads that scan whole columns.
const (
	auditTimeout      = 5 * time.Minute
	lastStoredTimeout = 25 * time.Second
)

// unbounded returns a client whose reads may scan any number of rows.
func (c *Client) unbounded(timeout time.Duration) *Client {
	other := *c
	other.config.MaxReadRows, other.config.ReadTimeout = 0, timeout
	return &other
}

// LastStored returns the highest sequence of a shard, above a sequence, that a
// row or the usage is of, and 0 if there is none. It is a stream.Stored. Usage
// counts because it outlasts the rows and because dead letters have no rows; a
// stream that started again below it would go uncounted.
//
// From a sequence near the end it reads little. From 0 it reads one column of
// the whole table. With several replicas, ask the one that the writers use.
func (c *Client) LastStored(ctx context.Context, kind record.Kind, shard int, above uint64) (last uint64, err error) {
	row, err := c.LastRow(ctx, kind, shard, above)
	if err != nil {
		return 0, err
	}
	counted, err := c.lastSeq(ctx, "last_usage", "usage", ch.Named("stream", stream.Name(kind, shard)), ch.Named("above", above))
	return max(row, counted), err
}

// LastRow returns the highest sequence of a shard, above a sequence, that a row
// is of, and 0 if there is none. It is a stream.Stored too.
func (c *Client) LastRow(ctx context.Context, kind record.Kind, shard int, above uint64) (last uint64, err error) {
	if kind != record.KindLog && kind != record.KindEvent || shard < 0 || shard > math.MaxUint8 {
		return 0, fmt.Errorf("clickhouse: last row of stream %s: there is no such stream", stream.Name(kind, shard))
	}
	return c.lastSeq(ctx, "last_row", kind.String(), ch.Named("table", kind.String()), ch.Named("shard", uint8(shard)), ch.Named("above", above))
}

func (c *Client) lastSeq(ctx context.Context, query, table string, arguments ...any) (last uint64, err error) {
	err = c.unbounded(lastStoredTimeout).each(ctx, statement(query), arguments, func(rows driver.Rows) (bool, error) {
		return true, rows.Scan(&last)
	})
	if err != nil {
		return 0, readError(table, err)
	}
	return last, nil
}
