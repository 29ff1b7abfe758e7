package writer

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"maps"
	"math"
	"sync/atomic"
	"time"

	"github.com/logboom/logboom/pkg/batch"
	"github.com/logboom/logboom/pkg/lease"
	"github.com/logboom/logboom/pkg/ledger"
	"github.com/logboom/logboom/pkg/record"
	"github.com/logboom/logboom/pkg/stream"
)

var (
	// errReread means that the batch was cut or cannot be used: what is not
	// committed must be read again.
	errReread = errors.New("read again from the committed position")
	// errDue means that the batch has waited long enough.
	errDue = errors.New("the batch is due")
	// errStopping means that nothing is retried, because the shard is given up.
	errStopping = errors.New("stopping")
)

// source is what a worker reads its stream from; stream.Consumer is one.
type source interface {
	Next(ctx context.Context) (stream.Delivery, error)
	Close()
}

// worker stores one stream. Its fields belong to the goroutine of run, except
// for the last ones.
type worker struct {
	settings   settings
	deps       Deps
	metrics    *metrics
	failpoints failpoints
	kind       record.Kind
	stream     string
	reader     string // the stream's key in the ledger
	open       func(ctx context.Context, from uint64) (source, error)
	started    func() // called when the stream is taken over and no intent is left to finish
	position   ledger.Position
	intendedAt time.Time       // before the last write of an intent
	dead       map[uint64]bool // messages that are dead letters and not committed yet
	stopping   <-chan struct{} // closed when the shard is given up

	buffer   *batch.Buffer
	rows     *rows
	sums     sums // of usage
	digest   hash.Hash
	nextSeq  uint64 // the batch is committed+1 to nextSeq-1
	received span
	leftover *stream.Delivery // did not fit into the batch, starts the next one

	messagesDone, rowsDone atomic.Uint64 // since the start, to estimate the lag in records
}

// span is when the queue received the messages of the batch.
type span struct {
	min, max int64 // Unix nanoseconds
	last     time.Time
}

func (s *span) add(t time.Time) {
	s.min, s.max, s.last = min(s.min, t.UnixNano()), max(s.max, t.UnixNano()), t
}

func newWorker(w *Writer, kind record.Kind, shard int) *worker {
	name := stream.Name(kind, shard)
	return &worker{
		settings:   w.settings,
		deps:       w.deps,
		metrics:    w.metrics,
		failpoints: w.failpoints,
		kind:       kind,
		stream:     name,
		reader:     ledger.WriterKey(name),
		open: func(ctx context.Context, from uint64) (source, error) {
			consumer, err := w.deps.Queue.Consume(ctx, name, from, stream.ConsumerConfig{MaxBytes: w.settings.fetchBytes})
			if err != nil {
				return nil, err
			}
			return w.failpoints.source(consumer), nil
		},
		started: func() { w.setTrouble(name, nil); w.metrics.setRunning(name) },
		dead:    map[uint64]bool{},
		buffer:  batch.New(w.settings.batch),
		rows:    newRows(kind, name, uint8(shard)),
		digest:  sha256.New(),
	}
}

// run takes the stream over and stores it until ctx ends or an error comes. A
// batch that is being stored when ctx ends is finished within the flush timeout.
func (w *worker) run(ctx context.Context) error {
	if err := w.takeOver(ctx); err != nil {
		return err
	}
	w.stopping = ctx.Done()
	late, cancel := lease.WithGrace(ctx, w.settings.flushTimeout, ledger.ErrFenced)
	defer cancel()
	for {
		err := w.finish(late)
		if err == nil {
			w.started()
			err = w.consume(ctx, late)
		}
		if !errors.Is(err, errReread) {
			return err
		}
		w.reset()
	}
}

func (w *worker) takeOver(ctx context.Context) error {
	position, err := w.deps.Ledger.TakeOver(ctx, w.reader)
	if err != nil {
		return fmt.Errorf("take over: %w", err)
	}
	w.position, w.sums = position, newSums(time.Now()) // other writers may have added usage since
	w.reset()
	if err := w.failpoints.hit(pointTakeOver); err != nil {
		return err
	}
	info, err := w.deps.Queue.Info(ctx, w.stream)
	if err != nil {
		return fmt.Errorf("read the stream's end: %w", err)
	}
	w.recordLag(ctx, position.Committed, info)
	if info.LastSeq < position.Committed {
		return queueLost(w.stream, position.Committed, info.LastSeq, nil)
	}
	// A queue that was lost grows past the committed position after a while, so
	// the message that was committed last must still be the same one.
	if at := position.Committed; at > 0 && !position.CommittedAt.IsZero() {
		mark, err := w.deps.Queue.First(ctx, w.stream, at)
		if err != nil {
			return fmt.Errorf("read message %d: %w", at, err)
		}
		if mark.Seq == at && !mark.Time.Equal(position.CommittedAt) {
			return queueLost(w.stream, at, at, nil)
		}
	}
	w.deps.Logger.Info("stream taken over", "stream", w.stream, "epoch", position.Epoch, "seq", position.Committed, "left", info.LastSeq-position.Committed)
	return nil
}

