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

// HistogramQuery asks how many logs there were when. Both times are given.
type HistogramQuery struct {
	Project  string
	From, To time.Time // From is included, To is not
	Filter   query.Query
	Buckets  int // 1 to MaxBuckets, all equally long
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

// add adds n to the count of a level: 0 for unknown, 1 for trace, 6 for fatal.
func (s *SeverityCounts) add(level uint8, n uint64) {
	levels := [...]*uint64{&s.Unknown, &s.Trace, &s.Debug, &s.Info, &s.Warn, &s.Error, &s.Fatal}
	*levels[min(int(level), len(levels)-1)] += n
}

// Bucket counts the logs from Time on to the next bucket.
type Bucket struct {
	Time       time.Time      `json:"time"`
	Count      uint64         `json:"count"`
	Severities SeverityCounts `json:"severities"`
}

// Histogram is the answer: as many buckets as asked for, empty ones too, the
// oldest first.
type Histogram struct {
	From       time.Time      `json:"from"`
	To         time.Time      `json:"to"`
	Width      float64        `json:"seconds"` // of a bucket
	Total      uint64         `json:"total"`
	Severities SeverityCounts `json:"severities"`
	Buckets    []Bucket       `json:"buckets"`
}

// Histogram counts logs by time and severity. Errors are as those of Logs.
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

// width is how long a bucket is, in nanoseconds, rounded up so that the last
// one reaches the end.
func (q HistogramQuery) width(s scope) (int64, error) {
	n := int64(q.Buckets)
	switch {
	case n < 1 || n > MaxBuckets:
		return 0, &InvalidError{"buckets", fmt.Sprintf("%d is not within 1 to %d", n, MaxBuckets)}
	case q.From.IsZero() || q.To.IsZero() || s.last < s.first:
		return 0, &InvalidError{"to", "not after from"}
	case s.last-s.first < 0:
		return 0, &InvalidError{"from", "more than 292 years before to"}
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
