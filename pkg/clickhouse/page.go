package clickhouse

import (
	"context"
	"fmt"

	ch "github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/logboom/logboom/pkg/record"
)

// page is a Query that was checked.
type page struct {
	scope
	limit  int
	before position
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
	before, err := parseCursor(kind, q.Project, q.Cursor)
	if err != nil {
		return page{}, err
	}
	p := page{newScope(q.Project, q.From, q.To, q.Filter), q.Limit, before}
	p.last = min(p.last, before.time)
	return p, nil
}

// arguments are the parameters of sql/logs.sql and sql/events.sql beside those
// of the scope. One row more than asked for tells whether another page follows.
func (p page) arguments() []any {
	return append(p.before.arguments(), ch.Named("limit", p.limit+1))
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
	err = c.read(ctx, table, p.scope, p.arguments(), func(rows driver.Rows) (bool, error) {
		if n := len(found); n == p.limit || size > maxPageBytes {
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
		return nil, "", err
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