// reset empties the batch; its messages are still on the queue.
func (w *worker) reset() {
	w.buffer.Flushed(time.Now())
	w.rows.reset()
	w.digest.Reset()
	w.leftover = nil
	w.nextSeq = w.position.Committed + 1
	w.received = span{min: math.MaxInt64, max: math.MinInt64}
}

// finish stores and commits the intent that an earlier owner left, with the
// same range and tokens.
func (w *worker) finish(ctx context.Context) error {
	left := w.position.Intent
	if left == nil {
		return nil
	}
	if left.Schema > rowsVersion {
		return &stoppedError{
			code:   stopNewer,
			found:  fmt.Sprintf("stream %s: the intent %d to %d was made by a newer version", w.stream, left.From, left.To),
			remedy: "let a writer of that version finish it",
		}
	}
	if err := w.load(ctx, left.From, left.To); err != nil {
		return err
	}
	mine := w.intent()
	if left.Want == nil && left.ReceivedMax == 0 { // made by a version that did not record its rows
		mine.Dead = left.Dead
		if mine.Hash == left.Hash {
			*left = mine
		}
	}
	if mine.Hash != left.Hash || !maps.Equal(mine.Want, left.Want) {
		return &stoppedError{
			code:   stopDiffers,
			found:  fmt.Sprintf("stream %s: messages %d to %d are not what was intended (hash %s, not %s)", w.stream, left.From, left.To, mine.Hash, left.Hash),
			remedy: "restore the queue's newest backup, or let a writer of the version that made the intent finish it",
		}
	}
	return w.store(ctx, false)
}

// load makes the messages from..to the batch.
func (w *worker) load(ctx context.Context, from, to uint64) error {
	deliveries, err := w.deps.Queue.ReadRange(ctx, w.stream, from, to)
	if err != nil {
		return fmt.Errorf("read %d to %d again: %w", from, to, err)
	}
	w.reset()
	for _, delivery := range deliveries {
		if err := w.add(ctx, delivery); err != nil {
			return err
		}
	}
	return nil
}

// consume gathers messages into batches and flushes them until ctx ends.
func (w *worker) consume(ctx, late context.Context) error {
	from, err := w.open(ctx, w.nextSeq)
	if err != nil {
		return fmt.Errorf("consume: %w", err)
	}
	defer from.Close()
	for {
		if err := w.gather(ctx, from); err != nil {
			if ctx.Err() != nil && !isLost(ctx) && !w.buffer.Empty() {
				w.flushLast(late)
			}
			return err
		}
		if err := w.flush(late); err != nil {
			return err
		}
	}
}

// gather adds messages until the batch must be flushed.
func (w *worker) gather(ctx context.Context, from source) error {
	for !w.buffer.Full() {
		delivery, err := w.receive(ctx, from)
		if errors.Is(err, errDue) {
			return nil
		}
		if err != nil {
			return err
		}
		if !w.buffer.Fits(day(delivery.Time)) {
			w.leftover = &delivery
			return nil
		}
		if err := w.add(ctx, delivery); err != nil {
			return err
		}
	}
	return nil
}

// receive waits for the next message, or until the batch is due.
func (w *worker) receive(ctx context.Context, from source) (stream.Delivery, error) {
	if w.leftover != nil {
		delivery := *w.leftover
		w.leftover = nil
		return delivery, nil
	}
	if w.buffer.Empty() {
		return from.Next(ctx)
	}
	due, cancel := context.WithDeadline(ctx, w.buffer.Due())
	defer cancel()
	delivery, err := from.Next(due)
	if err != nil && due.Err() != nil && ctx.Err() == nil {
		return delivery, errDue
	}
	return delivery, err
}

// add adds a message's rows to the batch.
func (w *worker) add(ctx context.Context, delivery stream.Delivery) error {
	before, bytes := w.rows.len(), 0
	if !w.dead[delivery.Seq] {
		var err error
		if bytes, err = w.rows.add(delivery); err != nil {
			// Some of its rows may be in the batch.
			if err := w.deadLetter(ctx, delivery, reasonUndecodable, err.Error()); err != nil {
				return err
			}
			return fmt.Errorf("message %d: %w", delivery.Seq, errReread)
		}
	}
	w.digest.Write(delivery.Data)
	w.buffer.Add(w.rows.len()-before, bytes, day(delivery.Time), time.Now())
	w.received.add(delivery.Time)
	w.nextSeq = delivery.Seq + 1
	return nil
}

