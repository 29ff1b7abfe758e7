package clickhouse

import (
	"context"
	"fmt"
	"time"

	ch "github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/logboom/logboom/pkg/query"
)

// MaxBuckets bounds a histogram.
const MaxBuckets = 1000

// HistogramQuery asks for the number of logs over time. Both times are required.
type HistogramQuery struct {
	Project  string
	From, To time.Time // From is included, To is not
	Filter   query.Query
	Buckets  int // 1 to MaxBuckets, all of the same length
}

// SeverityCounts counts logs by the ranges of OpenTelemetry's severity numbers.
type SeverityCounts struct {
	Unknown uint64 `json:"unknown"`
	Trace   uint64 `json:"trace"`
	Debug   uint64 `json:"debug"`
	Info    uint64 `json:"info"`
	Warn    uint64 `json:"warn"`
	Error   uint64 `json:"error"`
	Fatal   uint64 `json:"fatal"`
}

// add adds n to a level: 0 is unknown, 1 trace, 6 fatal.
func (s *SeverityCounts) add(level uint8, n uint64) {
	levels := [...]*uint64{&s.Unknown, &s.Trace, &s.Debug, &s.Info, &s.Warn, &s.Error, &s.Fatal}
	*levels[min(int(level), len(levels)-1)] += n
}

// Bucket counts the logs from Time to the next bucket.
type Bucket struct {
	Time       time.Time      `json:"time"`
	Count      uint64         `json:"count"`
	Severities SeverityCounts `json:"severities"`
}

// Histogram is the number of logs in each bucket, empty ones included, oldest
// first.
type Histogram struct {
	From       time.Time      `json:"from"`
	To         time.Time      `json:"to"`
	Width      float64        `json:"seconds"` // length of a bucket
	Total      uint64         `json:"total"`
	Severities SeverityCounts `json:"severities"`
	Buckets    []Bucket       `json:"buckets"`
}

// Histogram counts logs by time and severity. Its errors are those of Logs.
func (c *Client) Histogram(ctx context.Context, q HistogramQuery) (Histogram, error) {
	s := newScope(q.Project, q.From, q.To, q.Filter)
	width, err := q.width(s)
	if err != nil {
		return Histogram{}, err
	}
	h := emptyHistogram(q, s.first, width)
	err = c.read(ctx, "histogram", s, []any{ch.Named("width", width)}, func(rows driver.Rows) (bool, error) {
		var bucket uint32
		var level uint8
		var n uint64
		if err := rows.Scan(&bucket, &level, &n); err != nil {
			return false, err
		}
		one := &h.Buckets[min(int(bucket), len(h.Buckets)-1)]
		one.Count += n
		one.Severities.add(level, n)
		h.Total += n
		h.Severities.add(level, n)
		return true, nil
	})
	return h, err
}

// width returns the length of a bucket in nanoseconds, rounded up so that the
// last one reaches the end.
func (q HistogramQuery) width(s scope) (int64, error) {
	n := int64(q.Buckets)
	switch {
	case n < 1 || n > MaxBuckets:
		return 0, &InvalidError{"buckets", fmt.Sprintf("%d is not between 1 and %d", n, MaxBuckets)}
	case q.From.IsZero() || q.To.IsZero() || s.last < s.first:
		return 0, &InvalidError{"to", "it is not after from"}
	case s.last-s.first < 0:
		return 0, &InvalidError{"from", "it is more than 292 years before to"}
	}
	return (s.last-s.first)/n + 1, nil
}

func emptyHistogram(q HistogramQuery, first, width int64) Histogram {
	h := Histogram{
		From: q.From.UTC(), To: q.To.UTC(),
		Width: time.Duration(width).Seconds(), Buckets: make([]Bucket, q.Buckets),
	}
	for i := range h.Buckets {
		h.Buckets[i].Time = time.Unix(0, first+int64(i)*width).UTC()
	}
	return h
}
