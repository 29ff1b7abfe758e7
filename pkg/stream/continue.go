package stream

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/logboom/logboom/pkg/record"
)

// Stored tells the last message of a shard, above a sequence, that something is
// stored of: 0 where nothing is. An error means that nobody knows.
type Stored func(ctx context.Context, kind record.Kind, shard int, above uint64) (last uint64, err error)

// Continue makes the streams that are missing although messages of theirs are
// stored: after the queue was lost, or where only the tables were restored.
// Rows are named by their place on the queue, so such a stream begins after
// what is stored of it and after what the ledger knows, and the ledger stands
// there. It is to be called before Open, which makes whatever else is missing,
// and with every other process stopped. Where nothing is missing it changes
// nothing.
//
// A stream that is there but ends before what is stored of it is an error: its
// messages would get places that rows have already. So is any answer that
// stored cannot give; the stream is not made then.
//
// It may be broken off anywhere and called again. The ledger moves first: a
// stream that somebody then makes anew from 1 is behind it, which stops its
// writer before it stores anything.
func Continue(ctx context.Context, js jetstream.JetStream, cfg Config, stored Stored) error {
	t, err := newTopology(js, cfg)
	if err != nil {
		return fmt.Errorf("queue: %w", err)
	}
	if t.shards, err = t.shardsWanted(ctx); err != nil {
		return fmt.Errorf("queue: %w", err)
	}
	for _, kind := range []record.Kind{record.KindLog, record.KindEvent} {
		for shard := range t.shards {
			if err := t.continueStream(ctx, kind, shard, stored); err != nil {
				return fmt.Errorf("queue: %w", err)
			}
		}
	}
	return nil
}

// shardsWanted is the number that the streams have, or will have once Open has
// made them.
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

func (t *Topology) continueStream(ctx context.Context, kind record.Kind, shard int, stored Stored) error {
	name := Name(kind, shard)
	info, err := t.Lag(ctx, name)
	if err == nil {
		return t.refuseBehind(ctx, kind, shard, info.LastSeq, stored)
	}
	if !errors.Is(err, jetstream.ErrStreamNotFound) {
		return err
	}
	last, err := stored(ctx, kind, shard, 0)
	if err != nil {
		return notKnown(name, err)
	}
	return t.beginAfter(ctx, kind, shard, last)
}

// refuseBehind is an error where messages of a stream are stored that it has
// never had. What a writer stores meanwhile it has had.
func (t *Topology) refuseBehind(ctx context.Context, kind record.Kind, shard int, end uint64, stored Stored) error {
	name := Name(kind, shard)
	last, err := stored(ctx, kind, shard, end)
	if err != nil {
		return notKnown(name, err)
	}
	if last <= end {
		return nil
	}
	info, err := t.Lag(ctx, name)
	if err != nil || last <= info.LastSeq {
		return err
	}
	return fmt.Errorf("stream %s ends at %d, but its messages up to %d are stored: it was made anew or restored from an older copy, and new records would get "+
		"the places of rows that are there. With all processes stopped, keep what it holds with nats stream backup %s, remove it with nats stream rm %s, "+
		"and migrate again: that makes it begin after %d", name, info.LastSeq, last, name, name, last)
}

func notKnown(name string, err error) error {
	return fmt.Errorf("what is stored of stream %s: %w", name, err)
}

// beginAfter makes a stream that begins after what is stored of it, and after
// what the ledger knows. Open makes one of which nobody knows anything.
func (t *Topology) beginAfter(ctx context.Context, kind record.Kind, shard int, last uint64) error {
	name := Name(kind, shard)
	var err error
	if t.kv, err = t.ensureBucket(ctx); err != nil {
		return err
	}
	if last, err = t.lastKnown(ctx, name, last); err != nil || last == 0 {
		return err
	}
	if err := t.Ledger().moveTo(ctx, WriterKey(name), last); err != nil {
		return err
	}
	cfg := t.shardConfig(kind, shard, t.shards)
	cfg.FirstSeq = last + 1
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	if _, err := t.js.CreateStream(ctx, cfg); err != nil {
		return fmt.Errorf("stream %s, which is to begin at %d: %w", name, last+1, err)
	}
	t.log.WarnContext(ctx, "stream made anew, it begins after what is stored", "stream", name, "seq", last)
	return nil
}

// lastKnown is the last sequence that the ledger knows of, or last. An intent
// that is left may have been stored in part; its messages are gone.
func (t *Topology) lastKnown(ctx context.Context, name string, last uint64) (uint64, error) {
	for _, reader := range []string{WriterKey(name), NotifierKey(name)} {
		p, err := t.Ledger().read(ctx, reader)
		if err != nil {
			return 0, fmt.Errorf("ledger of %s: %w", reader, err)
		}
		if last = max(last, p.Committed); p.Intent != nil {
			last = max(last, p.Intent.To)
		}
	}
	return last, nil
}

// moveTo sets a reader's position, whatever it was, and fences its owner.
func (l *Ledger) moveTo(ctx context.Context, reader string, to uint64) error {
	p, err := l.TakeOver(ctx, reader)
	if err != nil {
		return err
	}
	p.Committed, p.CommittedAt, p.Intent = to, time.Time{}, nil
	_, err = l.change(ctx, "move", reader, p)
	return err
}
