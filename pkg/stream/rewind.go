package stream

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/logboom/logboom/pkg/record"
)

// insertSettles is how long after its intent an insert may still come to be
// stored: longer than a writer allows any.
const insertSettles = time.Minute

// Rewound is what a writer was set back by.
type Rewound struct {
	Stream string
	// First and Last are the messages that it stores again. Last is below First
	// where the queue has none of them.
	First, Last uint64
	// Missing is how many messages before First, after the newest row, the queue
	// no longer has. Some of them may have had no row.
	Missing uint64
}

// Rewind sets the writers back to the newest row of their streams, so that they
// store again what the queue still has of the messages after it: for tables
// that were restored from a backup, or made anew, while the queue was not lost.
// Streams that are no further than their rows stay as they are, so it may be
// broken off and called again.
//
// No row is doubled, because none is of a message after the newest. None is
// left out, because a stream is stored in its order and a backup of a table is
// of one moment; a batch is stored day by day, so a server's clock that was set
// back over midnight in that moment is the exception. Both hold only while no
// writer runs: one that says to be there is an error, and so is an insert that
// may be on its way. Messages that became dead letters do so again. newest is
// of rows alone: usage is backed up at a moment of its own.
func (t *Topology) Rewind(ctx context.Context, newest Stored) ([]Rewound, error) {
	return t.rewindAt(ctx, newest, time.Now())
}

func (t *Topology) rewindAt(ctx context.Context, newest Stored, now time.Time) ([]Rewound, error) {
	if err := t.refuseWriters(ctx); err != nil {
		return nil, fmt.Errorf("rewind: %w", err)
	}
	var list []Rewound
	for _, kind := range []record.Kind{record.KindLog, record.KindEvent} {
		for shard := range t.shards {
			one, moved, err := t.rewindStream(ctx, kind, shard, newest, now)
			if err != nil {
				return list, fmt.Errorf("rewind: %w", err)
			}
			if moved {
				list = append(list, one)
			}
		}
	}
	return list, nil
}

// refuseWriters is an error where a process says that it runs which stores.
func (t *Topology) refuseWriters(ctx context.Context) error {
	members, err := NewOverview(t.js).Members(ctx)
	if err != nil {
		return err
	}
	for _, m := range members {
		if slices.Contains([]string{"writer", "standalone"}, m.Name) {
			return fmt.Errorf("a %s runs on %s: stop it first; one that was killed counts as running for %s", m.Name, m.Host, presenceAge)
		}
	}
	return nil
}

func (t *Topology) rewindStream(ctx context.Context, kind record.Kind, shard int, newest Stored, now time.Time) (one Rewound, moved bool, err error) {
	name := Name(kind, shard)
	if err := t.refuseUnsettled(ctx, name, now); err != nil {
		return one, false, err
	}
	row, err := newest(ctx, kind, shard, 0)
	if err != nil {
		return one, false, notKnown(name, err)
	}
	info, err := t.Lag(ctx, name)
	if err != nil {
		return one, false, err
	}
	p, err := t.Ledger().read(ctx, WriterKey(name))
	if err != nil {
		return one, false, fmt.Errorf("ledger of %s: %w", name, err)
	}
	if row >= p.Committed {
		return one, false, nil
	}
	to := min(max(row, info.FirstSeq-1), p.Committed)
	return Rewound{Stream: name, First: to + 1, Last: p.Committed, Missing: to - row}, true, t.Ledger().moveTo(ctx, WriterKey(name), to)
}

// refuseUnsettled is an error where rows may come to be stored yet.
func (t *Topology) refuseUnsettled(ctx context.Context, name string, now time.Time) error {
	p, err := t.Ledger().read(ctx, WriterKey(name))
	if err != nil || p.Intent == nil {
		return err
	}
	since, err := t.Ledger().newest(ctx, WriterKey(name))
	if err != nil {
		return fmt.Errorf("ledger of %s: %w", name, err)
	}
	if wait := since.Time.Add(insertSettles).Sub(now); wait > 0 {
		return fmt.Errorf("an insert of stream %s may be on its way: try again in %s", name, wait.Round(time.Second))
	}
	return nil
}
