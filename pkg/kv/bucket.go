// Package kv keeps JSON documents in JetStream key-value buckets.
//
// It is the only package that calls JetStream's key-value API. Projects, users,
// settings, the ledger, leases and saved views are all kept through it. A
// newcomer's usual mistake is to write without a revision: everything that two
// processes may change is written by compare-and-swap (Create, Update, Swap),
// and Put is for keys that have one writer.
//
// Reads of single keys are answered by the bucket's leader, because another
// replica may not know a newer revision yet. Lists and watches may be behind.
package kv

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	// openTimeout covers the start of servers and the election of leaders.
	openTimeout = time.Minute
	// attemptTimeout bounds one attempt to open a bucket.
	attemptTimeout = 5 * time.Second
	// confirmTimeout bounds the read that finds out what became of a write without
	// an answer.
	confirmTimeout = 2 * time.Second
)

// Errors of a bucket's operations.
var (
	// ErrNotFound means that the key, or the bucket, does not exist.
	ErrNotFound = errors.New("not found")
	// ErrChanged means that the key does not have the expected revision: another
	// writer was faster.
	ErrChanged = errors.New("changed by another writer")
	// ErrExists means that Create found the key there. It is also an ErrChanged.
	ErrExists = fmt.Errorf("exists already: %w", ErrChanged)
	// ErrUnavailable means that JetStream did not answer, or refused.
	ErrUnavailable = errors.New("key-value store is unavailable")
	// ErrInvalidKey means that the key has characters that no key may have.
	ErrInvalidKey = jetstream.ErrInvalidKey
)

// Config describes a bucket. It is used only when the bucket is created.
type Config struct {
	Name          string
	Description   string
	History       int64         // revisions kept of each key. Default 1
	MaxBytes      int64         // of all keys together. Default: no limit
	MaxValueBytes int32         // of one value with its key. Default: no limit
	MaxAge        time.Duration // after which a key that is not written again goes. Default: never
	Replicas      int           // 1 alone, 3 in a cluster. Default 1
}

// Bucket is a key-value bucket. Any number of goroutines may use it.
type Bucket struct {
	name    string
	kv      jetstream.KeyValue
	stream  jetstream.Stream
	leader  nats.JetStreamContext
	created time.Time
}

// Entry is one revision of a key.
type Entry struct {
	Key      string
	Value    []byte // JSON; empty when Deleted
	Revision uint64 // of the whole bucket: each write has a higher one
	Time     time.Time
	Deleted  bool // the key was deleted at this revision
}

// Decode decodes the value into v.
func (e Entry) Decode(v any) error {
	if err := json.Unmarshal(e.Value, v); err != nil {
		return fmt.Errorf("decode %s: %w", e.Key, err)
	}
	return nil
}

// Open opens a bucket and creates it if it is missing. Several processes may do
// so at once. Open waits up to a minute for servers that start or elect a leader.
// It refuses a bucket that could lose keys that were not deleted.
func Open(ctx context.Context, js jetstream.JetStream, cfg Config) (*Bucket, error) {
	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	var last error
	bucket, err := backoff.Retry(ctx, func() (*Bucket, error) {
		var b *Bucket
		if b, last = open(ctx, js, cfg); last != nil && !notReady(last) {
			return nil, backoff.Permanent(last)
		}
		return b, last
	}, backoff.WithBackOff(&backoff.ExponentialBackOff{InitialInterval: 20 * time.Millisecond, Multiplier: 2, MaxInterval: 500 * time.Millisecond}), backoff.WithMaxElapsedTime(0))
	if err != nil && last != nil {
		return nil, last // and not only that the time is over
	}
	return bucket, err
}

// notReady reports whether an error may be gone once the servers have started and
// have elected a leader.
func notReady(err error) bool {
	if refused, ok := errors.AsType[*jetstream.APIError](err); ok {
		return refused.Code == 503
	}
	return errors.Is(err, nats.ErrTimeout) || errors.Is(err, nats.ErrNoResponders) || errors.Is(err, jetstream.ErrNoStreamResponse) || errors.Is(err, context.DeadlineExceeded)
}

// open is one attempt of Open.
func open(ctx context.Context, js jetstream.JetStream, cfg Config) (*Bucket, error) {
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	stream, err := js.Stream(ctx, "KV_"+cfg.Name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		stream, err = create(ctx, js, cfg)
	}
	if err != nil {
		return nil, fmt.Errorf("bucket %s: %w: %w", cfg.Name, ErrUnavailable, err)
	}
	if err := check(stream.CachedInfo().Config, cfg); err != nil {
		return nil, fmt.Errorf("bucket %s: %w", cfg.Name, err)
	}
	return use(ctx, js, cfg.Name, stream)
}

