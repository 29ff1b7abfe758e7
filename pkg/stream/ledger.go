package stream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"
)

// ErrFenced: somebody else has taken the reader's key over. Whoever gets it
// stops working on that stream at once.
var ErrFenced = errors.New("another owner has taken over")

// Intent announces what is about to be written elsewhere: the messages
// From..To, with what they become. Nothing may be written without an intent
// that covers it, and an intent that was written for is finished before
// anything else is.
type Intent struct {
	From, To uint64
	// ReceivedMin and ReceivedMax bound when the queue had the messages, in
	// Unix nanoseconds, so that a look for their rows spares other partitions.
	ReceivedMin, ReceivedMax int64
	// Want is the number of rows by partition.
	Want map[string]uint64
	// Hash is of the messages' bytes.
	Hash string
	// Attempt counts the tokens under which the rows were sent, from 1.
	Attempt int
	// Schema is the version of the rules by which messages become rows.
	Schema int
	// Dead is the reason why the messages become no rows but dead letters.
	Dead string
	rest fields // what other versions keep here
}

// Position is how far a reader has come. It is valid until somebody swaps the
// key; only the one returned last may be used for the next operation.
type Position struct {
	Epoch     uint64 // counts the take-overs
	Committed uint64 // the last sequence dealt with
	// CommittedAt is when the queue had the message Committed; zero where
	// nobody said. It tells a stream from another with the same sequences.
	CommittedAt time.Time
	Intent      *Intent
	owner       string // of this take-over, so that two entries are never alike by chance
	revision    uint64 // of the key
	rest        fields // what other versions keep here
}

// Ledger holds the position of every reader of every stream, by keys such as
// w.LOGS_0 for the writer and n.EVENTS_0 for the notifier. Each operation is
// one compare-and-swap: of two who try, one gets ErrFenced. A swap without an
// answer is settled by reading the key, until ctx ends.
//
// In a cluster a replica may be behind. What is decided by a read alone, that a
// key is not there, is therefore asked of the leader; all else that is read is
// only what a swap goes out from, which the leader refuses where it is old.
type Ledger struct {
	kv     jetstream.KeyValue
	leader nats.JetStreamContext
	log    *slog.Logger
}

// Ledger is the ledger of this queue.
func (t *Topology) Ledger() *Ledger { return &Ledger{kv: t.kv, leader: t.leader, log: t.log} }

// TakeOver makes the caller the owner of a reader's key: epoch + 1. The intent
// of the owner before, if any, is the new owner's to finish.
func (l *Ledger) TakeOver(ctx context.Context, reader string) (Position, error) {
	owner := nuid.Next()
	for {
		have, err := l.read(ctx, reader)
		if err != nil {
			return Position{}, fmt.Errorf("take over %s: %w", reader, err)
		}
		next := have
		next.Epoch, next.owner = have.Epoch+1, owner
		next, err = l.swap(ctx, reader, next)
		if errors.Is(err, ErrFenced) {
			continue // another was faster: take over from what is there now
		}
		if err != nil {
			return Position{}, fmt.Errorf("take over %s: %w", reader, err)
		}
		return next, nil
	}
}

// Intend records what is about to be written. It must go on from what is
// committed; one that stands already may be replaced, by itself, with another
// attempt, or by a smaller one. Replacing it by itself changes nothing but
// proves that nobody else has taken over meanwhile.
func (l *Ledger) Intend(ctx context.Context, reader string, p Position, in Intent) (Position, error) {
	switch {
	case in.From != p.Committed+1 || in.To < in.From:
		return Position{}, fmt.Errorf("intend %d to %d for %s: %d is committed", in.From, in.To, reader, p.Committed)
	case p.Intent != nil && in.To > p.Intent.To:
		return Position{}, fmt.Errorf("intend %d to %d for %s: the intent up to %d is not finished", in.From, in.To, reader, p.Intent.To)
	}
	p.Intent = &in
	return l.change(ctx, "intend", reader, p)
}

// Commit records that everything up to a sequence has been dealt with. Where
// there is an intent, it must be that far.
func (l *Ledger) Commit(ctx context.Context, reader string, p Position, to uint64) (Position, error) {
	return l.CommitAt(ctx, reader, p, to, time.Time{})
}

// CommitAt is Commit that also records when the queue had the message to.
func (l *Ledger) CommitAt(ctx context.Context, reader string, p Position, to uint64, at time.Time) (Position, error) {
	switch {
	case to < p.Committed:
		return Position{}, fmt.Errorf("commit %d for %s: %d is committed already", to, reader, p.Committed)
	case p.Intent != nil && to != p.Intent.To:
		return Position{}, fmt.Errorf("commit %d for %s: the intent is up to %d", to, reader, p.Intent.To)
	}
	p.Committed, p.CommittedAt, p.Intent = to, at, nil
	return l.change(ctx, "commit", reader, p)
}

func (l *Ledger) change(ctx context.Context, verb, reader string, p Position) (Position, error) {
	if p.owner == "" {
		return Position{}, fmt.Errorf("%s for %s: take it over first", verb, reader)
	}
	next, err := l.swap(ctx, reader, p)
	if err != nil {
		return Position{}, fmt.Errorf("%s for %s: %w", verb, reader, err)
	}
	return next, nil
}

