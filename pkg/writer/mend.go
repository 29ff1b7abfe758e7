package writer

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/logboom/logboom/pkg/batch"
	"github.com/logboom/logboom/pkg/clickhouse"
	"github.com/logboom/logboom/pkg/stream"
)

// wound is what a stream is to be mended after: a part whose rows are missing
// from its table, or rows of the stream that are there twice.
type wound struct {
	table     string
	part      string // its name beside the table; of doubled rows, one that begins with doubledMark
	partition string
	stream    string // of doubled rows
}

// mendMark stands in the ledger's keys between a stream and the part after
// which it is mended.
const mendMark = ".mend."

// withdrawn, as the time of a mending's position, says that the part was found
// to be good. Should it come to be set aside after all, the mending goes on.
var withdrawn = time.Unix(0, 1)

// mendedBefore tells whether a mending has come to its end.
func mendedBefore(p stream.Position) bool {
	return !p.CommittedAt.IsZero() && !p.CommittedAt.Equal(withdrawn)
}

// mendReader is the ledger's key of the mending of a stream after a part. Its
// position is how far the stream has been gone through; it has a time once that
// is done with.
func mendReader(name, part string) string { return stream.WriterKey(name + mendMark + part) }

// mendAgain is how long after a failed try the next one comes.
const mendAgain = 10 * time.Second

// mendMessages is how many messages a mender holds at once: with the largest
// that ingest makes, 16 MiB.
const mendMessages = 32

// mendNow mends between two batches, where there is something to mend. What
// fails is tried again later, and meanwhile the stream goes on.
func (w *worker) mendNow(ctx context.Context) error {
	if !w.buffer.Empty() || time.Now().Before(w.mendNext) {
		return nil
	}
	err := w.mend(ctx)
	if err == nil || errors.Is(err, stream.ErrFenced) || errors.Is(err, errStopping) || ctx.Err() != nil {
		return err
	}
	w.mendNext = time.Now().Add(mendAgain)
	w.metrics.failures.WithLabelValues(w.stream, "mend").Inc()
	w.deps.Logger.Warn("stream not mended yet", "stream", w.stream, "err", err)
	return nil
}

// mend stores again what the stream lost with parts that were set aside, as far
// as the queue still has it. It runs between two batches, so that nothing of
// the stream is on its way meanwhile: a row of a message that is committed now
// is either there or was in a part that is not.
func (w *worker) mend(ctx context.Context) error {
	for _, wound := range w.wounds() {
		if w.mended[wound.part] || wound.stream != "" && wound.stream != w.stream {
			continue
		}
		mend := func(ctx context.Context) error { return w.mendAfter(ctx, wound) }
		if wound.table == tableUsage {
			mend = w.mendUsage
		}
		if err := mend(ctx); err != nil {
			return fmt.Errorf("mend after %s: %w", wound.part, err)
		}
		w.mended[wound.part] = true
	}
	return nil
}

// mender goes through what the queue still has of a stream, from its oldest
// message to the last that was committed when it began, under a key of its own
// in the ledger. What it inserts has an intent there, like a batch, so that a
// crash or another writer in the middle is nothing new. mend_doubled.go has what
// it does about rows that are there twice.
type mender struct {
	worker
	wound   wound
	through uint64 // the last message to look at
	scratch *rows  // for one message at a time
	again   int    // rows stored again

	reported bool // a message has rows twice, and that was told
}

