package clickhouse

import (
	"context"
	"fmt"
	"math"
	"time"

	ch "github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/logboom/logboom/pkg/query"
	"github.com/logboom/logboom/pkg/record"
)

// StoredLog is a log as the API shows it.
type StoredLog struct {
	ID             record.RowID      `json:"id"`
	Timestamp      time.Time         `json:"timestamp"`
	Application    string            `json:"application"`
	Severity       string            `json:"severity"`
	SeverityNumber uint8             `json:"severity_number"`
	Data           string            `json:"data"`
	Metadata       map[string]string `json:"metadata"`
	Host           string            `json:"host"`
	Source         string            `json:"source"`
}

// scan reads the columns of the statements that select whole logs.
func (l *StoredLog) scan(rows driver.Rows) error {
	return rows.Scan(&l.ID.Shard, &l.ID.Seq, &l.ID.Idx, &l.Timestamp, &l.Application, &l.Severity,
		&l.SeverityNumber, &l.Data, &l.Metadata, &l.Host, &l.Source)
}

func (l *StoredLog) position() position { return position{l.Timestamp.UnixNano(), l.ID} }

func (l *StoredLog) size() int { return len(l.Data) + mapSize(l.Metadata) }

// StoredEvent is an event as the API shows it.
type StoredEvent struct {
	ID          record.RowID      `json:"id"`
	Timestamp   time.Time         `json:"timestamp"`
	Channel     string            `json:"channel"`
	Title       string            `json:"title"`
	Description string            `json:"description"`
	Icon        string            `json:"icon"`
	Notify      bool              `json:"notify"`
	Tags        map[string]string `json:"tags"`
}

// scan reads the columns of sql/events.sql.
func (e *StoredEvent) scan(rows driver.Rows) error {
	return rows.Scan(&e.ID.Shard, &e.ID.Seq, &e.ID.Idx, &e.Timestamp, &e.Channel, &e.Title,
		&e.Description, &e.Icon, &e.Notify, &e.Tags)
}

func (e *StoredEvent) position() position { return position{e.Timestamp.UnixNano(), e.ID} }

func (e *StoredEvent) size() int { return len(e.Title) + len(e.Description) + mapSize(e.Tags) }

func mapSize(m map[string]string) int {
	n := 0
	for key, value := range m {
		n += len(key) + len(value)
	}
	return n
}

const (
	defaultLimit = 100
	maxLimit     = 1000
	// maxPageBytes ends a page early, because a thousand rows may be a gigabyte.
	maxPageBytes = 8 << 20
)

// Query asks for one page of a project's logs or events, newest first.
type Query struct {
	Project string // the project's ID; the caller has checked the right to read it

	From time.Time // included; zero: from the beginning
	To   time.Time // not included; zero: to the end

	Filter query.Query // of the same kind; the zero value matches every record

	Limit  int    // rows of a page, at most 1000; 0 means 100
	Cursor string // the Next of the previous page; "" for the first page
}

// LogQuery asks for logs.
type LogQuery = Query

// EventQuery asks for events.
type EventQuery = Query

// LogPage is one page of logs, newest first.
type LogPage struct {
	Logs []StoredLog `json:"logs"`
	Next string      `json:"next"` // cursor of the next page, "" on the last page
}

// EventPage is one page of events, newest first.
type EventPage struct {
	Events []StoredEvent `json:"events"`
	Next   string        `json:"next"` // cursor of the next page, "" on the last page
}

// Logs reads one page. The error is an *InvalidError for a query that cannot be
// answered, ErrTooExpensive for one that reads too much, or an error of the
// connection.
func (c *Client) Logs(ctx context.Context, q LogQuery) (LogPage, error) {
	logs, next, err := readPage[StoredLog](ctx, c, record.KindLog, q)
	return LogPage{Logs: logs, Next: next}, err
}

// Events reads one page. Its errors are those of Logs.
func (c *Client) Events(ctx context.Context, q EventQuery) (EventPage, error) {
	events, next, err := readPage[StoredEvent](ctx, c, record.KindEvent, q)
	return EventPage{Events: events, Next: next}, err
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
	s, before, limit, err := q.check(kind)
	if err != nil {
		return nil, "", err
	}
	found, next, size := []T{}, "", 0
	err = c.read(ctx, kind.String(), s, before.arguments(limit+1), func(rows driver.Rows) (bool, error) {
		if n := len(found); n == limit || size > maxPageBytes { // this row is on the next page
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

// check returns what a page reads: limit rows of the scope before a position.
func (q Query) check(kind record.Kind) (s scope, before position, limit int, err error) {
	if limit, err = pageLimit(q.Limit); err != nil {
		return s, before, 0, err
	}
	if before, err = parseCursor(kind, q.Project, q.Cursor); err != nil {
		return s, before, 0, err
	}
	s = newScope(q.Project, q.From, q.To, q.Filter)
	// The primary key understands a bound of the time, but not the comparison of
	// tuples.
	s.last = min(s.last, before.time)
	return s, before, limit, nil
}

func pageLimit(limit int) (int, error) {
	if limit == 0 {
		return defaultLimit, nil
	}
	if limit < 0 || limit > maxLimit {
		return 0, &InvalidError{"limit", fmt.Sprintf("%d is not between 1 and %d", limit, maxLimit)}
	}
	return limit, nil
}

// position is a place in the order of pages. The row's ID makes it exact, because
// several rows may have the same timestamp.
type position struct {
	time int64 // Unix nanoseconds
	id   record.RowID
}

// arguments returns the parameters of a statement that begins at the position
// and reads up to limit rows.
func (p position) arguments(limit int) []any {
	return []any{
		ch.Named("at_time", p.time),
		ch.Named("at_shard", p.id.Shard),
		ch.Named("at_seq", p.id.Seq),
		ch.Named("at_idx", p.id.Idx),
		ch.Named("limit", limit),
	}
}

// newest is the position before all rows, newest first.
var newest = position{math.MaxInt64, record.RowID{Shard: math.MaxUint8, Seq: math.MaxUint64, Idx: math.MaxUint32}}
