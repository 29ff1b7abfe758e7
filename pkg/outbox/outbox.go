// Package outbox is the queue between the notifier and the chats: what waits to
// be delivered, in order for each destination, until it is.
//
// The notifier puts alerts in and takes them out; admin puts a dead letter back
// in. It stands apart from the streams of records because those are read once,
// in one order, and a destination that is dead for a day must hold up neither
// them nor another destination. A newcomer's usual mistake is to look for a
// position here: what is delivered is removed, and what is there is to do.
//
//	EVENTS_<s> ─▶ NOTIFY notify.<partition>.<project> ─▶ chat
//	                │ rejected, or given up                │ what became of it
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
	Stream     = "NOTIFY"   // alerts that wait; subjects notify.<partition>.<project>
	RowsStream = "NOTIFIED" // what became of them, on its way to ClickHouse; subjects notified.<partition>
)

const (
	// perDestination is how many alerts may wait for one destination: a flood
	// of one project must not take the others' room.
	perDestination  = 10_000
	defaultMaxBytes = 64 << 20
	duplicateWindow = 10 * time.Minute
	apiTimeout      = 5 * time.Second
)

// What Put answers when an alert was not taken.
var (
	// ErrFull: too many wait for this destination, or in all.
	ErrFull = errors.New("too many alerts wait to be delivered")
	// ErrUnavailable: the queue is away or did not answer. Put again, the same.
	ErrUnavailable = errors.New("the queue of alerts is unavailable")
)

// Place is where an event came from: its shard's stream, the sequence of its
// message and the position in it.
type Place struct {
	Shard int    `json:"shard"`
	Seq   uint64 `json:"seq"`
	Idx   uint32 `json:"idx"`
}

// Entry is one alert that waits.
type Entry struct {
	ID      string          `json:"id"`
	Project string          `json:"project"`          // the project's id
	Event   *Place          `json:"event,omitempty"`  // of an event
	Since   time.Time       `json:"since"`            // when the queue had what it is about
	Replay  uint64          `json:"replay,omitempty"` // the dead letter that it was, else 0
	Message webhook.Message `json:"message"`
}

// Decode reads what Put wrote.
func Decode(data []byte) (Entry, error) {
	var e Entry
	if err := json.Unmarshal(data, &e); err != nil {
		return Entry{}, fmt.Errorf("waiting alert: %w", err)
	}
	return e, nil
}

func encode(e Entry) ([]byte, error) {
	data, err := json.Marshal(e)
	if err != nil {
		return nil, fmt.Errorf("alert %s: %w", e.ID, err)
	}
	return data, nil
}

// Config says how the streams are made.
type Config struct {
	Partitions int   // among which projects are spread; may not change
	Replicas   int   // of each stream. Default 1
	MaxBytes   int64 // of alerts that wait; half as much of what became of them. Default 64 MiB
}

// Outbox is the queue. Any number of processes may use it at once.
type Outbox struct {
	js         jetstream.JetStream
	partitions int
}

// Open makes the streams where they are missing.
func Open(ctx context.Context, js jetstream.JetStream, cfg Config) (*Outbox, error) {
	if cfg.Partitions < 1 {
		return nil, fmt.Errorf("outbox: %d partitions: give 1 or more", cfg.Partitions)
	}
	cfg.Replicas = max(cfg.Replicas, 1)
	if cfg.MaxBytes <= 0 {
		cfg.MaxBytes = defaultMaxBytes
	}
	for _, stream := range cfg.streams() {
		if err := ensure(ctx, js, stream); err != nil {
			return nil, fmt.Errorf("outbox: stream %s: %w", stream.Name, err)
		}
	}
	return &Outbox{js: js, partitions: cfg.Partitions}, nil
}

// streams are both. A full NOTIFY refuses, and one full destination refuses for
// itself; of NOTIFIED the oldest go, for a chat must not wait for ClickHouse.
func (c *Config) streams() []jetstream.StreamConfig {
	common := jetstream.StreamConfig{Storage: jetstream.FileStorage, Replicas: c.Replicas, Duplicates: duplicateWindow, AllowDirect: true}
	waiting, rows := common, common
	waiting.Name, waiting.Subjects, waiting.MaxBytes = Stream, []string{"notify.>"}, c.MaxBytes
	waiting.Discard, waiting.DiscardNewPerSubject, waiting.MaxMsgsPerSubject = jetstream.DiscardNew, true, perDestination
	rows.Name, rows.Subjects, rows.MaxBytes = RowsStream, []string{"notified.>"}, c.MaxBytes/2
	rows.Discard = jetstream.DiscardOld
	return []jetstream.StreamConfig{waiting, rows}
}

func ensure(ctx context.Context, js jetstream.JetStream, cfg jetstream.StreamConfig) error {
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

// Partition is the one that a project's alerts wait in.
func (o *Outbox) Partition(projectID string) int {
	return int(xxhash.Sum64String(projectID) % uint64(o.partitions))
}

// Subject is where a project's alerts wait.
func (o *Outbox) Subject(projectID string) string {
	return "notify." + strconv.Itoa(o.Partition(projectID)) + "." + Key(projectID)
}

// Subjects is where all alerts of a partition wait.
func Subjects(partition int) string { return "notify." + strconv.Itoa(partition) + ".>" }

// RowsSubject is where the rows of a partition are.
func RowsSubject(partition int) string { return "notified." + strconv.Itoa(partition) }

// Key spells a project's id as part of a subject or key: "/" is in no id, and
// "." and "~" in no such part.
func Key(projectID string) string {
	return strings.NewReplacer(".", "=", "~", "/").Replace(projectID)
}

// Put has an alert wait for its destination. It is on disk when this returns
// without an error. The same one put again within ten minutes waits once.
func (o *Outbox) Put(ctx context.Context, e Entry) error {
	data, err := encode(e)
	if err != nil {
		return err
	}
	return put(ctx, o.js, o.Subject(e.Project), e, data)
}

func put(ctx context.Context, js jetstream.JetStream, subject string, e Entry, data []byte) error {
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	id := e.ID
	if e.Replay != 0 {
		id = "replay-" + strconv.FormatUint(e.Replay, 10)
	}
	m := &nats.Msg{Subject: subject, Data: data, Header: nats.Header{}}
	_, err := js.PublishMsg(ctx, m, jetstream.WithMsgID(Key(e.Project)+"."+id), jetstream.WithExpectStream(Stream))
	var refused *jetstream.APIError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &refused):
		return fmt.Errorf("alert %s: %w: %w", e.ID, ErrFull, err)
	}
	return fmt.Errorf("alert %s: %w: %w", e.ID, ErrUnavailable, err)
}

// PutRows keeps what became of alerts until it is stored.
func (o *Outbox) PutRows(ctx context.Context, partition int, data []byte) error {
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	if _, err := o.js.Publish(ctx, RowsSubject(partition), data, jetstream.WithExpectStream(RowsStream)); err != nil {
		return fmt.Errorf("rows of alerts: %w", err)
	}
	return nil
}

// Entry reads one alert that waits.
func (o *Outbox) Entry(ctx context.Context, seq uint64) (Entry, error) {
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

// Remove takes away what waits under a subject, up to a sequence.
func (o *Outbox) Remove(ctx context.Context, subject string, to uint64) error {
	return o.purge(ctx, Stream, subject, to)
}

// RemoveRows takes away the rows of a partition, up to a sequence.
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
