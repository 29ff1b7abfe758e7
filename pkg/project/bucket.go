package project

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// How long one step against a bucket may take.
const (
	settleTimeout = 2 * time.Second
	scanTimeout   = 10 * time.Second
	scanStall     = 2 * time.Second // without a word: a list is begun anew
)

// What the outcome of a write by compare-and-set may be, beside success.
var (
	errExists  = errors.New("key exists")
	errSwapped = errors.New("key was changed meanwhile")
)

// bucket is a key-value bucket of JSON documents that are only ever made, and
// changed by compare-and-set.
type bucket struct {
	kv      jetstream.KeyValue
	stream  jetstream.Stream
	created time.Time
}

// openBucket makes the bucket where it is missing. It is made as the stream
// that it is, with JetStream's layout of buckets, because the client's own way
// always allows direct reads: those are answered by any replica, also one that
// has not heard of a revocation yet. Without them the leader answers.
func openBucket(ctx context.Context, js jetstream.JetStream, name string, history, maxBytes int64, replicas int) (*bucket, error) {
	stream, err := js.Stream(ctx, "KV_"+name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		stream, err = makeBucket(ctx, js, name, history, maxBytes, replicas)
	}
	if err != nil {
		return nil, unavailable("bucket "+name, err)
	}
	info := stream.CachedInfo()
	if err := checkBucket(info.Config); err != nil {
		return nil, fmt.Errorf("bucket %s: %w", name, err)
	}
	kv, err := js.KeyValue(ctx, name)
	if err != nil {
		return nil, unavailable("bucket "+name, err)
	}
	return &bucket{kv: kv, stream: stream, created: info.Created}, nil
}

func makeBucket(ctx context.Context, js jetstream.JetStream, name string, history, maxBytes int64, replicas int) (jetstream.Stream, error) {
	stream, err := js.CreateStream(ctx, jetstream.StreamConfig{
		Name:              "KV_" + name,
		Subjects:          []string{"$KV." + name + ".>"},
		MaxMsgsPerSubject: history,
		MaxMsgSize:        64 << 10,
		MaxBytes:          maxBytes,
		Storage:           jetstream.FileStorage,
		Replicas:          replicas,
		Discard:           jetstream.DiscardNew,
		AllowRollup:       true, // a purged key keeps no history
		DenyDelete:        true,
	})
	if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
		return js.Stream(ctx, "KV_"+name) // another process was faster, with other settings
	}
	return stream, err
}

// checkBucket refuses a bucket made by hand that would not keep its promises.
func checkBucket(config jetstream.StreamConfig) error {
	switch {
	case config.Storage != jetstream.FileStorage:
		return errors.New("is kept in memory: make it anew with file storage")
	case config.AllowDirect || config.MirrorDirect:
		return errors.New("allows direct reads: turn them off (nats stream edit --no-allow-direct)")
	case config.MaxMsgsPerSubject < 1 || config.Discard != jetstream.DiscardNew || config.MaxAge != 0:
		return errors.New("may forget what was not deleted: make it anew")
	}
	return nil
}

// read decodes the key's document into value and tells its revision.
func (b *bucket) read(ctx context.Context, key string, value any) (revision uint64, err error) {
	entry, err := b.kv.Get(ctx, key)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return 0, ErrNotFound
	}
	if err != nil {
		return 0, unavailable("read "+key, err)
	}
	if err := json.Unmarshal(entry.Value(), value); err != nil {
		return 0, fmt.Errorf("read %s: %w", key, err)
	}
	return entry.Revision(), nil
}

// create makes the key; errExists where it is there already.
func (b *bucket) create(ctx context.Context, key string, value any) (revision uint64, err error) {
	document, err := json.Marshal(value)
	if err != nil {
		return 0, fmt.Errorf("create %s: %w", key, err)
	}
	revision, err = b.kv.Create(ctx, key, document)
	if err == nil {
		return revision, nil
	}
	if errors.Is(err, jetstream.ErrKeyExists) {
		return 0, errExists
	}
	if revision, ok := b.holds(ctx, key, document); ok {
		return revision, nil
	}
	return 0, unavailable("create "+key, err)
}

// swap changes the key if its revision is still the one given; errSwapped
// where it is not.
func (b *bucket) swap(ctx context.Context, key string, value any, revision uint64) (uint64, error) {
	document, err := json.Marshal(value)
	if err != nil {
		return 0, fmt.Errorf("change %s: %w", key, err)
	}
	next, err := b.kv.Update(ctx, key, document, revision)
	if err == nil {
		return next, nil
	}
	if errors.Is(err, jetstream.ErrKeyRevisionMismatch) {
		return 0, errSwapped
	}
	if next, ok := b.holds(ctx, key, document); ok {
		return next, nil
	}
	return 0, unavailable("change "+key, err)
}

// put makes the key where the revision is 0, and else changes it if its
// revision is still that; errSwapped where somebody else was faster.
func (b *bucket) put(ctx context.Context, key string, value any, revision uint64) error {
	if revision != 0 {
		_, err := b.swap(ctx, key, value, revision)
		return err
	}
	_, err := b.create(ctx, key, value)
	if errors.Is(err, errExists) {
		return errSwapped
	}
	return err
}