// Find opens a bucket and fails with ErrNotFound where there is none.
func Find(ctx context.Context, js jetstream.JetStream, name string) (*Bucket, error) {
	stream, err := js.Stream(ctx, "KV_"+name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil, fmt.Errorf("bucket %s: %w", name, ErrNotFound)
	}
	if err != nil {
		return nil, fmt.Errorf("bucket %s: %w: %w", name, ErrUnavailable, err)
	}
	return use(ctx, js, name, stream)
}

// create creates the stream of a bucket in JetStream's own layout. The client's
// CreateKeyValue would always allow reads that any replica answers.
func create(ctx context.Context, js jetstream.JetStream, cfg Config) (jetstream.Stream, error) {
	stream, err := js.CreateStream(ctx, jetstream.StreamConfig{
		Name:              "KV_" + cfg.Name,
		Description:       cfg.Description,
		Subjects:          []string{"$KV." + cfg.Name + ".>"},
		MaxMsgsPerSubject: max(cfg.History, 1),
		MaxMsgSize:        cfg.MaxValueBytes,
		MaxBytes:          cfg.MaxBytes,
		MaxAge:            cfg.MaxAge,
		Storage:           jetstream.FileStorage,
		Replicas:          max(cfg.Replicas, 1),
		Discard:           jetstream.DiscardNew,
		AllowRollup:       true, // a deleted key keeps no history
		DenyDelete:        true,
	})
	if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
		return js.Stream(ctx, "KV_"+cfg.Name) // another process was faster, with other settings
	}
	return stream, err
}

// check refuses a bucket, made by hand, that would not keep its promises.
func check(have jetstream.StreamConfig, want Config) error {
	switch {
	case have.Storage != jetstream.FileStorage:
		return errors.New("it is kept in memory: create it again with file storage")
	case have.MaxMsgsPerSubject < 1 || have.Discard != jetstream.DiscardNew || want.MaxAge == 0 && have.MaxAge != 0:
		return errors.New("it may drop keys that nobody deleted: create it again without a maximum age, with a history, and with discard new")
	}
	return nil
}

func use(ctx context.Context, js jetstream.JetStream, name string, stream jetstream.Stream) (*Bucket, error) {
	kv, err := js.KeyValue(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("bucket %s: %w: %w", name, ErrUnavailable, err)
	}
	// The older API is the one that can ask the leader of a stream that also
	// allows direct reads.
	var options []nats.JSOpt
	have := js.Options()
	if have.DefaultTimeout > 0 {
		options = append(options, nats.MaxWait(have.DefaultTimeout))
	}
	switch {
	case have.Domain != "":
		options = append(options, nats.Domain(have.Domain))
	case have.APIPrefix != "":
		options = append(options, nats.APIPrefix(have.APIPrefix))
	}
	leader, err := js.Conn().JetStream(options...)
	if err != nil {
		return nil, fmt.Errorf("bucket %s: %w", name, err)
	}
	return &Bucket{name: name, kv: kv, stream: stream, leader: leader, created: stream.CachedInfo().Created}, nil
}

// Created is when the bucket was created.
func (b *Bucket) Created() time.Time { return b.created }

// failed wraps an error of JetStream.
func (b *Bucket) failed(verb, key string, err error) error {
	if errors.Is(err, jetstream.ErrInvalidKey) {
		return fmt.Errorf("%s %s in bucket %s: %w", verb, key, b.name, err)
	}
	return fmt.Errorf("%s %s in bucket %s: %w: %w", verb, key, b.name, ErrUnavailable, err)
}

// Get reads a key. With ErrNotFound, the entry says whether the key was deleted:
// then it has the revision of the deletion.
func (b *Bucket) Get(ctx context.Context, key string) (Entry, error) {
	m, err := b.leader.GetLastMsg("KV_"+b.name, "$KV."+b.name+"."+key, nats.Context(ctx))
	if errors.Is(err, nats.ErrMsgNotFound) {
		return Entry{}, fmt.Errorf("read %s in bucket %s: %w", key, b.name, ErrNotFound)
	}
	if err != nil {
		return Entry{}, b.failed("read", key, err)
	}
	entry := Entry{Key: key, Value: m.Data, Revision: m.Sequence, Time: m.Time}
	if m.Header.Get("KV-Operation") != "" || m.Header.Get(jetstream.MarkerReasonHeader) != "" {
		entry.Value, entry.Deleted = nil, true
		return entry, fmt.Errorf("read %s in bucket %s: %w", key, b.name, ErrNotFound)
	}
	return entry, nil
}

