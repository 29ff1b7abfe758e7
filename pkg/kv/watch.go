package kv

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

const (
	listTimeout = 10 * time.Second
	// listStall is how long a list may receive nothing before it starts again. On
	// an overloaded machine one was seen to wait out all of its time beside
	// others who created and deleted keys; a fresh one did not. The cause is not
	// known.
	listStall = 2 * time.Second
	// drainTimeout bounds the wait for a stopped watch to close its channel,
	// which the client does at once.
	drainTimeout = 100 * time.Millisecond
)

var errStalled = errors.New("the list stalled")

// List returns the keys under the filters, such as "token.*" or "w.>", sorted by
// key; without a filter, all keys. A key that is written meanwhile is
// listed once, with one of its values.
func (b *Bucket) List(ctx context.Context, filters ...string) ([]Entry, error) {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	for {
		found, err := b.listOnce(ctx, filters)
		if errors.Is(err, errStalled) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("list bucket %s: %w: %w", b.name, ErrUnavailable, err)
		}
		return slices.SortedFunc(maps.Values(found), func(a, b Entry) int { return cmp.Compare(a.Key, b.Key) }), nil
	}
}

func (b *Bucket) listOnce(ctx context.Context, filters []string) (map[string]Entry, error) {
	watch, err := b.kv.WatchFiltered(ctx, slices.Clone(filters))
	if err != nil {
		return nil, err
	}
	defer stop(watch)
	stalled := time.NewTimer(listStall)
	defer stalled.Stop()
	found := listing{}
	for {
		select {
		case update, open := <-watch.Updates():
			if !open {
				return nil, jetstream.ErrConnectionClosed
			}
			stalled.Reset(listStall)
			if found.add(update); found.complete() {
				return found.entries, nil
			}
		case <-stalled.C:
			return nil, errStalled
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// listing collects the keys that a watch reports. The watch reports the end once
// it has delivered as many messages as there were at its beginning. A key that
// was written meanwhile has moved behind others, and may still be on its way:
// the list is complete when nothing is left behind the last message either.
type listing struct {
	entries map[string]Entry
	ended   bool   // as many messages came as there were
	behind  uint64 // messages that come after the last one
}

func (l *listing) add(update jetstream.KeyValueEntry) {
	if l.entries == nil {
		l.entries = map[string]Entry{}
	}
	if update == nil {
		l.ended = true
		return
	}
	l.behind = update.Delta()
	if e := entryOf(update); e.Deleted {
		delete(l.entries, e.Key)
	} else {
		l.entries[e.Key] = e
	}
}

func (l *listing) complete() bool { return l.ended && l.behind == 0 }

func entryOf(update jetstream.KeyValueEntry) Entry {
	e := Entry{Key: update.Key(), Value: update.Value(), Revision: update.Revision(), Time: update.Created()}
	if update.Operation() != jetstream.KeyValuePut {
		e.Value, e.Deleted = nil, true
	}
	return e
}

// Watcher reports every change of a bucket, in order.
type Watcher struct {
	bucket string
	watch  jetstream.KeyWatcher
}

// Watch reports every write and deletion from a revision on; 0 begins with what
// the bucket holds now. A watch can break in silence: a caller that must not
// miss a change compares what it has seen with Revision. The caller stops it.
func (b *Bucket) Watch(ctx context.Context, from uint64) (*Watcher, error) {
	watch, err := b.kv.WatchAll(ctx, jetstream.ResumeFromRevision(from))
	if err != nil {
		return nil, fmt.Errorf("watch bucket %s: %w: %w", b.name, ErrUnavailable, err)
	}
	return &Watcher{b.name, watch}, nil
}

// Next waits for the next change. An error other than ctx's means that the watch
// has ended.
func (w *Watcher) Next(ctx context.Context) (Entry, error) {
	for {
		select {
		case update, open := <-w.watch.Updates():
			if !open {
				return Entry{}, fmt.Errorf("watch bucket %s: %w: the watch ended", w.bucket, ErrUnavailable)
			}
			if update != nil { // nil: what the bucket held at the beginning ends here
				return entryOf(update), nil
			}
		case <-ctx.Done():
			return Entry{}, context.Cause(ctx)
		}
	}
}

// Stop ends the watch.
func (w *Watcher) Stop() { stop(w.watch) }

// stop ends a watch and receives what is still on its way: the client's
// goroutine would otherwise block for ever.
func stop(watch jetstream.KeyWatcher) {
	_ = watch.Stop() // fails only when the connection is closed, and the watch with it
	for drain(watch.Updates()) {
	}
}

// drain receives one update and returns whether there may be more.
func drain(updates <-chan jetstream.KeyValueEntry) (more bool) {
	late := time.NewTimer(drainTimeout)
	defer late.Stop()
	select {
	case _, open := <-updates:
		return open
	case <-late.C:
	}
	select { // the timer may have fired because the process was suspended
	case _, open := <-updates:
		return open
	default:
		return false
	}
}
