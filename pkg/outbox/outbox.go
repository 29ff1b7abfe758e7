// Package outbox is the queue of alerts between the notifier and the chats. It
// holds the alerts that wait to be delivered, in order for each destination.
//
// The notifier publishes and delivers alerts; admin publishes a dead letter again.
// The outbox is apart from the streams of records because those are read once, in
// one order: a destination that fails for a day must delay neither them nor
// another destination. What a newcomer would get wrong: the outbox has no
// position. An alert is removed when it is finished, so whatever is in the outbox
// waits.
//
//	EVENTS_<s> ─▶ NOTIFY notify.<partition>.<project> ─▶ chat
//	                │ rejected, or given up                │ rows
//	                ▼                                      ▼
//	              DEAD ──replay──▶ NOTIFY      NOTIFIED notified.<partition> ─▶ ClickHouse
package outbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/logboom/logboom/pkg/webhook"
)

// The streams.
const (
	Stream     = "NOTIFY"   // waiting alerts; subjects notify.<partition>.<project>
	RowsStream = "NOTIFIED" // rows of deliveries that wait for ClickHouse; subjects notified.<partition>
)

const (
	// maxPerDestination is how many alerts may wait for one destination, so that
	// one project does not use up the room of the others.
	maxPerDestination = 10_000
	defaultMaxBytes   = 64 << 20
	duplicateWindow   = 10 * time.Minute
	apiTimeout        = 5 * time.Second
)

// Errors of Publish.
var (
	// ErrFull means that too many alerts wait for this destination, or in total.
	ErrFull = errors.New("too many alerts wait to be delivered")
	// ErrUnavailable means that the queue did not answer. Publish the same entry
	// again.
	ErrUnavailable = errors.New("the queue of alerts is unavailable")
)

// EventPosition is the position of an event: its shard, the sequence of its
// message, and its index in the message.
type EventPosition struct {
	Shard int    `json:"shard"`
	Seq   uint64 `json:"seq"`
	Idx   uint32 `json:"idx"`
}

// Entry is one waiting alert.
type Entry struct {
	ID      string          `json:"id"`
	Project string          `json:"project"`          // the project's ID
	Event   *EventPosition  `json:"event,omitempty"`  // of an event's alert
	Since   time.Time       `json:"since"`            // when the queue stored the record or the warning
	Replay  uint64          `json:"replay,omitempty"` // the dead letter that was replayed, or 0
	Message webhook.Message `json:"message"`
}

// Decode decodes the data of a message in the outbox.
func Decode(data []byte) (Entry, error) {
	var e Entry
	if err := json.Unmarshal(data, &e); err != nil {
		return Entry{}, fmt.Errorf("waiting alert: %w", err)
	}
	return e, nil
}

// Config configures the streams. It is used only when they are created.
type Config struct {
	Partitions int   // number of partitions, over which projects are spread; must never change
	Replicas   int   // of each stream. Default 1
	MaxBytes   int64 // of waiting alerts; rows get half as much. Default 64 MiB
}

// Outbox is the queue. Any number of processes may use it at once.
type Outbox struct {
	js         jetstream.JetStream
	partitions int
}

// Open opens the outbox and creates the streams that are missing.
func Open(ctx context.Context, js jetstream.JetStream, cfg Config) (*Outbox, error) {
	if cfg.Partitions < 1 {
		return nil, fmt.Errorf("outbox: %d partitions: give 1 or more", cfg.Partitions)
	}
	cfg.Replicas = max(cfg.Replicas, 1)
	if cfg.MaxBytes <= 0 {
		cfg.MaxBytes = defaultMaxBytes
	}
	common := jetstream.StreamConfig{Storage: jetstream.FileStorage, Replicas: cfg.Replicas, Duplicates: duplicateWindow, AllowDirect: true}
	alerts, rows := common, common
	// A full stream of alerts refuses more, and so does a full destination.
	alerts.Name, alerts.Subjects, alerts.MaxBytes = Stream, []string{"notify.>"}, cfg.MaxBytes
	alerts.Discard, alerts.DiscardNewPerSubject, alerts.MaxMsgsPerSubject = jetstream.DiscardNew, true, maxPerDestination
	// A full stream of rows drops the oldest: chats must not wait for ClickHouse.
	rows.Name, rows.Subjects, rows.MaxBytes = RowsStream, []string{"notified.>"}, cfg.MaxBytes/2
	rows.Discard = jetstream.DiscardOld
	for _, stream := range []jetstream.StreamConfig{alerts, rows} {
		if err := ensureStream(ctx, js, stream); err != nil {
			return nil, fmt.Errorf("outbox: stream %s: %w", stream.Name, err)
		}
	}
	return &Outbox{js: js, partitions: cfg.Partitions}, nil
}

