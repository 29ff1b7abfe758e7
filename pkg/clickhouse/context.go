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

// ErrNoLog is an id that no log of the project has.
var ErrNoLog = errors.New("no such log")

// ContextQuery asks what stood around a log.
type ContextQuery struct {
	Project       string
	ID            record.RowID
	Before, After int // how many, at most MaxContext each
}

// LogContext is a log and what its application wrote on its host before and
// after it, the oldest first.
type LogContext struct {
	Before []StoredLog `json:"before"`
	Log    StoredLog   `json:"log"`
	After  []StoredLog `json:"after"`
}

// Context finds a log and its neighbours. The error is ErrNoLog where there is
// none of that id; others are as those of Logs.
func (c *Client) Context(ctx context.Context, q ContextQuery) (LogContext, error) {
	for field, n := range map[string]int{"before": q.Before, "after": q.After} {
		if n < 0 || n > MaxContext {
			return LogContext{}, &InvalidError{field, fmt.Sprintf("%d is not within 0 to %d", n, MaxContext)}
		}
	}
	s := everything(q.Project, query.Query{})
	found, err := c.readLogs(ctx, "context_at", s, position{id: q.ID}.arguments())
	if err != nil {
		return LogContext{}, err
	}
	if len(found) == 0 {
		return LogContext{}, fmt.Errorf("log %s: %w", q.ID, ErrNoLog)
	}
	around := LogContext{Log: found[0]}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() (err error) {
		around.Before, err = c.neighbours(ctx, "context_before", s.until(found[0]), found[0], q.Before)
		slices.Reverse(around.Before)
		return err
	})
	group.Go(func() (err error) {
		around.After, err = c.neighbours(ctx, "context_after", s.since(found[0]), found[0], q.After)
		return err
	})
	err = group.Wait()
	return around, err
}

// until and since bound the time as well, because the primary key understands
// that and not the comparison of tuples.
func (s scope) until(l StoredLog) scope {
	s.last = l.Timestamp.UnixNano()
	return s
}

func (s scope) since(l StoredLog) scope {
	s.first = l.Timestamp.UnixNano()
	return s
}

// neighbours reads up to n logs on one side of l.
func (c *Client) neighbours(ctx context.Context, name string, s scope, l StoredLog, n int) ([]StoredLog, error) {
	return c.readLogs(ctx, name, s, append(l.position().arguments(),
		ch.Named("application", l.Application), ch.Named("host", l.Host), ch.Named("limit", n)))
}

// readLogs reads all logs of a statement whose own limit bounds them.
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
