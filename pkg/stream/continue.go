package stream

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/logboom/logboom/pkg/record"
)

// Stored returns the last message of a shard, above a sequence, of which
// anything is stored in the tables, or 0. An error means that it is not known.
type Stored func(ctx context.Context, kind record.Kind, shard int, above uint64) (last uint64, err error)

// Readers are the positions of the queue's readers; ledger.Ledger implements it.
type Readers interface {
	// MoveAfter moves a stream's writer to the highest sequence that any reader
	// knows of, at least last, and returns it. It moves nothing where that is 0.
	MoveAfter(ctx context.Context, stream string, last uint64) (uint64, error)
}

// Continue creates the streams that are missing although messages of theirs are
// stored: after the queue was lost, or after a restore of the tables alone. Rows
// are identified by their place on the queue, so such a stream begins after what
// is stored of it and after what its readers know. Call it before Open, which
// creates whatever else is missing, and while every other process is stopped.
// Where nothing is missing it changes nothing.
//
// A stream that ends before what is stored of it is an error: its next messages
// would get the places of existing rows. So is an error of stored; the stream is
// not created then.
//
// Continue can be interrupted and called again. The readers are moved before the
// stream is created: a stream that somebody else creates to begin at 1 is then
// behind its writer, which stops before it stores anything.
func Continue(ctx context.Context, js jetstream.JetStream, cfg Config, stored Stored, readers Readers) error {
	t, err := newTopology(js, cfg)
	if err != nil {
		return fmt.Errorf("queue: %w", err)
	}
	if t.shards, err = t.shardsWanted(ctx); err != nil {
		return fmt.Errorf("queue: %w", err)
	}
	for _, kind := range []record.Kind{record.KindLog, record.KindEvent} {
		for shard := range t.shards {
			if err := t.continueStream(ctx, kind, shard, stored, readers); err != nil {
				return fmt.Errorf("queue: %w", err)
			}
		}
	}
	return nil
}

// shardsWanted returns how many shards there are, or will be after Open.
func (t *Topology) shardsWanted(ctx context.Context) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	first, err := t.js.Stream(ctx, Name(record.KindLog, 0))
	switch {
	case errors.Is(err, jetstream.ErrStreamNotFound):
		return orDefault(t.cfg.Shards, defaultShards), nil
	case err != nil:
		return 0, fmt.Errorf("stream %s: %w", Name(record.KindLog, 0), err)
	}
	return shardCount(first.CachedInfo(), t.cfg.Shards)
}

func (t *Topology) continueStream(ctx context.Context, kind record.Kind, shard int, stored Stored, readers Readers) error {
	name := Name(kind, shard)
	info, err := t.Info(ctx, name)
	if err == nil {
		return t.refuseBehind(ctx, kind, shard, info.LastSeq, stored)
	}
	if !errors.Is(err, jetstream.ErrStreamNotFound) {
		return err
	}
	last, err := stored(ctx, kind, shard, 0)
	if err != nil {
		return fmt.Errorf("what is stored of stream %s: %w", name, err)
	}
	if last, err = readers.MoveAfter(ctx, name, last); err != nil || last == 0 {
		return err // Open creates a stream of which nothing is known
	}
	wanted := t.shardConfig(kind, shard, t.shards)
	wanted.FirstSeq = last + 1
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	if _, err := t.js.CreateStream(ctx, wanted); err != nil {
		return fmt.Errorf("create stream %s to begin at %d: %w", name, last+1, err)
	}
	t.log.WarnContext(ctx, "stream created again, it begins after what is stored", "stream", name, "seq", last)
	return nil
}

// refuseBehind fails where messages are stored that the stream has never had.
// It reads the stream's end twice, because a writer may store rows meanwhile.
func (t *Topology) refuseBehind(ctx context.Context, kind record.Kind, shard int, end uint64, stored Stored) error {
	name := Name(kind, shard)
	last, err := stored(ctx, kind, shard, end)
	if err != nil {
		return fmt.Errorf("what is stored of stream %s: %w", name, err)
	}
	if last <= end {
		return nil
	}
	info, err := t.Info(ctx, name)
	if err != nil || last <= info.LastSeq {
		return err
	}
	return fmt.Errorf("stream %s ends at %d, but its messages up to %d are stored: it was created again or restored from an older copy, and new records would get "+
		"the places of existing rows. With all processes stopped, keep what it holds with nats stream backup %s, remove it with nats stream rm %s, "+
		"and migrate again: that makes it begin after %d", name, info.LastSeq, last, name, name, last)
}
