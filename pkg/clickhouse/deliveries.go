package clickhouse

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"math"
	"slices"
	"strings"
	"time"

	ch "github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
)

// DeliveryState is how far a notification has come.
type DeliveryState uint8

// The states, as the table numbers them. Of rows of one time the higher counts.
const (
	DeliveryQueued    DeliveryState = 1
	DeliveryAttempt   DeliveryState = 2 // an attempt failed, another will follow
	DeliveryDelivered DeliveryState = 3
	DeliveryFailed    DeliveryState = 4 // no other attempt will follow
	DeliveryCoalesced DeliveryState = 5 // is one of those that a digest counts
)

// stateType is the column's type; the words are those of DeliveryStates.
const stateType = "Enum8('queued' = 1, 'attempt' = 2, 'delivered' = 3, 'failed' = 4, 'coalesced' = 5)"

// DeliveryStates are the states' words, in the order of their numbers.
func DeliveryStates() []string {
	return []string{"queued", "attempt", "delivered", "failed", "coalesced"}
}

// DeliveryRow is a state that a notification entered. A repeated row counts
// once, since a notification is read as its newest state.
type DeliveryRow struct {
	Project     string `json:"project"` // the project's id
	Time        int64  `json:"time"`    // Unix nanoseconds
	Event       string `json:"event"`   // the notification's id
	Destination string `json:"destination"`
	Format      string `json:"format"`
	Attempt     uint16 `json:"attempt"` // from 1; 0 where none was made

	State  DeliveryState `json:"state"`
	Status uint16        `json:"status"` // of the service's answer, 0 without one
	Answer string        `json:"answer"`
	Detail string        `json:"detail"`
}

// InsertDeliveries inserts rows as one block under a deduplication token.
func (c *Client) InsertDeliveries(ctx context.Context, token string, rows []DeliveryRow) error {
	if len(rows) == 0 {
		return nil
	}
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

// Delivery is a notification as the API shows it: its newest state.
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

// DeliveryQuery asks for a page of a project's notifications, by when they
// were queued, newest first.
type DeliveryQuery struct {
	Project  string // the project's id, chosen by whoever checked the right to read it
	From, To time.Time
	State    string // one of DeliveryStates; "": all
	Limit    int    // at most 1000; 0 means 100
	Cursor   string
}

// DeliveryPage is one page of them.
type DeliveryPage struct {
	Deliveries []Delivery `json:"deliveries"`
	Next       string     `json:"next"` // cursor of the next page, "" when this is the last
}

// Deliveries reads one page.
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

// arguments are the parameters of sql/deliveries.sql. One row more than asked
// for tells whether another page follows.
func (q *DeliveryQuery) arguments() (arguments []any, limit int, err error) {
	if limit = q.Limit; limit == 0 {
		limit = defaultLimit
	}
	if limit < 0 || limit > maxLimit {
		return nil, 0, &InvalidError{"limit", fmt.Sprintf("%d is not within 1 to %d", limit, maxLimit)}
	}
	if q.State != "" && !slices.Contains(DeliveryStates(), q.State) {
		return nil, 0, &InvalidError{"state", "must be one of " + strings.Join(DeliveryStates(), ", ")}
	}
	at, event, err := parseDeliveryCursor(q.Project, q.Cursor)
	if err != nil {
		return nil, 0, err
	}
	to := int64(math.MaxInt64)
	if !q.To.IsZero() {
		to = nanoseconds(q.To, 0) - 1
	}
	return []any{
		ch.Named("project", q.Project),
		ch.Named("from", nanoseconds(q.From, math.MinInt64)),
		ch.Named("to", to),
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

const deliveryCursorHead = 1 + 8 + 8 // version, time, seal; the event follows

// deliveryCursor is the place of a page's last notification, sealed like the
// cursors of records.
func deliveryCursor(project string, at int64, event string) string {
	raw := binary.BigEndian.AppendUint64([]byte{cursorVersion}, uint64(at))
	raw = binary.BigEndian.AppendUint64(raw, deliverySeal(project, at, event))
	return base64.RawURLEncoding.EncodeToString(append(raw, event...))
}

// lastEvent comes after every notification's id.
const lastEvent = "\xff"

func parseDeliveryCursor(project, text string) (at int64, event string, err error) {
	if text == "" {
		return math.MaxInt64, lastEvent, nil
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || strings.ContainsAny(text, "\r\n") || len(raw) < deliveryCursorHead || raw[0] != cursorVersion {
		return 0, "", &InvalidError{"cursor", "not one of ours, take it from the answer's next"}
	}
	at, event = int64(binary.BigEndian.Uint64(raw[1:])), string(raw[deliveryCursorHead:])
	if binary.BigEndian.Uint64(raw[9:]) != deliverySeal(project, at, event) {
		return 0, "", &InvalidError{"cursor", "of another list, start again without one"}
	}
	return at, event, nil
}

func deliverySeal(project string, at int64, event string) uint64 {
	hash := fnv.New64a()
	_, _ = fmt.Fprintf(hash, "deliveries\x00%s\x00%d\x00%s", project, at, event) // never fails
	return hash.Sum64()
}