// mendAfter goes through the stream once, and goes on where an earlier try, of
// any writer, was broken off.
func (w *worker) mendAfter(ctx context.Context, after wound) error {
	info, err := w.deps.Queue.Lag(ctx, w.stream)
	if err != nil {
		return err
	}
	m := w.newMender(after)
	if m.position, err = m.deps.Ledger.TakeOver(ctx, m.reader); err != nil {
		return err
	}
	if mendedBefore(m.position) {
		return nil
	}
	m.through = max(m.through, m.position.Committed) // the stream may have been set back by hand
	if m.position.Intent == nil && m.position.Committed+1 < info.FirstSeq {
		if err := m.pass(ctx, min(info.FirstSeq-1, m.through)); err != nil {
			return err
		}
	}
	if err := m.walk(ctx); err != nil {
		return err
	}
	m.position, err = m.deps.Ledger.CommitAt(ctx, m.reader, m.position, m.through, time.Now())
	if err != nil {
		return err
	}
	m.deps.Logger.Warn("stream mended: what the queue still has is stored once", "stream", m.stream, "part", after.part, "from", info.FirstSeq, "seq", m.through, "rows", m.again)
	m.metrics.mended.WithLabelValues(m.stream).Add(float64(m.again))
	return nil
}

func (w *worker) newMender(after wound) *mender {
	return &mender{
		worker: worker{
			cfg: w.cfg, deps: w.deps, metrics: w.metrics, failpoints: w.failpoints,
			kind: w.kind, stream: w.stream, stopping: w.stopping, doubt: w.doubt,
			reader: mendReader(w.stream, after.part),
			buried: map[uint64]bool{},
			buffer: batch.New(w.cfg.Batch),
			rows:   newRows(w.kind, w.stream, w.rows.shard),
			digest: sha256.New(),
		},
		wound:   after,
		through: w.position.Committed,
		scratch: newRows(w.kind, w.stream, w.rows.shard),
	}
}

// pass notes that everything up to a message is there.
func (m *mender) pass(ctx context.Context, to uint64) (err error) {
	m.position, err = m.deps.Ledger.CommitAt(ctx, m.reader, m.position, to, time.Time{})
	return err
}

// walk goes from where the last try ended to the end.
func (m *mender) walk(ctx context.Context) error {
	if left := m.position.Intent; left != nil {
		if err := m.restore(ctx, left.From, left.To, left); err != nil {
			return err
		}
	}
	if m.wound.stream != "" {
		return m.replaceDoubled(ctx)
	}
	for m.position.Committed < m.through {
		if m.givenUp() {
			return errStopping
		}
		from := m.position.Committed + 1
		if err := m.step(ctx, from, min(from+mendMessages-1, m.through)); err != nil {
			return err
		}
	}
	return nil
}

// step deals with the messages from..to: with those that are there by passing
// them, with a run of those that are not by an intent of its own.
func (m *mender) step(ctx context.Context, from, to uint64) error {
	deliveries, err := m.deps.Queue.Refetch(ctx, m.stream, from, to)
	if err != nil {
		return fmt.Errorf("read %d to %d again: %w", from, to, err)
	}
	missing, err := m.missing(ctx, deliveries)
	if err != nil {
		return err
	}
	for at := 0; at < len(deliveries); {
		run := at + 1
		for run < len(deliveries) && missing[run] == missing[at] {
			run++
		}
		first, last := deliveries[at].Seq, deliveries[run-1].Seq
		if missing[at] {
			err = m.restore(ctx, first, last, nil)
		} else {
			err = m.pass(ctx, last)
		}
		if err != nil || m.position.Committed < last { // it was cut: look again
			return err
		}
		at = run
	}
	return nil
}