// holds settles a write whose answer was lost: it happened if the key has what
// was written. Every document carries something of its own (a random ID, a
// time in nanoseconds), so another's write is not taken for ours; or it makes
// no difference whose it is.
func (b *bucket) holds(ctx context.Context, key string, document []byte) (revision uint64, ok bool) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTimeout)
	defer cancel()
	entry, err := b.kv.Get(ctx, key)
	if err != nil || !bytes.Equal(entry.Value(), document) {
		return 0, false
	}
	return entry.Revision(), true
}

// remove deletes the key and its history if its revision is still the one
// given; errSwapped where it is not.
func (b *bucket) remove(ctx context.Context, key string, revision uint64) error {
	err := b.kv.Purge(ctx, key, jetstream.LastRevision(revision))
	if errors.Is(err, jetstream.ErrKeyRevisionMismatch) {
		return errSwapped
	}
	if err != nil {
		return unavailable("delete "+key, err)
	}
	return nil
}

// clear deletes the key whatever its revision; nothing happens where there is
// none.
func (b *bucket) clear(ctx context.Context, key string) error {
	for range changeAttempts {
		entry, err := b.kv.Get(ctx, key)
		if errors.Is(err, jetstream.ErrKeyNotFound) {
			return nil
		}
		if err != nil {
			return unavailable("read "+key, err)
		}
		err = b.remove(ctx, key, entry.Revision())
		if !errors.Is(err, errSwapped) {
			return err
		}
	}
	return fmt.Errorf("delete %s: %w: others change it without pause", key, ErrUnavailable)
}

// before counts the live entries under the filter that are older than the
// revision. Of callers who each made one entry at the same time, all see those
// of the others that came before their own.
func (b *bucket) before(ctx context.Context, filter string, revision uint64) (int, error) {
	older := map[string]bool{}
	err := b.scan(ctx, filter, func(entry jetstream.KeyValueEntry) error {
		if entry.Revision() < revision {
			older[entry.Key()] = true
		}
		return nil
	})
	return len(older), err
}

// scan calls each with every live entry under the filter, such as "token.*",
// in no order; an entry that is changed meanwhile may come twice.
func (b *bucket) scan(ctx context.Context, filter string, each func(jetstream.KeyValueEntry) error) error {
	ctx, cancel := context.WithTimeout(ctx, scanTimeout)
	defer cancel()
	for {
		err := b.scanOnce(ctx, filter, each)
		if !errors.Is(err, errStalled) {
			return err
		}
	}
}

// errStalled says that a list stopped before its end. What stops it is not
// known: on an overloaded machine, beside others who made and deleted keys, one
// seems to have waited out all of its time, which a fresh one does not.
var errStalled = errors.New("the list came to a halt")

func (b *bucket) scanOnce(ctx context.Context, filter string, each func(jetstream.KeyValueEntry) error) error {
	watch, err := b.kv.Watch(ctx, filter, jetstream.IgnoreDeletes())
	if err != nil {
		return unavailable("list "+filter, err)
	}
	defer stopWatch(watch)
	stalled := time.NewTimer(scanStall)
	defer stalled.Stop()
	for {
		select {
		case entry, open := <-watch.Updates():
			if !open {
				return unavailable("list "+filter, jetstream.ErrConnectionClosed)
			}
			stalled.Reset(scanStall)
			if entry == nil {
				return nil // everything that was there has come
			}
			if err := each(entry); err != nil {
				return err
			}
		case <-stalled.C:
			return errStalled
		case <-ctx.Done():
			return unavailable("list "+filter, ctx.Err())
		}
	}
}

// drainTimeout bounds the wait for a stopped watch to say something; the client
// ends it at once.
const drainTimeout = 100 * time.Millisecond

// stopWatch ends a watch. What is still under way is taken from it, since the
// client's goroutine would wait for ever for somebody to do so.
func stopWatch(watch jetstream.KeyWatcher) {
	_ = watch.Stop() // fails only where the connection is gone, and the watch with it
	for drain(watch.Updates()) {
	}
}

// drain takes an update and tells whether there may be more.
func drain(updates <-chan jetstream.KeyValueEntry) (more bool) {
	late := time.NewTimer(drainTimeout)
	defer late.Stop()
	select {
	case _, open := <-updates:
		return open
	case <-late.C:
	}
	select { // the time may be over because this process stood still
	case _, open := <-updates:
		return open
	default:
		return false
	}
}

// watch gives every change from the revision on, in order.
func (b *bucket) watch(ctx context.Context, from uint64) (jetstream.KeyWatcher, error) {
	watcher, err := b.kv.WatchAll(ctx, jetstream.ResumeFromRevision(from))
	if err != nil {
		return nil, unavailable("watch the record", err)
	}
	return watcher, nil
}

// last is the revision of the newest change, told by the stream's leader.
func (b *bucket) last(ctx context.Context) (uint64, error) {
	info, err := b.stream.Info(ctx)
	if err != nil {
		return 0, unavailable("ask for the record's last revision", err)
	}
	return info.State.LastSeq, nil
}