// swap writes next in place of the revision that it came from. When the write
// is refused or not answered, the key decides: an earlier try of ours may be
// what refused a later one.
func (l *Ledger) swap(ctx context.Context, reader string, next Position) (Position, error) {
	value, err := next.encode()
	if err != nil {
		return Position{}, err
	}
	again := newRetries(l.log)
	for base := next.revision; ; {
		next.revision, err = l.update(ctx, reader, value, base)
		if err == nil {
			return next, nil
		}
		if errors.Is(err, jetstream.ErrInvalidKey) {
			return Position{}, err
		}
		refused := errors.Is(err, jetstream.ErrKeyRevisionMismatch)
		if !refused {
			again.tell(ctx, "ledger swap not answered", "key", reader, "err", err)
		}
		have, revision, err := l.value(ctx, reader)
		switch {
		case err != nil:
			return Position{}, err
		case bytes.Equal(have, value):
			next.revision = revision
			return next, nil
		case revision > base:
			return Position{}, ErrFenced
		case refused && revision == 0:
			return Position{}, errors.New("the key was deleted from the ledger: restore the bucket " + ledgerBucket)
		}
		// Not written, or this read was answered by a leader of before.
		if err := again.pause(ctx); err != nil {
			return Position{}, err
		}
	}
}

func (l *Ledger) update(ctx context.Context, reader string, value []byte, revision uint64) (uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return l.kv.Update(ctx, reader, value, revision)
}

// value reads a key, and tries until ctx ends. A missing key has revision 0.
func (l *Ledger) value(ctx context.Context, reader string) ([]byte, uint64, error) {
	again := newRetries(l.log)
	for {
		newest, err := l.newest(ctx, reader)
		switch {
		case errors.Is(err, nats.ErrMsgNotFound), err == nil && isRemoval(newest):
			return nil, 0, nil
		case err == nil:
			return newest.Data, newest.Sequence, nil
		}
		again.tell(ctx, "ledger not read", "key", reader, "err", err)
		if err := again.pause(ctx); err != nil {
			return nil, 0, err
		}
	}
}

// newest asks the leader for a key's newest message. The bucket's own Get may be
// answered by any replica, one that has not heard of the key yet among them: the
// key would then count as deleted, and its stream would stand still.
func (l *Ledger) newest(ctx context.Context, reader string) (*nats.RawStreamMsg, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return l.leader.GetLastMsg("KV_"+ledgerBucket, "$KV."+ledgerBucket+"."+reader, nats.Context(ctx))
}

// isRemoval tells the mark that a deleted or purged key leaves from its values.
func isRemoval(m *nats.RawStreamMsg) bool {
	return m.Header.Get("KV-Operation") != "" || m.Header.Get(jetstream.MarkerReasonHeader) != ""
}

func (l *Ledger) read(ctx context.Context, reader string) (Position, error) {
	value, revision, err := l.value(ctx, reader)
	if err != nil || revision == 0 {
		return Position{}, err
	}
	return decodePosition(value, revision)
}

// Positions is what the ledger holds of every reader, by key: for showing how
// far they are, and for purging what all of them have dealt with. A replica that
// is behind may answer: positions only grow, so that less is purged by old ones.
func (l *Ledger) Positions(ctx context.Context) (map[string]Position, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	watcher, err := l.kv.WatchFiltered(ctx, []string{WriterKey(">"), NotifierKey(">")})
	if err != nil {
		return nil, fmt.Errorf("positions: %w", err)
	}
	defer stopWatching(l.log, watcher)
	found := listing{positions: make(map[string]Position)}
	for !found.whole() {
		select {
		case entry, ok := <-watcher.Updates():
			if !ok {
				return nil, fmt.Errorf("positions: %w", ErrUnavailable)
			}
			if err := found.take(entry); err != nil {
				return nil, fmt.Errorf("positions: %w", err)
			}
		case <-ctx.Done():
			return nil, fmt.Errorf("positions: %w", context.Cause(ctx))
		}
	}
	return found.positions, nil
}

// listing is the positions as a watch tells of them. The watch says that it has
// told of all there were when it has told of as many: where a key was swapped
// meanwhile, it stands behind others now and is still to come.
type listing struct {
	positions map[string]Position
	many      bool   // as many as there were have been told of
	behind    uint64 // how many are still to come after the last
}

func (l *listing) whole() bool { return l.many && l.behind == 0 }

func (l *listing) take(entry jetstream.KeyValueEntry) (err error) {
	if entry == nil {
		l.many = true
		return nil
	}
	l.behind = entry.Delta()
	if entry.Operation() != jetstream.KeyValuePut {
		delete(l.positions, entry.Key())
		return nil
	}
	if l.positions[entry.Key()], err = decodePosition(entry.Value(), entry.Revision()); err != nil {
		return fmt.Errorf("%s: %w", entry.Key(), err)
	}
	return nil
}

func stopWatching(log *slog.Logger, watcher jetstream.KeyWatcher) {
	if err := watcher.Stop(); err != nil {
		log.Debug("ledger watch not ended", "err", err)
	}
}
