package clickhouse

import (
	"context"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/logboom/logboom/pkg/record"
)

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

// EventPage is one page of events, newest first.
type EventPage struct {
	Events []StoredEvent `json:"events"`
	Next   string        `json:"next"` // cursor of the next page, "" when this is the last
}

// Events reads one page, as Logs does.
func (c *Client) Events(ctx context.Context, q EventQuery) (EventPage, error) {
	events, next, err := readPage[StoredEvent](ctx, c, record.KindEvent, q)
	return EventPage{Events: events, Next: next}, err
}

// scan reads the columns of sql/events.sql.
func (e *StoredEvent) scan(rows driver.Rows) error {
	return rows.Scan(&e.ID.Shard, &e.ID.Seq, &e.ID.Idx, &e.Timestamp, &e.Channel, &e.Title,
		&e.Description, &e.Icon, &e.Notify, &e.Tags)
}

func (e *StoredEvent) position() position { return position{e.Timestamp.UnixNano(), e.ID} }

func (e *StoredEvent) size() int { return len(e.Title) + len(e.Description) + mapSize(e.Tags) }
