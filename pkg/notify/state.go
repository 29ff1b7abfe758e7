package notify

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/logboom/logboom/pkg/ledger"
	"github.com/logboom/logboom/pkg/outbox"
	"github.com/logboom/logboom/pkg/stream"
)

// bucketName holds what notifiers know of destinations, and their leases.
const bucketName = "NOTIFIER"

const (
	callTimeout = 3 * time.Second
	// markerTTL is how long the server keeps a note of a lease that ran out.
	markerTTL = time.Second
)

// Bucket is the notifiers' memory.
type Bucket struct {
	kv jetstream.KeyValue
}

// OpenBucket makes it where it is missing.
func OpenBucket(ctx context.Context, js jetstream.JetStream, replicas int) (*Bucket, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	kv, err := js.KeyValue(ctx, bucketName)
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		kv, err = js.CreateKeyValue(ctx, jetstream.KeyValueConfig{
			Bucket: bucketName, Description: "destinations of alerts, and who works them", History: 1,
			Storage: jetstream.FileStorage, Replicas: max(replicas, 1), LimitMarkerTTL: markerTTL,
		})
	}
	if errors.Is(err, jetstream.ErrBucketExists) {
		kv, err = js.KeyValue(ctx, bucketName)
	}
	if err != nil {
		return nil, fmt.Errorf("bucket %s: %w", bucketName, err)
	}
	return &Bucket{kv: kv}, nil
}

// all reads the keys below a prefix as they are now.
func (b *Bucket) all(ctx context.Context, prefixes ...string) (map[string]jetstream.KeyValueEntry, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	filters := make([]string, len(prefixes))
	for i, prefix := range prefixes {
		filters[i] = prefix + ">"
	}
	watcher, err := b.kv.WatchFiltered(ctx, filters, jetstream.IgnoreDeletes())
	if err != nil {
		return nil, fmt.Errorf("read bucket %s: %w", bucketName, err)
	}
	defer func() { _ = watcher.Stop() }() // the server forgets it by itself
	found := map[string]jetstream.KeyValueEntry{}
	for {
		select {
		case entry, ok := <-watcher.Updates():
			switch {
			case !ok:
				return nil, fmt.Errorf("read bucket %s: %w", bucketName, stream.ErrUnavailable)
			case entry == nil: // the end of what is there now
				return found, nil
			}
			found[entry.Key()] = entry
		case <-ctx.Done():
			return nil, fmt.Errorf("read bucket %s: %w", bucketName, context.Cause(ctx))
		}
	}
}

// swap writes a value in place of the revision that it came from, 0 where there
// was none. A swap without an answer is settled by reading the key. Of two who
// try, one gets ledger.ErrFenced.
func (b *Bucket) swap(ctx context.Context, key string, value any, base uint64) (uint64, error) {
	text, err := json.Marshal(value)
	if err != nil {
		return 0, fmt.Errorf("swap %s: %w", key, err)
	}
	for attempt := 0; ; attempt++ {
		revision, err := b.update(ctx, key, text, base)
		if err == nil {
			return revision, nil
		}
		have, readErr := b.get(ctx, key)
		switch {
		case readErr != nil:
		case have != nil && bytes.Equal(have.Value(), text):
			return have.Revision(), nil
		case have != nil && have.Revision() > base:
			return 0, fmt.Errorf("swap %s: %w", key, ledger.ErrFenced)
		}
		if err := pause(ctx, pauses[min(attempt, len(pauses)-1)]); err != nil {
			return 0, fmt.Errorf("swap %s: %w", key, err)
		}
	}
}

func (b *Bucket) update(ctx context.Context, key string, text []byte, base uint64) (uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if base == 0 {
		return b.kv.Create(ctx, key, text)
	}
	return b.kv.Update(ctx, key, text, base)
}

// get reads one key; nil where it is not there.
func (b *Bucket) get(ctx context.Context, key string) (jetstream.KeyValueEntry, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	entry, err := b.kv.Get(ctx, key)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return nil, nil
	}
	return entry, err
}

// Condition is how a destination is.
type Condition string

// The conditions.
const (
	Active     Condition = "active"
	BackingOff Condition = "backing_off"
	Disabled   Condition = "disabled"
)

// state is what is kept of a destination. Changed by compare-and-swap only.
type state struct {
	Project   string        `json:"project"`
	Condition Condition     `json:"condition"`
	Address   string        `json:"address,omitempty"` // a digest, to see that it was changed
	Committed uint64        `json:"committed"`         // outbox sequence up to which all is dealt with
	Event     *outbox.Place `json:"event,omitempty"`   // the newest event among them
	EventTime time.Time     `json:"event_time,omitzero"`
	Intent    *intent       `json:"intent,omitempty"`
	Last      *outcome      `json:"last,omitempty"`   // what became of those up to Committed: their rows may be missing
	Next      time.Time     `json:"next,omitzero"`    // not to be tried before
	Failing   time.Time     `json:"failing,omitzero"` // since when nothing was delivered
}

// intent is the message that is being delivered: all that waits in From..To.
type intent struct {
	ID      string    `json:"id"`
	From    uint64    `json:"from"`
	To      uint64    `json:"to"`
	Digest  bool      `json:"digest,omitempty"`
	Attempt int       `json:"attempt"` // from 1
	First   time.Time `json:"first"`   // when the first attempt began
	Open    bool      `json:"open,omitempty"`
	Unknown bool      `json:"unknown,omitempty"` // an attempt may have arrived
}

// outcome is how a message ended.
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

func destinationKeys(partition int) string { return "dest." + strconv.Itoa(partition) + "." }

// states reads a partition's destinations, by the key of their project.
func (b *Bucket) states(ctx context.Context, partition int) (map[string]held, error) {
	prefix := destinationKeys(partition)
	entries, err := b.all(ctx, prefix)
	if err != nil {
		return nil, err
	}
	found := make(map[string]held, len(entries))
	for key, entry := range entries {
		h := held{revision: entry.Revision()}
		if err := json.Unmarshal(entry.Value(), &h.state); err != nil {
			return nil, fmt.Errorf("destination %s: %w", key, err)
		}
		found[strings.TrimPrefix(key, prefix)] = h
	}
	return found, nil
}

// held is a state with its revision.
type held struct {
	state
	revision uint64
}
