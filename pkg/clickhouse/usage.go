package clickhouse

import (
	"context"
	"fmt"
	"math"
	"time"

	ch "github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
)

// UsageRow is what a stream has brought one project in one hour so far. Of rows
// with the same project, hour, measure, reason and stream, the one with the most
// records replaces the others.
type UsageRow struct {
	Project string    // "" for batches
	Hour    time.Time // cut to the hour
	Measure string    // logs, events, dropped or batches
	Reason  string    // why dropped, else ""
	Records uint64
	Bytes   uint64

	Stream string // such as LOGS_2
	Seq    uint64 // the last message that is included
}

// InsertUsage inserts rows as one block under a deduplication token.
func (c *Client) InsertUsage(ctx context.Context, token string, rows []UsageRow) error {
	var project, measure, reason, stream words
	var hour, records, size, seq fixed
	for _, r := range rows {
		project.append(r.Project)
		hour.append32(uint32(r.Hour.Truncate(time.Hour).Unix()))
		measure.append(r.Measure)
		reason.append(r.Reason)
		records.append64(r.Records)
		size.append64(r.Bytes)
		stream.append(r.Stream)
		seq.append64(r.Seq)
	}
	return c.insert(ctx, token, "usage", []field{
		{"project", lowCardinality, &project},
		{"hour", "DateTime('UTC')", &hour},
		{"measure", lowCardinality, &measure},
		{"reason", lowCardinality, &reason},
		{"records", "UInt64", &records},
		{"bytes", "UInt64", &size},
		{"_stream", lowCardinality, &stream},
		{"_seq", "UInt64", &seq},
	}, len(rows))
}

// UsageOf returns the rows of one hour of a stream, in no particular order.
func (c *Client) UsageOf(ctx context.Context, stream string, hour time.Time) ([]UsageRow, error) {
	hour = hour.Truncate(time.Hour)
	list := []UsageRow{}
	arguments := []any{ch.Named("stream", stream), ch.Named("hour", hour.Unix())}
	err := c.each(ctx, statement("usage_of"), arguments, func(rows driver.Rows) (bool, error) {
		one := UsageRow{Hour: hour, Stream: stream}
		err := rows.Scan(&one.Project, &one.Measure, &one.Reason, &one.Records, &one.Bytes, &one.Seq)
		list = append(list, one)
		return true, err
	})
	if err != nil {
		return nil, fmt.Errorf("usage of %s: %w", stream, readError("usage", err))
	}
	return list, nil
}

// UsageHour is the usage of a project in one hour, by measure and reason.
type UsageHour struct {
	Hour    time.Time `json:"hour"`
	Measure string    `json:"measure"`
	Reason  string    `json:"reason"`
	Records uint64    `json:"records"`
	Bytes   uint64    `json:"bytes"`
}

// maxUsageHours bounds the rows of Usage: 400 days of ten measures and reasons.
const maxUsageHours = 100_000

// Usage returns a project's usage by hour, oldest first: from the hour that
// contains from to the last one that begins before to. Zero times do not bound
// it.
func (c *Client) Usage(ctx context.Context, project string, from, to time.Time) ([]UsageHour, error) {
	arguments := []any{
		ch.Named("project", project),
		ch.Named("from", seconds(from.Truncate(time.Hour), 0)),
		ch.Named("to", seconds(to, math.MaxUint32)),
		ch.Named("limit", maxUsageHours),
	}
	hours := []UsageHour{}
	err := c.each(ctx, statement("usage"), arguments, func(rows driver.Rows) (bool, error) {
		var h UsageHour
		if err := rows.Scan(&h.Hour, &h.Measure, &h.Reason, &h.Records, &h.Bytes); err != nil {
			return false, err
		}
		hours = append(hours, h)
		return true, nil
	})
	if err != nil {
		return nil, fmt.Errorf("usage of %s: %w", project, readError("usage", err))
	}
	return hours, nil
}

// seconds returns t in Unix seconds, within the range of DateTime.
func seconds(t time.Time, unset int64) int64 {
	if t.IsZero() {
		return unset
	}
	return min(max(t.Unix(), 0), math.MaxUint32)
}