// reasonUndecodable is the reason of messages that are not batches of records.
const reasonUndecodable = "undecodable"

// deadLetter publishes a message as a dead letter.
func (w *worker) deadLetter(ctx context.Context, delivery stream.Delivery, reason, detail string) error {
	letter := stream.DeadLetter{
		Reason: reason, Stream: w.stream, Subject: delivery.Subject, Seq: delivery.Seq, Time: delivery.Time, Data: delivery.Data, Detail: detail,
	}
	if err := w.deps.Queue.PublishDeadLetter(ctx, letter); err != nil {
		return fmt.Errorf("publish message %d as a dead letter: %w", delivery.Seq, err)
	}
	w.dead[delivery.Seq] = true
	w.metrics.deadLetters.WithLabelValues(reason).Inc()
	w.deps.Logger.Error("message dead-lettered", "stream", w.stream, "seq", delivery.Seq, "reason", reason, "err", detail)
	return nil
}

// intent returns the batch as the ledger records it.
func (w *worker) intent() ledger.Intent {
	return ledger.Intent{
		From:        w.position.Committed + 1,
		To:          w.nextSeq - 1,
		ReceivedMin: w.received.min,
		ReceivedMax: w.received.max,
		Want:        w.rows.want(),
		Hash:        hex.EncodeToString(w.digest.Sum(nil)[:8]),
		Attempt:     1,
		Schema:      rowsVersion,
	}
}

// intend writes the intent into the ledger. The time limit of its inserts
// starts before the write, so that a writer that is paused after it notices.
func (w *worker) intend(ctx context.Context, in ledger.Intent) error {
	w.intendedAt = time.Now()
	position, err := w.deps.Ledger.Intend(ctx, w.reader, w.position, in)
	if err != nil {
		return fmt.Errorf("intend %d to %d: %w", in.From, in.To, err)
	}
	w.position = position
	return nil
}

// flush writes the batch's intent and stores it.
func (w *worker) flush(ctx context.Context) error {
	if w.buffer.Empty() {
		return nil
	}
	if err := w.failpoints.hit(pointBeforeIntent); err != nil {
		return err
	}
	if err := w.intend(ctx, w.intent()); err != nil {
		return err
	}
	if err := w.failpoints.hit(pointAfterIntent); err != nil {
		return err
	}
	return w.store(ctx, true)
}

// flushLast flushes the batch when the shard is given up. If ClickHouse does
// not store it in time, it is still on the queue.
func (w *worker) flushLast(ctx context.Context) {
	rows := w.rows.len()
	if err := w.flush(ctx); err != nil {
		w.deps.Logger.Warn("last batch left on the queue", "stream", w.stream, "rows", rows, "err", err)
		return
	}
	w.deps.Logger.Info("last batch flushed", "stream", w.stream, "rows", rows)
}

// store stores the intent's rows and usage and commits it. fresh means that
// nobody has inserted any of its rows before.
func (w *worker) store(ctx context.Context, fresh bool) error {
	began, to := time.Now(), w.position.Intent.To
	if err := w.storeRows(ctx, fresh); err != nil {
		return err
	}
	if err := w.storeUsage(ctx); err != nil {
		return err
	}
	if err := w.failpoints.hit(pointBeforeCommit); err != nil {
		return err
	}
	if err := w.commit(ctx, began); err != nil {
		return err
	}
	if w.position.Committed < to {
		return errReread // the intent was cut; the rest is read again
	}
	return w.failpoints.hit(pointAfterCommit)
}

func (w *worker) commit(ctx context.Context, began time.Time) error {
	done, count := w.position.Intent, w.rows.len()
	position, err := w.deps.Ledger.Commit(ctx, w.reader, w.position, done.To, w.received.last)
	if err != nil {
		return fmt.Errorf("commit %d: %w", done.To, err)
	}
	w.position = position
	if done.Dead != "" {
		count = 0
	}
	w.rowsDone.Add(uint64(count))
	w.messagesDone.Add(done.To - done.From + 1)
	maps.DeleteFunc(w.dead, func(seq uint64, _ bool) bool { return seq <= done.To })
	w.metrics.recordBatch(w.stream, count, time.Since(began))
	w.deps.Logger.Debug("batch stored", "stream", w.stream, "seq", done.To, "rows", count, "elapsed", time.Since(began))
	leftover := w.leftover
	w.reset()
	w.leftover = leftover
	return nil
}

// stopRequested reports whether the shard is being given up.
func (w *worker) stopRequested() bool {
	select {
	case <-w.stopping:
		return true
	default:
		return false
	}
}

// pause waits before a retry; once the shard is given up it returns errStopping.
func (w *worker) pause(ctx context.Context, d time.Duration) error {
	if w.stopRequested() {
		return errStopping
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-w.stopping:
		return errStopping
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