// missing tells of each message whether its rows are to be stored again. The
// rows of a message are inserted as one and stay in one part, so a message of
// which some rows are there was not in the part that is missing: the others
// were erased since, or their retention has passed. One with more rows than it
// makes is another mending's.
func (m *mender) missing(ctx context.Context, deliveries []stream.Delivery) ([]bool, error) {
	asked := clickhouse.Range{
		Kind: recordKind(m.kind), Shard: m.rows.shard, From: deliveries[0].Seq, To: deliveries[len(deliveries)-1].Seq,
		ReceivedMin: math.MaxInt64, ReceivedMax: math.MinInt64,
	}
	for _, d := range deliveries {
		asked.ReceivedMin, asked.ReceivedMax = min(asked.ReceivedMin, d.Time.UnixNano()), max(asked.ReceivedMax, d.Time.UnixNano())
	}
	have, err := m.deps.Tables.CountMessages(ctx, asked)
	if err != nil {
		return nil, err
	}
	missing := make([]bool, len(deliveries))
	for i, d := range deliveries {
		want, lasting := m.expect(d)
		if have[d.Seq] > want && want > 0 {
			if err := m.report(ctx, d.Seq); err != nil {
				return nil, err
			}
		}
		missing[i] = have[d.Seq] == 0 && lasting > 0 && clickhouse.Partition(d.Time.UnixNano()) == m.wound.partition
	}
	return missing, nil
}

// report has the first message replaced that was met with rows twice, and those
// that follow.
func (m *mender) report(ctx context.Context, seq uint64) error {
	if m.reported {
		return nil
	}
	if _, err := orderDoubled(ctx, m.deps.Ledger, m.stream, seq); err != nil {
		return err
	}
	m.reported = true
	m.deps.Logger.Error("rows stored twice are to be replaced from the queue", "stream", m.stream, "seq", seq)
	return nil
}

// expect is how many rows a message becomes, and how many of them must be there
// still. What is no batch of records is among the dead letters.
func (m *mender) expect(d stream.Delivery) (want, lasting uint64) {
	m.scratch.reset()
	if _, err := m.scratch.add(d); err != nil {
		m.buried[d.Seq] = true
		return 0, 0
	}
	for _, p := range m.scratch.parts {
		want += uint64(p.len())
		lasting += p.lasting(time.Now())
	}
	return want, lasting
}

// restore inserts the messages from..to under an intent, or brings one to its
// end that was left; of those that have rows twice, what is stored goes first.
// Their usage was counted when they came.
func (m *mender) restore(ctx context.Context, from, to uint64, left *stream.Intent) error {
	if left != nil {
		deliveries, err := m.deps.Queue.Refetch(ctx, m.stream, from, to)
		if err != nil {
			return fmt.Errorf("read %d to %d again: %w", from, to, err)
		}
		for _, d := range deliveries {
			m.expect(d)
		}
	}
	if err := m.load(ctx, from, to); err != nil {
		return err
	}
	if left != nil {
		if err := m.same(left); err != nil {
			return err
		}
	} else if err := m.intend(ctx, m.intent()); err != nil {
		return err
	}
	if m.wound.stream != "" {
		if err := newSettlement(&m.worker).erase(ctx); err != nil {
			return err
		}
	}
	if err := m.settle(ctx, false); err != nil {
		return err
	}
	if err := m.failpoints.hit(pointBeforeCommit); err != nil {
		return err
	}
	m.again += m.rows.len()
	return m.pass(ctx, m.position.Intent.To)
}

// forgets tells whether the queue may have purged messages of a part already.
func forgets(ctx context.Context, queue Queue, name string, part clickhouse.Part) (bool, error) {
	info, err := queue.Lag(ctx, name)
	switch {
	case err != nil:
		return false, err
	case info.FirstSeq <= 1:
		return false, nil
	case info.Messages == 0:
		return !info.LastTime.Before(part.ReceivedMin), nil
	}
	mark, err := queue.First(ctx, name, 0)
	return mark.Time.After(part.ReceivedMin), err
}

// mending tells the least message that is still needed to mend the stream, and
// of which parts, or doubled rows, there is word in the ledger.
func mending(name string, positions map[string]stream.Position) (need uint64, parts map[string]bool) {
	need, parts = math.MaxUint64, map[string]bool{}
	for key, position := range positions {
		part, ok := strings.CutPrefix(key, mendReader(name, ""))
		if !ok {
			continue
		}
		parts[part] = true
		if position.CommittedAt.IsZero() {
			need = min(need, position.Committed)
		}
	}
	return need, parts
}
