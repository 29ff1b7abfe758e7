package notify

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/logboom/logboom/pkg/kv"
	"github.com/logboom/logboom/pkg/lease"
	"github.com/logboom/logboom/pkg/ledger"
	"github.com/logboom/logboom/pkg/outbox"
)

const (
	// bucketName is the bucket of the destinations' states, the quota warnings and
	// the positions in the streams of logs.
	bucketName  = "NOTIFIER"
	callTimeout = 3 * time.Second
)

// Bucket stores the notifiers' state.
type Bucket struct{ kv *kv.Bucket }

// OpenBucket opens the notifiers' bucket and creates it if it is missing.
func OpenBucket(ctx context.Context, js jetstream.JetStream, replicas int) (*Bucket, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	b, err := kv.Open(ctx, js, kv.Config{Name: bucketName, Description: "states of the destinations of alerts", Replicas: replicas})
	if err != nil {
		return nil, err
	}
	return &Bucket{kv: b}, nil
}

// newMember returns this notifier's member of the leases, which are in the bucket
// too.
func (b *Bucket) newMember(name string, logger *slog.Logger) (*lease.Member, error) {
	return lease.NewMember(b.kv, lease.Keys{Member: "member.", Claim: "lease."}, name, logger)
}

// load decodes the value of a key and returns its revision. The error is
// kv.ErrNotFound if there is none.
func (b *Bucket) load(ctx context.Context, key string, value any) (revision uint64, err error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	entry, err := b.kv.Get(ctx, key)
	if err != nil {
		return 0, err
	}
	return entry.Revision, entry.Decode(value)
}

// swap stores a value in place of a revision, 0 if there was none, and returns
// the new revision. It retries until it succeeds. If another notifier has stored
// a value meanwhile, the error is ledger.ErrFenced.
func (b *Bucket) swap(ctx context.Context, key string, value any, revision uint64) (stored uint64, err error) {
	err = retry(ctx, func() error {
		ctx, cancel := context.WithTimeout(ctx, callTimeout)
		defer cancel()
		stored, err = b.kv.Swap(ctx, key, value, revision)
		if errors.Is(err, kv.ErrChanged) {
			return backoff.Permanent(fmt.Errorf("%w: %w", ledger.ErrFenced, err))
		}
		return err
	}, func(error) {})
	return stored, err
}

// logPositionKey is the key of the position in a stream of logs.
func logPositionKey(stream string) string { return "logs." + stream }

// logPosition returns the message to read next in a stream of logs; 0 if there is
// no position.
func (b *Bucket) logPosition(ctx context.Context, stream string) (seq uint64, err error) {
	if _, err = b.load(ctx, logPositionKey(stream), &seq); errors.Is(err, kv.ErrNotFound) {
		return 0, nil
	}
	return seq, err
}

func (b *Bucket) storeLogPosition(ctx context.Context, stream string, seq uint64) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	_, err := b.kv.Put(ctx, logPositionKey(stream), seq)
	return err
}

// clearLogPosition stores 0 as a position, unless there is none.
func (b *Bucket) clearLogPosition(ctx context.Context, stream string) error {
	if seq, err := b.logPosition(ctx, stream); err != nil || seq == 0 {
		return err
	}
	return b.storeLogPosition(ctx, stream, 0)
}

// condition is the state of a destination.
type condition string

// The conditions.
const (
	active     condition = "active"
	backingOff condition = "backing_off"
	disabled   condition = "disabled"
)

// state is the stored state of a destination. It is changed by compare-and-swap
// only.
type state struct {
	Project   string                `json:"project"`
	Condition condition             `json:"condition"`
	Address   string                `json:"address,omitempty"` // a fingerprint, for noticing a changed address
	Committed uint64                `json:"committed"`         // outbox sequence up to which all alerts are finished
	Event     *outbox.EventPosition `json:"event,omitempty"`   // the newest finished event
	EventTime time.Time             `json:"event_time,omitzero"`
	Intent    *intent               `json:"intent,omitempty"`
	Last      *outcome              `json:"last,omitempty"`   // of the message that ends at Committed: its rows may be missing
	Next      time.Time             `json:"next,omitzero"`    // no attempt before
	Failing   time.Time             `json:"failing,omitzero"` // the first failure since the last success
}

// intent is the message that is being delivered. It stands for all alerts from
// From to To.
type intent struct {
	ID      string    `json:"id"`
	From    uint64    `json:"from"`
	To      uint64    `json:"to"`
	Digest  bool      `json:"digest,omitempty"`
	Attempt int       `json:"attempt"`           // from 1
	First   time.Time `json:"first"`             // when the first attempt began
	Open    bool      `json:"open,omitempty"`    // the outcome of the attempt is not stored
	Unknown bool      `json:"unknown,omitempty"` // an attempt may have arrived
}

// outcome says how a message ended.
type outcome struct {
	ID          string    `json:"id"`
	From        uint64    `json:"from"`
	To          uint64    `json:"to"`
	Digest      bool      `json:"digest,omitempty"`
	State       uint8     `json:"state"` // a clickhouse.DeliveryState
	Attempt     int       `json:"attempt"`
	Status      int       `json:"status"`
	Answer      string    `json:"answer,omitempty"`
	Detail      string    `json:"detail,omitempty"`
	Destination string    `json:"destination"`
	Format      string    `json:"format"`
	Time        time.Time `json:"time"`
}

// storedState is a state with its revision.
type storedState struct {
	state
	revision uint64
}

func stateKeys(partition int) string { return "dest." + strconv.Itoa(partition) + "." }

// loadStates returns the states of a partition's destinations by the key of their
// project.
func (b *Bucket) loadStates(ctx context.Context, partition int) (map[string]storedState, error) {
	prefix := stateKeys(partition)
	entries, err := b.kv.List(ctx, prefix+">")
	if err != nil {
		return nil, err
	}
	states := make(map[string]storedState, len(entries))
	for _, entry := range entries {
		s := storedState{revision: entry.Revision}
		if err := entry.Decode(&s.state); err != nil {
			return nil, fmt.Errorf("destination: %w", err)
		}
		states[strings.TrimPrefix(entry.Key, prefix)] = s
	}
	return states, nil
}
