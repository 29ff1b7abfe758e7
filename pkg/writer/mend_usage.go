package writer

import (
	"context"
	"fmt"

	"github.com/logboom/logboom/pkg/stream"
)

// usageStream stands for all streams in the ledger's keys of parts of usage:
// their rows have no stream's order to keep.
const usageStream = "USAGE"

// tableUsage is the table of what each project sent.
const tableUsage = "usage"

// mendUsage stores the usage again that was lost with a part, of the batches
// whose messages the queue still has. A batch that is there tells by its
// records where it ends; what lies between its end and the next one's beginning
// has lost its rows. They get the key of a batch of their own, so that to do
// all of this again changes nothing.
func (w *worker) mendUsage(ctx context.Context) error {
	info, err := w.deps.Queue.Lag(ctx, w.stream)
	if err != nil {
		return err
	}
	batches, err := w.deps.Tables.UsageBatches(ctx, w.stream, info.FirstSeq)
	if err != nil {
		return err
	}
	m := usageMender{worker: w, batches: batches, lost: newRows(w.kind, w.stream, w.rows.shard), known: info.FirstSeq <= 1}
	for from := info.FirstSeq; from <= w.position.Committed; from += mendMessages {
		if w.givenUp() {
			return errStopping
		}
		if err := m.step(ctx, from, min(from+mendMessages-1, w.position.Committed)); err != nil {
			return err
		}
	}
	return m.store(ctx)
}

// usageMender goes through a stream's messages in order.
type usageMender struct {
	*worker
	batches map[uint64]uint64
	known   bool   // a batch that is there has begun, or nothing came before
	left    uint64 // records of the present batch that are still to come
	lost    *rows  // messages whose usage is missing, since first
	first   uint64
}

func (m *usageMender) step(ctx context.Context, from, to uint64) error {
	deliveries, err := m.deps.Queue.Refetch(ctx, m.stream, from, to)
	if err != nil {
		return fmt.Errorf("read %d to %d again: %w", from, to, err)
	}
	scratch := newRows(m.kind, m.stream, m.rows.shard)
	for _, d := range deliveries {
		scratch.reset()
		if _, err := scratch.add(d); err != nil {
			continue // it is among the dead letters and brought nothing
		}
		if err := m.take(ctx, d, scratch.usage.records()); err != nil {
			return err
		}
	}
	return nil
}

// take looks at one message, which brought so many records. What belongs to a
// batch that began before the queue's first message is passed over.
func (m *usageMender) take(ctx context.Context, d stream.Delivery, records uint64) error {
	if total, ok := m.batches[d.Seq]; ok {
		m.known, m.left = true, total
		if err := m.store(ctx); err != nil {
			return err
		}
	}
	if m.left > 0 || !m.known {
		m.left -= min(m.left, records)
		return nil
	}
	if m.first == 0 {
		m.first = d.Seq
	}
	_, err := m.lost.add(d)
	return err
}

// store inserts what was found missing so far.
func (m *usageMender) store(ctx context.Context) error {
	rows := m.lost.usage.rows(m.stream, m.first, "")
	if len(rows) > 0 {
		token := fmt.Sprintf("%s-%d-mend%d", m.stream, m.first, m.position.Epoch)
		if err := m.deps.Sink.InsertUsage(ctx, token, rows); err != nil {
			return err
		}
		m.deps.Logger.Warn("usage stored again from the queue", "stream", m.stream, "seq", m.first, "rows", len(rows))
	}
	m.lost.reset()
	m.first = 0
	return nil
}

// records is how many records there are in all.
func (u usage) records() (sum uint64) {
	for _, t := range u {
		sum += t.records
	}
	return sum
}
