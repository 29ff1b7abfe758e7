// Package ledger keeps how far each reader of the queue has come, and what it is
// about to insert, in a key-value bucket.
//
// It stands between the queue and the tables: the writer announces an insert
// (an intent), inserts, counts the rows and commits. A reader that starts after
// a crash reads from the ledger what may have been inserted already. A newcomer's
// usual mistake is to expect a lock here. There is none: any process may take a
// reader over at any time, and the one before learns it from ErrFenced at its
// next step.
package ledger

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"

	"github.com/logboom/logboom/pkg/kv"
)

// BucketName is the ledger's bucket. The writers keep their leases in it too,
// under keys of their own.
const BucketName = "LEDGER"

const (
	callTimeout = 2 * time.Second // of one request; it is retried
	retryFirst  = 20 * time.Millisecond
	retryMax    = 500 * time.Millisecond
)

// ErrFenced means that another owner has taken the reader over. The caller stops
// working on that stream at once.
var ErrFenced = errors.New("another owner has taken over")

// WriterKey returns the writer's key for a stream, such as w.LOGS_0.
func WriterKey(stream string) string { return "w." + stream }

// NotifierKey returns the notifier's key for a stream, such as n.EVENTS_0.
func NotifierKey(stream string) string { return "n." + stream }

// Ledger holds the position of each reader of each stream, under WriterKey or
// NotifierKey. Each operation is one compare-and-swap: of two callers that go on
// from the same Position, one gets ErrFenced. An operation without an answer is
// retried until ctx ends.
type Ledger struct {
	bucket *kv.Bucket
	log    *slog.Logger
}

// Open opens the ledger and creates its bucket, with so many replicas, where it
// is missing. A nil logger discards.
func Open(ctx context.Context, js jetstream.JetStream, replicas int, logger *slog.Logger) (*Ledger, error) {
	bucket, err := kv.Open(ctx, js, kv.Config{Name: BucketName, Description: "how far each reader of the queue has come", Replicas: replicas})
	if err != nil {
		return nil, fmt.Errorf("open ledger: %w", err)
	}
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	return &Ledger{bucket, logger}, nil
}

// Bucket returns the bucket, for the writers' leases.
func (l *Ledger) Bucket() *kv.Bucket { return l.bucket }

// TakeOver makes the caller the owner of a reader's key, with the next epoch.
// The new owner finishes the intent of the one before, if there is any.
func (l *Ledger) TakeOver(ctx context.Context, reader string) (Position, error) {
	owner := nuid.Next()
	for {
		p, err := l.read(ctx, reader)
		if err != nil {
			return Position{}, fmt.Errorf("take over %s: %w", reader, err)
		}
		p.Epoch, p.owner = p.Epoch+1, owner
		p, err = l.swap(ctx, reader, p)
		if errors.Is(err, ErrFenced) {
			continue // another was faster: take over from it
		}
		if err != nil {
			return Position{}, fmt.Errorf("take over %s: %w", reader, err)
		}
		return p, nil
	}
}

// Intend records what is about to be inserted. The intent begins after what is
// committed. An unfinished intent can be replaced by itself, by another attempt
// or by a smaller one; replacing it by itself proves that no other owner has
// taken over meanwhile.
func (l *Ledger) Intend(ctx context.Context, reader string, p Position, in Intent) (Position, error) {
	switch {
	case in.From != p.Committed+1 || in.To < in.From:
		return Position{}, fmt.Errorf("intend %d to %d for %s: %d is committed", in.From, in.To, reader, p.Committed)
	case p.Intent != nil && in.To > p.Intent.To:
		return Position{}, fmt.Errorf("intend %d to %d for %s: the intent up to %d is not finished", in.From, in.To, reader, p.Intent.To)
	}
	p.Intent = &in
	return l.write(ctx, "intend", reader, p)
}

// Commit records that everything up to a sequence is stored or dead-lettered, and
// when the queue stored that message (zero: not known). It finishes the intent,
// which must end at the same sequence.
func (l *Ledger) Commit(ctx context.Context, reader string, p Position, to uint64, at time.Time) (Position, error) {
	switch {
	case to < p.Committed:
		return Position{}, fmt.Errorf("commit %d for %s: %d is committed already", to, reader, p.Committed)
	case p.Intent != nil && to != p.Intent.To:
		return Position{}, fmt.Errorf("commit %d for %s: the intent is up to %d", to, reader, p.Intent.To)
	}
	p.Committed, p.CommittedAt, p.Intent = to, at, nil
	return l.write(ctx, "commit", reader, p)
}

