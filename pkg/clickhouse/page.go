package clickhouse

import (
	"context"
	"fmt"
	"math"
	"time"

	ch "github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/logboom/logboom/pkg/record"
)

// page is a Query that was checked.
type page struct {
	query       Query
	first, last int64 // timestamps, both included
	before      position
}

// check holds the query to its limits. The cursor bounds the time as well,
// because the primary key understands that and not the comparison of tuples.
func (q Query) check(kind record.Kind) (page, error) {
	if q.Limit == 0 {
		q.Limit = defaultLimit
	}
	if q.Limit < 0 || q.Limit > maxLimit {
		return page{}, &InvalidError{"limit", fmt.Sprintf("%d is not within 1 to %d", q.Limit, maxLimit)}
	}
	if len(q.Contains) > maxContains {
		return page{}, &InvalidError{"q", fmt.Sprintf("longer than %d bytes", maxContains)}
	}
	before, err := parseCursor(kind, q.Project, q.Cursor)
	if err != nil {
		return page{}, err
	}
	p := page{query: q, first: nanoseconds(q.From, math.MinInt64), last: math.MaxInt64, before: before}
	if !q.To.IsZero() {
		p.last = nanoseconds(q.To, 0) - 1
	}
	p.last = min(p.last, before.time)
	return p, nil
}

// Times outside these bounds do not fit into nanoseconds.
var (
	minTime = time.Unix(0, math.MinInt64+1)
	maxTime = time.Unix(0, math.MaxInt64)
)

// nanoseconds is t since 1970, zero where t is unset, the nearest bound where
// it does not fit.
func nanoseconds(t time.Time, unset int64) int64 {
	switch {
	case t.IsZero():
		return unset
	case t.Before(minTime):
		return minTime.UnixNano()
	case t.After(maxTime):
		return maxTime.UnixNano()
	}
	return t.UnixNano()
}

// arguments are the parameters of sql/logs.sql and sql/events.sql. One row more
// than asked for tells whether another page follows.
func (p page) arguments() []any {
	return []any{
		ch.Named("project", p.query.Project),
		ch.Named("first", p.first),
		ch.Named("last", p.last),
		ch.Named("before_time", p.before.time),
		ch.Named("before_shard", p.before.id.Shard),
		ch.Named("before_seq", p.before.id.Seq),
		ch.Named("before_idx", p.before.id.Idx),
		ch.Named("contains", p.query.Contains),
		ch.Named("limit", p.query.Limit+1),
	}
}

// stored is a row of a page: a *StoredLog or a *StoredEvent.
type stored[T any] interface {
	*T
	scan(driver.Rows) error
	position() position
	size() int // bytes of text
}

// readPage reads one page and the cursor of the next one.
func readPage[T any, P stored[T]](ctx context.Context, c *Client, kind record.Kind, q Query) ([]T, string, error) {
	table, err := tableOf(kind)
	if err != nil {
		return nil, "", err
	}
	p, err := q.check(kind)
	if err != nil {
		return nil, "", err
	}
	found, next, size := []T{}, "", 0
	err = c.each(ctx, statement(table), p.arguments(), func(rows driver.Rows) (bool, error) {
		if n := len(found); n == p.query.Limit || size > maxPageBytes {
			next = cursor(kind, q.Project, P(&found[n-1]).position())
			return false, nil
		}
		var one T
		if err := P(&one).scan(rows); err != nil {
			return false, err
		}
		size += P(&one).size()
		found = append(found, one)
		return true, nil
	})
	if err != nil {
		return nil, "", readError(table, err)
	}
	return found, next, nil
}

func mapSize(m map[string]string) int {
	n := 0
	for key, value := range m {
		n += len(key) + len(value)
	}
	return n
}