// Create writes a key that does not exist and returns its revision. It fails
// with ErrExists where the key exists.
func (b *Bucket) Create(ctx context.Context, key string, value any) (uint64, error) {
	return b.write(ctx, "create", key, value, 0, func(document []byte) (uint64, error) {
		return b.kv.Create(ctx, key, document)
	})
}

// Update writes a key if it still has the revision given, and returns the new
// revision. It fails with ErrChanged where it does not. Revision 0 stands for a
// key that was never written, nor deleted.
func (b *Bucket) Update(ctx context.Context, key string, value any, revision uint64) (uint64, error) {
	return b.write(ctx, "update", key, value, revision, func(document []byte) (uint64, error) {
		return b.kv.Update(ctx, key, document, revision)
	})
}

// Swap is Create where the revision is 0, and Update otherwise.
func (b *Bucket) Swap(ctx context.Context, key string, value any, revision uint64) (uint64, error) {
	if revision == 0 {
		return b.Create(ctx, key, value)
	}
	return b.Update(ctx, key, value, revision)
}

// write makes one compare-and-swap. Where it is refused or not answered, the key
// is read: it was written, by this call or by an earlier one, if it holds the
// same document. So a call that failed with ErrUnavailable may be repeated as it
// was. It also means that documents of different writers must differ (by a
// random ID, an owner, a time in nanoseconds), unless it makes no difference
// which of them wrote.
func (b *Bucket) write(ctx context.Context, verb, key string, value any, base uint64, send func(document []byte) (uint64, error)) (uint64, error) {
	document, err := json.Marshal(value)
	if err != nil {
		return 0, fmt.Errorf("%s %s in bucket %s: %w", verb, key, b.name, err)
	}
	revision, err := send(document)
	if err == nil {
		return revision, nil
	}
	if errors.Is(err, jetstream.ErrInvalidKey) {
		return 0, b.failed(verb, key, err)
	}
	confirm, cancel := context.WithTimeout(context.WithoutCancel(ctx), confirmTimeout)
	defer cancel()
	entry, readErr := b.Get(confirm, key)
	if readErr == nil && bytes.Equal(entry.Value, document) {
		return entry.Revision, nil
	}
	// Only a newer revision, or none, proves that another writer was faster. A read
	// that failed, or that a deposed leader answered, may hide an earlier call of
	// this writer.
	proven := errors.Is(readErr, ErrNotFound) || readErr == nil && entry.Revision > base
	switch {
	case proven && errors.Is(err, jetstream.ErrKeyRevisionMismatch):
		return 0, fmt.Errorf("%s %s in bucket %s: %w", verb, key, b.name, ErrChanged)
	case proven && errors.Is(err, jetstream.ErrKeyExists):
		return 0, fmt.Errorf("%s %s in bucket %s: %w", verb, key, b.name, ErrExists)
	}
	return 0, b.failed(verb, key, err)
}

// Put writes a key whatever it holds. After ErrUnavailable it may have been
// written.
func (b *Bucket) Put(ctx context.Context, key string, value any) (uint64, error) {
	document, err := json.Marshal(value)
	if err != nil {
		return 0, fmt.Errorf("write %s in bucket %s: %w", key, b.name, err)
	}
	revision, err := b.kv.Put(ctx, key, document)
	if err != nil {
		return 0, b.failed("write", key, err)
	}
	return revision, nil
}

// Delete deletes a key with its history if it still has the revision given, or
// whatever its revision where that is 0. It fails with ErrChanged where the key
// has another revision. Watchers see the deletion, as a mark that stays.
func (b *Bucket) Delete(ctx context.Context, key string, revision uint64) error {
	err := b.kv.Purge(ctx, key, jetstream.LastRevision(revision))
	switch {
	case err == nil:
		return nil
	case errors.Is(err, jetstream.ErrKeyRevisionMismatch):
		return fmt.Errorf("delete %s in bucket %s: %w", key, b.name, ErrChanged)
	}
	return b.failed("delete", key, err)
}

// Purge removes a key without a trace, so that watchers do not learn of it.
func (b *Bucket) Purge(ctx context.Context, key string) error {
	if err := b.stream.Purge(ctx, jetstream.WithPurgeSubject("$KV."+b.name+"."+key)); err != nil {
		return b.failed("purge", key, err)
	}
	return nil
}

// Revision returns the revision of the newest write, as the leader knows it.
func (b *Bucket) Revision(ctx context.Context) (uint64, error) {
	info, err := b.stream.Info(ctx)
	if err != nil {
		return 0, fmt.Errorf("read the last revision of bucket %s: %w: %w", b.name, ErrUnavailable, err)
	}
	return info.State.LastSeq, nil
}