func ensureStream(ctx context.Context, js jetstream.JetStream, cfg jetstream.StreamConfig) error {
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	_, err := js.Stream(ctx, cfg.Name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		_, err = js.CreateStream(ctx, cfg)
	}
	if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
		return nil // another process was faster
	}
	return err
}

// Partition returns the partition of a project.
func (o *Outbox) Partition(projectID string) int {
	return int(xxhash.Sum64String(projectID) % uint64(o.partitions))
}

// Subject returns the subject of a project's alerts.
func (o *Outbox) Subject(projectID string) string {
	return "notify." + strconv.Itoa(o.Partition(projectID)) + "." + Key(projectID)
}

// Subjects returns the subjects of all alerts of a partition.
func Subjects(partition int) string { return "notify." + strconv.Itoa(partition) + ".>" }

// RowsSubject returns the subject of the rows of a partition.
func RowsSubject(partition int) string { return "notified." + strconv.Itoa(partition) }

// Key encodes a project's ID as a part of a subject or key, in which "." and "~"
// are not allowed. IDs do not contain "=" or "/".
func Key(projectID string) string {
	return strings.NewReplacer(".", "=", "~", "/").Replace(projectID)
}

// Publish puts an alert into the outbox and returns once it is on disk. An alert
// that is published twice within ten minutes waits once.
func (o *Outbox) Publish(ctx context.Context, e Entry) error {
	return publish(ctx, o.js, o.Subject(e.Project), e)
}

func publish(ctx context.Context, js jetstream.JetStream, subject string, e Entry) error {
	data, err := json.Marshal(e)
	if err != nil {
		return fmt.Errorf("alert %s: %w", e.ID, err)
	}
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	id := e.ID
	if e.Replay != 0 {
		id = "replay-" + strconv.FormatUint(e.Replay, 10)
	}
	m := &nats.Msg{Subject: subject, Data: data, Header: nats.Header{}}
	_, err = js.PublishMsg(ctx, m, jetstream.WithMsgID(Key(e.Project)+"."+id), jetstream.WithExpectStream(Stream))
	var refused *jetstream.APIError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &refused):
		return fmt.Errorf("alert %s: %w: %w", e.ID, ErrFull, err)
	}
	return fmt.Errorf("alert %s: %w: %w", e.ID, ErrUnavailable, err)
}

// PublishRows stores encoded rows of deliveries until they are inserted.
func (o *Outbox) PublishRows(ctx context.Context, partition int, data []byte) error {
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	if _, err := o.js.Publish(ctx, RowsSubject(partition), data, jetstream.WithExpectStream(RowsStream)); err != nil {
		return fmt.Errorf("rows of deliveries: %w", err)
	}
	return nil
}

// Load reads one waiting alert by its sequence.
func (o *Outbox) Load(ctx context.Context, seq uint64) (Entry, error) {
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	s, err := o.js.Stream(ctx, Stream)
	if err != nil {
		return Entry{}, fmt.Errorf("waiting alert %d: %w", seq, err)
	}
	m, err := s.GetMsg(ctx, seq)
	if err != nil {
		return Entry{}, fmt.Errorf("waiting alert %d: %w", seq, err)
	}
	return Decode(m.Data)
}

// Remove removes the alerts of a subject up to a sequence.
func (o *Outbox) Remove(ctx context.Context, subject string, to uint64) error {
	return o.purge(ctx, Stream, subject, to)
}

// RemoveRows removes the rows of a partition up to a sequence.
func (o *Outbox) RemoveRows(ctx context.Context, partition int, to uint64) error {
	return o.purge(ctx, RowsStream, RowsSubject(partition), to)
}

func (o *Outbox) purge(ctx context.Context, stream, subject string, to uint64) error {
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	s, err := o.js.Stream(ctx, stream)
	if err != nil {
		return fmt.Errorf("remove from %s: %w", stream, err)
	}
	if err := s.Purge(ctx, jetstream.WithPurgeSubject(subject), jetstream.WithPurgeSequence(to+1)); err != nil {
		return fmt.Errorf("remove from %s: %w", stream, err)
	}
	return nil
}
