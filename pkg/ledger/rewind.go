package ledger

import (
	"context"
	"fmt"
	"time"

	"github.com/logboom/logboom/pkg/record"
	"github.com/logboom/logboom/pkg/stream"
)

// insertMax is how long after its intent an insert may still become visible:
// longer than a writer allows any insert.
const insertMax = time.Minute

// MoveAfter implements stream.Readers. An unfinished intent counts as known: some
// of it may have been stored, and its messages are gone.
func (l *Ledger) MoveAfter(ctx context.Context, stream string, last uint64) (uint64, error) {
	for _, reader := range []string{WriterKey(stream), NotifierKey(stream)} {
		p, err := l.read(ctx, reader)
		if err != nil {
			return 0, fmt.Errorf("position of %s: %w", reader, err)
		}
		if last = max(last, p.Committed); p.Intent != nil {
			last = max(last, p.Intent.To)
		}
	}
	if last == 0 {
		return 0, nil
	}
	return last, l.move(ctx, WriterKey(stream), last)
}

// Rewound says how far a stream's writer was set back.
type Rewound struct {
	Stream string
	// First and Last are the messages that the writer stores again. Last is below
	// First where the queue has none of them.
	First, Last uint64
	// Missing is how many messages before First, after the newest row, the queue
	// no longer has. Some of them may have had no row.
	Missing uint64
}

// Rewind sets the writers back to the newest row of their streams, so that they
// store again what the queue still has of the messages after it: for tables that
// were restored from a backup, or created again, while the queue was not lost.
// Streams that are no further than their rows stay as they are, so Rewind can be
// interrupted and called again.
//
// No row is doubled, because nothing is stored again that is at or before the
// newest row. None is missed, because a stream is stored in order and a table's
// backup is of one moment; the exception is a batch over midnight during which a
// server's clock was set back, because a batch is stored day by day. Both hold
// only while no writer runs, which the caller ensures. An insert that may still
// become visible is an error. Dead letters of those messages are written again.
// newest must read rows only: usage is backed up at another moment.
func (l *Ledger) Rewind(ctx context.Context, t *stream.Topology, newest stream.Stored) ([]Rewound, error) {
	return l.rewindAt(ctx, t, newest, time.Now())
}

// rewindAt decides by now, a time before newest reads, whether an insert may
// still become visible: otherwise it could do so between the two.
func (l *Ledger) rewindAt(ctx context.Context, t *stream.Topology, newest stream.Stored, now time.Time) ([]Rewound, error) {
	var list []Rewound
	for _, kind := range []record.Kind{record.KindLog, record.KindEvent} {
		for shard, name := range t.Streams(kind) {
			row, err := newest(ctx, kind, shard, 0)
			if err != nil {
				return list, fmt.Errorf("rewind %s: newest row: %w", name, err)
			}
			one, err := l.rewindStream(ctx, t, name, row, now)
			if err != nil {
				return list, fmt.Errorf("rewind %s: %w", name, err)
			}
			if one.First > 0 {
				list = append(list, one)
			}
		}
	}
	return list, nil
}

// rewindStream returns a First of 0 where it moved nothing.
func (l *Ledger) rewindStream(ctx context.Context, t *stream.Topology, name string, row uint64, now time.Time) (Rewound, error) {
	info, err := t.Info(ctx, name)
	if err != nil {
		return Rewound{}, err
	}
	p, err := l.read(ctx, WriterKey(name))
	if err != nil {
		return Rewound{}, err
	}
	if wait := p.written.Add(insertMax).Sub(now); p.Intent != nil && wait > 0 {
		return Rewound{}, fmt.Errorf("an insert may still become visible: try again in %s", wait.Round(time.Second))
	}
	if row >= p.Committed {
		return Rewound{}, nil
	}
	to := min(max(row, info.FirstSeq-1), p.Committed)
	return Rewound{Stream: name, First: to + 1, Last: p.Committed, Missing: to - row}, l.move(ctx, WriterKey(name), to)
}
