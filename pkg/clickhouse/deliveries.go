package clickhouse

import (
	"context"
	"encoding/binary"
	"math"
	"slices"
	"strings"
	"time"

	ch "github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/logboom/logboom/pkg/query"
)

// DeliveryState is the state of a notification.
type DeliveryState uint8

// The states, with the numbers of the table. Of rows with the same time the
// highest state counts.
const (
	DeliveryQueued    DeliveryState = 1
	DeliveryAttempt   DeliveryState = 2 // an attempt failed; another will follow
	DeliveryDelivered DeliveryState = 3
	DeliveryFailed    DeliveryState = 4 // no other attempt will follow
	DeliveryCoalesced DeliveryState = 5 // a digest counts it instead
)

// stateType is the type of the column; its words are those of DeliveryStates.
const stateType = "Enum8('queued' = 1, 'attempt' = 2, 'delivered' = 3, 'failed' = 4, 'coalesced' = 5)"

// DeliveryStates returns the names of the states, in the order of their numbers.
func DeliveryStates() []string {
	return []string{"queued", "attempt", "delivered", "failed", "coalesced"}
}

// DeliveryRow is a state that a notification entered. A row that is inserted
// twice has no effect, because reads return the newest state.
type DeliveryRow struct {
	Project     string `json:"project"` // the project's ID
	Time        int64  `json:"time"`    // Unix nanoseconds
	Event       string `json:"event"`   // the notification's ID
	Destination string `json:"destination"`
	Format      string `json:"format"`
	Attempt     uint16 `json:"attempt"` // from 1; 0 before the first

	State  DeliveryState `json:"state"`
	Status uint16        `json:"status"` // HTTP status of the answer, 0 without an answer
	Answer string        `json:"answer"`
	Detail string        `json:"detail"`
}

// InsertDeliveries inserts rows as one block under a deduplication token.
func (c *Client) InsertDeliveries(ctx context.Context, token string, rows []DeliveryRow) error {
	var project, destination, format words
	var event, answer, detail text
	var at, attempt, state, status fixed
	for _, r := range rows {
		project.append(r.Project)
		at.append64(uint64(r.Time))
		event.append(r.Event)
		destination.append(r.Destination)
		format.append(r.Format)
		attempt.append16(r.Attempt)
		state.append8(uint8(r.State))
		status.append16(r.Status)
		answer.append(r.Answer)
		detail.append(r.Detail)
	}
	return c.insert(ctx, token, "deliveries", []field{
		{"project", lowCardinality, &project},
		{"time", dateTime, &at},
		{"event", "String", &event},
		{"destination", lowCardinality, &destination},
		{"format", lowCardinality, &format},
		{"attempt", "UInt16", &attempt},
		{"state", stateType, &state},
		{"status", "UInt16", &status},
		{"answer", "String", &answer},
		{"detail", "String", &detail},
	}, len(rows))
}

// Delivery is a notification as the API shows it, in its newest state.
type Delivery struct {
	ID          string    `json:"id"`
	State       string    `json:"state"`
	Attempts    int       `json:"attempts"`
	Destination string    `json:"destination"` // host and last four characters
	Format      string    `json:"format"`
	Status      int       `json:"status"`
	Answer      string    `json:"answer"`
	Detail      string    `json:"detail"`
	Queued      time.Time `json:"queued"`
	Changed     time.Time `json:"changed"`
}

// DeliveryQuery asks for a page of a project's notifications, the ones queued
// last first.
type DeliveryQuery struct {
	Project  string // the project's ID; the caller has checked the right to read it
	From, To time.Time
	State    string // one of DeliveryStates; "": all
	Limit    int    // at most 1000; 0 means 100
	Cursor   string
}

// DeliveryPage is one page of notifications.
type DeliveryPage struct {
	Deliveries []Delivery `json:"deliveries"`
	Next       string     `json:"next"` // cursor of the next page, "" on the last page
}

// Deliveries reads one page. Its errors are those of Logs.
func (c *Client) Deliveries(ctx context.Context, q DeliveryQuery) (DeliveryPage, error) {
	page := DeliveryPage{Deliveries: []Delivery{}}
	arguments, limit, err := q.arguments()
	if err != nil {
		return page, err
	}
	err = c.each(ctx, statement("deliveries"), arguments, func(rows driver.Rows) (bool, error) {
		if n := len(page.Deliveries); n == limit {
			last := page.Deliveries[n-1]
			page.Next = deliveryCursor(q.Project, last.Queued.UnixNano(), last.ID)
			return false, nil
		}
		found, err := scanDelivery(rows)
		page.Deliveries = append(page.Deliveries, found)
		return true, err
	})
	if err != nil {
		return DeliveryPage{}, readError("deliveries", err)
	}
	return page, nil
}

// arguments returns the parameters of sql/deliveries.sql. One row more than the
// limit shows whether another page follows.
func (q *DeliveryQuery) arguments() (arguments []any, limit int, err error) {
	if limit, err = pageLimit(q.Limit); err != nil {
		return nil, 0, err
	}
	if q.State != "" && !slices.Contains(DeliveryStates(), q.State) {
		return nil, 0, &InvalidError{"state", "it is not one of " + strings.Join(DeliveryStates(), ", ")}
	}
	at, event, err := parseDeliveryCursor(q.Project, q.Cursor)
	if err != nil {
		return nil, 0, err
	}
	times := newScope(q.Project, q.From, q.To, query.Query{})
	return []any{
		ch.Named("project", q.Project),
		ch.Named("from", times.first),
		ch.Named("to", times.last),
		ch.Named("before_time", at),
		ch.Named("before_event", event),
		ch.Named("state", q.State),
		ch.Named("limit", limit+1),
	}, limit, nil
}

// scanDelivery reads the columns of sql/deliveries.sql.
func scanDelivery(rows driver.Rows) (d Delivery, err error) {
	var attempts, status uint16
	err = rows.Scan(&d.ID, &d.Queued, &d.Changed, &attempts, &d.State, &d.Destination, &d.Format, &status, &d.Answer, &d.Detail)
	d.Attempts, d.Status = int(attempts), int(status)
	return d, err
}

// deliveryCursor returns the place of a page's last notification as a cursor.
func deliveryCursor(project string, at int64, event string) string {
	return sealCursor("deliveries", project, append(binary.BigEndian.AppendUint64(nil, uint64(at)), event...))
}

// lastEvent sorts after the ID of every notification.
const lastEvent = "\xff"

func parseDeliveryCursor(project, text string) (at int64, event string, err error) {
	if text == "" {
		return math.MaxInt64, lastEvent, nil
	}
	place, err := openCursor("deliveries", project, text)
	if err != nil {
		return 0, "", err
	}
	if len(place) < 8 {
		return 0, "", &InvalidError{"cursor", notCursor}
	}
	return int64(binary.BigEndian.Uint64(place)), string(place[8:]), nil
}