// move takes a reader over and sets its position, whatever it was.
func (l *Ledger) move(ctx context.Context, reader string, to uint64) error {
	p, err := l.TakeOver(ctx, reader)
	if err != nil {
		return err
	}
	p.Committed, p.CommittedAt, p.Intent = to, time.Time{}, nil
	_, err = l.write(ctx, "move", reader, p)
	return err
}

func (l *Ledger) write(ctx context.Context, verb, reader string, p Position) (Position, error) {
	if p.owner == "" {
		return Position{}, fmt.Errorf("%s for %s: take it over first", verb, reader)
	}
	next, err := l.swap(ctx, reader, p)
	if err != nil {
		return Position{}, fmt.Errorf("%s for %s: %w", verb, reader, err)
	}
	return next, nil
}

// swap writes next in place of the revision that it came from.
func (l *Ledger) swap(ctx context.Context, reader string, next Position) (Position, error) {
	value, err := next.encode()
	if err != nil {
		return Position{}, err
	}
	revision, err := retry(ctx, l, reader, func(ctx context.Context) (uint64, error) {
		return l.bucket.Update(ctx, reader, value, next.revision)
	})
	switch {
	case err == nil:
		next.revision = revision
		return next, nil
	case !errors.Is(err, kv.ErrChanged):
		return Position{}, err
	}
	entry, err := l.get(ctx, reader)
	if err != nil {
		return Position{}, err
	}
	if entry.Value == nil {
		return Position{}, errors.New("the key was deleted from the ledger: restore the bucket " + BucketName)
	}
	return Position{}, ErrFenced
}

// read returns a reader's position, the zero one where it has none.
func (l *Ledger) read(ctx context.Context, reader string) (Position, error) {
	entry, err := l.get(ctx, reader)
	if err != nil || entry.Value == nil {
		return Position{}, err
	}
	p, err := decodePosition(entry.Value, entry.Revision)
	p.written = entry.Time
	return p, err
}

// get reads a key. One that does not exist has no value.
func (l *Ledger) get(ctx context.Context, reader string) (kv.Entry, error) {
	return retry(ctx, l, reader, func(ctx context.Context) (kv.Entry, error) {
		entry, err := l.bucket.Get(ctx, reader)
		if errors.Is(err, kv.ErrNotFound) {
			return kv.Entry{}, nil
		}
		return entry, err
	})
}

// retry calls until there is an answer or ctx ends. It logs the first failure as
// a warning and the others for debugging only.
func retry[T any](ctx context.Context, l *Ledger, reader string, call func(context.Context) (T, error)) (T, error) {
	waits := backoff.NewExponentialBackOff()
	waits.InitialInterval, waits.MaxInterval = retryFirst, retryMax
	level := slog.LevelWarn
	value, err := backoff.Retry(ctx, func() (T, error) {
		ctx, cancel := context.WithTimeout(ctx, callTimeout)
		defer cancel()
		value, err := call(ctx)
		if err != nil && !errors.Is(err, kv.ErrUnavailable) {
			return value, backoff.Permanent(err)
		}
		return value, err
	}, backoff.WithBackOff(waits), backoff.WithMaxElapsedTime(0), backoff.WithNotify(func(err error, _ time.Duration) {
		l.log.Log(ctx, level, "ledger did not answer", "key", reader, "err", err)
		level = slog.LevelDebug
	}))
	return value, err
}

// Positions returns the positions of all readers, by key, to show how far they
// are and to purge what all of them have committed. They may be a little old.
// Positions only grow, except by Rewind, so less is purged then.
func (l *Ledger) Positions(ctx context.Context) (map[string]Position, error) {
	return positions(ctx, l.bucket)
}

func positions(ctx context.Context, bucket *kv.Bucket) (map[string]Position, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	entries, err := bucket.List(ctx, WriterKey(">"), NotifierKey(">"))
	if err != nil {
		return nil, fmt.Errorf("read positions: %w", err)
	}
	all := make(map[string]Position, len(entries))
	for _, entry := range entries {
		if all[entry.Key], err = decodePosition(entry.Value, entry.Revision); err != nil {
			return nil, fmt.Errorf("read positions: %s: %w", entry.Key, err)
		}
	}
	return all, nil
}

// Committed returns a function that reads the last sequence of a stream that its
// writer has committed, 0 where there is none. It creates no ledger.
func Committed(js jetstream.JetStream) func(ctx context.Context, stream string) (uint64, error) {
	return func(ctx context.Context, stream string) (uint64, error) {
		bucket, err := kv.Find(ctx, js, BucketName)
		if err != nil {
			return 0, err
		}
		entry, err := bucket.Get(ctx, WriterKey(stream))
		if errors.Is(err, kv.ErrNotFound) {
			return 0, nil
		}
		if err != nil {
			return 0, err
		}
		p, err := decodePosition(entry.Value, entry.Revision)
		return p.Committed, err
	}
}
