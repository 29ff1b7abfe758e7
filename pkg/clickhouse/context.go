package clickhouse

import (
	"context"
	"errors"
	"fmt"
	"slices"

	ch "github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"golang.org/x/sync/errgroup"

	"github.com/logboom/logboom/pkg/query"
	"github.com/logboom/logboom/pkg/record"
)

// MaxContext bounds the logs on either side of one.
const MaxContext = 500

// ErrNoLog is the error of an ID that no log of the project has.
var ErrNoLog = errors.New("no such log")

// ContextQuery asks for a log and its neighbours.
type ContextQuery struct {
	Project       string
	ID            record.RowID
	Before, After int // how many, at most MaxContext each
}

// LogContext is a log and what its application wrote on its host before and
// after it, oldest first.
type LogContext struct {
	Before []StoredLog `json:"before"`
	Log    StoredLog   `json:"log"`
	After  []StoredLog `json:"after"`
}

// Context reads a log and its neighbours. The error is ErrNoLog where the
// project has no log of that ID; others are those of Logs.
func (c *Client) Context(ctx context.Context, q ContextQuery) (LogContext, error) {
	for field, n := range map[string]int{"before": q.Before, "after": q.After} {
		if n < 0 || n > MaxContext {
			return LogContext{}, &InvalidError{field, fmt.Sprintf("%d is not between 0 and %d", n, MaxContext)}
		}
	}
	s := allTimes(q.Project, query.Query{})
	found, err := c.readLogs(ctx, "context_at", s, position{id: q.ID}.arguments(1))
	if err != nil {
		return LogContext{}, err
	}
	if len(found) == 0 {
		return LogContext{}, fmt.Errorf("log %s: %w", q.ID, ErrNoLog)
	}
	around := LogContext{Log: found[0]}
	// The primary key understands a bound of the time, but not the comparison of
	// tuples.
	before, after := s, s
	before.last, after.first = around.Log.Timestamp.UnixNano(), around.Log.Timestamp.UnixNano()
	neighbours := func(ctx context.Context, name string, s scope, limit int) ([]StoredLog, error) {
		arguments := append(around.Log.position().arguments(limit), ch.Named("application", around.Log.Application), ch.Named("host", around.Log.Host))
		return c.readLogs(ctx, name, s, arguments)
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() (err error) {
		around.Before, err = neighbours(ctx, "context_before", before, q.Before)
		slices.Reverse(around.Before)
		return err
	})
	group.Go(func() (err error) {
		around.After, err = neighbours(ctx, "context_after", after, q.After)
		return err
	})
	err = group.Wait()
	return around, err
}

// readLogs reads the logs of a statement that bounds their number itself, up to
// maxPageBytes of text.
func (c *Client) readLogs(ctx context.Context, name string, s scope, arguments []any) ([]StoredLog, error) {
	found, size := []StoredLog{}, 0
	err := c.read(ctx, name, s, arguments, func(rows driver.Rows) (bool, error) {
		var one StoredLog
		if err := one.scan(rows); err != nil {
			return false, err
		}
		found = append(found, one)
		size += one.size()
		return size <= maxPageBytes, nil
	})
	return found, err
}
