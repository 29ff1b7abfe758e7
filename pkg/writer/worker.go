package writer

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/logboom/logboom/pkg/batch"
	"github.com/logboom/logboom/pkg/stream"
)

var (
	// errQueueLost says that the stream is not the one that the ledger speaks
	// of: it was lost or restored, and its sequences would be used again.
	errQueueLost = errors.New("the ledger and the stream disagree: the queue was lost or restored")
	// errPoison says that a message was met that is no batch of records. It is
	// among the dead letters, and the next run passes over it.
	errPoison = errors.New("a message could not be decoded")
	// errDue says that the batch in hand has waited long enough.
	errDue = errors.New("due")
)

// worker moves one stream. Its fields belong to the goroutine of run.
type worker struct {
	cfg      Config
	deps     Deps
	metrics  *metrics
	stream   string
	reader   string
	position stream.Position
	buried   map[uint64]bool // messages that are among the dead letters

	buffer *batch.Buffer
	rows   *rows
	digest hash.Hash
	next   uint64           // the batch in hand is committed+1 to next-1
	newest time.Time        // when the newest message in hand was queued
	held   *stream.Delivery // does not fit the batch in hand, starts the next
}

func newWorker(w *Writer, kind stream.Kind, shard int) *worker {
	name := stream.Name(kind, shard)
	return &worker{
		cfg:     w.cfg,
		deps:    w.deps,
		metrics: w.metrics,
		stream:  name,
		reader:  stream.WriterKey(name),
		buried:  map[uint64]bool{},
		buffer:  batch.New(w.cfg.Batch),
		rows:    newRows(kind, name, uint8(shard)),
		digest:  sha256.New(),
	}
}

// run takes the stream over and moves it until ctx ends or an error comes.
func (w *worker) run(ctx context.Context) error {
	if err := w.takeOver(ctx); err != nil {
		return err
	}
	if err := w.finishIntent(ctx); err != nil {
		return err
	}
	return w.move(ctx)
}

func (w *worker) takeOver(ctx context.Context) error {
	position, err := w.deps.Ledger.TakeOver(ctx, w.reader)
	if err != nil {
		return fmt.Errorf("take over: %w", err)
	}
	info, err := w.deps.Queue.Lag(ctx, w.stream)
	if err != nil {
		return fmt.Errorf("ask for the stream's end: %w", err)
	}
	if info.LastSeq < position.Committed {
		return fmt.Errorf("%w: it ends at %d, %d is committed", errQueueLost, info.LastSeq, position.Committed)
	}
	w.position, w.held = position, nil
	w.reset()
	w.deps.Logger.Info("stream taken over", "stream", w.stream, "epoch", position.Epoch, "seq", position.Committed, "left", info.LastSeq-position.Committed)
	return nil
}

// reset empties the batch in hand; its messages are still on the queue.
func (w *worker) reset() {
	w.buffer.Flushed(time.Now())
	w.rows.reset()
	w.digest.Reset()
	w.next = w.position.Committed + 1
}

// finishIntent inserts the range that an earlier owner intended, with the same
// cut and token, and commits it.
func (w *worker) finishIntent(ctx context.Context) error {
	intent := w.position.Intent
	if intent == nil {
		return nil
	}
	deliveries, err := w.deps.Queue.Refetch(ctx, w.stream, intent.From, intent.To)
	if err != nil {
		return fmt.Errorf("read %d to %d again: %w", intent.From, intent.To, err)
	}
	for _, delivery := range deliveries {
		if err := w.add(ctx, delivery); err != nil {
			return err
		}
	}
	if got := w.hash(); got != intent.Hash {
		return fmt.Errorf("%w: %d to %d has the hash %s, %s was intended", errQueueLost, intent.From, intent.To, got, intent.Hash)
	}
	return w.store(ctx, *intent)
}

// move gathers messages into batches and flushes them, until ctx ends.
func (w *worker) move(ctx context.Context) error {
	consumer, err := w.deps.Queue.Consume(ctx, w.stream, w.next, stream.ConsumerConfig{MaxBytes: w.cfg.FetchBytes})
	if err != nil {
		return fmt.Errorf("consume: %w", err)
	}
	defer consumer.Close()
	for {
		if err := w.gather(ctx, consumer); err != nil {
			return w.leave(ctx, err)
		}
		if err := w.flush(ctx); err != nil {
			return err
		}
	}
}

// gather adds messages until the batch in hand is to be flushed.
func (w *worker) gather(ctx context.Context, consumer *stream.Consumer) error {
	for !w.buffer.Full() {
		delivery, err := w.receive(ctx, consumer)
		if errors.Is(err, errDue) {
			return nil
		}
		if err != nil {
			return err
		}
		if !w.buffer.Fits(day(delivery.Time)) {
			w.held = &delivery
			return nil
		}
		if err := w.add(ctx, delivery); err != nil {
			return err
		}
	}
	return nil
}

// receive waits for the next message, or until the batch in hand is due.
func (w *worker) receive(ctx context.Context, consumer *stream.Consumer) (stream.Delivery, error) {
	if w.held != nil {
		delivery := *w.held
		w.held = nil
		return delivery, nil
	}
	if w.buffer.Empty() {
		return consumer.Next(ctx)
	}
	due, cancel := context.WithDeadline(ctx, w.buffer.Due())
	defer cancel()
	delivery, err := consumer.Next(due)
	if err != nil && due.Err() != nil && ctx.Err() == nil {
		return delivery, errDue
	}
	return delivery, err
}

// add puts a message's rows into the batch in hand.
func (w *worker) add(ctx context.Context, delivery stream.Delivery) error {
	before := w.rows.len()
	bytes := 0
	if !w.buried[delivery.Seq] {
		var err error
		if bytes, err = w.rows.add(delivery); err != nil {
			return w.bury(ctx, delivery, err)
		}
	}
	w.digest.Write(delivery.Data)
	w.buffer.Add(w.rows.len()-before, bytes, day(delivery.Time), time.Now())
	w.next, w.newest = delivery.Seq+1, delivery.Time
	return nil
}

// bury puts a message that is no batch of records among the dead letters. Half
// of its rows may be in the batch in hand, so the worker begins anew.
func (w *worker) bury(ctx context.Context, delivery stream.Delivery, cause error) error {
	letter := stream.DeadLetter{
		Reason: "undecodable",
		Stream: w.stream,
		Seq:    delivery.Seq,
		Time:   delivery.Time,
		Data:   delivery.Data,
		Detail: cause.Error(),
	}
	if err := w.deps.Queue.Bury(ctx, letter); err != nil {
		return fmt.Errorf("bury %d: %w", delivery.Seq, err)
	}
	w.buried[delivery.Seq] = true
	w.metrics.buried.WithLabelValues(letter.Reason).Inc()
	return fmt.Errorf("%w: %d: %w", errPoison, delivery.Seq, cause)
}

func (w *worker) hash() string { return hex.EncodeToString(w.digest.Sum(nil)[:8]) }

// flush moves the batch in hand to ClickHouse.
func (w *worker) flush(ctx context.Context) error {
	if w.buffer.Empty() {
		return nil
	}
	intent := stream.Intent{From: w.position.Committed + 1, To: w.next - 1, Hash: w.hash()}
	position, err := w.deps.Ledger.Intend(ctx, w.reader, w.position, intent)
	if err != nil {
		return fmt.Errorf("intend %d to %d: %w", intent.From, intent.To, err)
	}
	w.position = position
	return w.store(ctx, intent)
}

// store inserts the batch in hand, which is the intent's range, and commits it.
func (w *worker) store(ctx context.Context, intent stream.Intent) error {
	began, count := time.Now(), w.rows.len()
	if err := w.insert(ctx, intent); err != nil {
		return err
	}
	position, err := w.deps.Ledger.Commit(ctx, w.reader, w.position, intent.To)
	if err != nil {
		return fmt.Errorf("commit %d: %w", intent.To, err)
	}
	w.position = position
	w.metrics.stored(w.stream, count, time.Since(began), time.Since(w.newest))
	w.deps.Logger.Debug("batch stored", "stream", w.stream, "seq", intent.To, "rows", count, "elapsed", time.Since(began))
	w.reset()
	return nil
}

// insert tries until ClickHouse has the rows or ctx ends: the queue is the
// buffer, and every try has the same token.
func (w *worker) insert(ctx context.Context, intent stream.Intent) error {
	token := fmt.Sprintf("%s-%d-%d-%s", w.stream, intent.From, intent.To, intent.Hash)
	waits := backoff.NewExponentialBackOff()
	waits.InitialInterval, waits.MaxInterval = 100*time.Millisecond, 10*time.Second
	for attempt := 1; ; attempt++ {
		err := w.rows.insert(ctx, w.deps.Sink, token, intent.From)
		if err == nil {
			return nil
		}
		w.metrics.failures.WithLabelValues(w.stream).Inc()
		w.deps.Logger.Warn("insert failed", "stream", w.stream, "seq", intent.To, "rows", w.rows.len(), "attempt", attempt, "err", err)
		if err := pause(ctx, waits.NextBackOff()); err != nil {
			return err
		}
	}
}

// leave flushes the batch in hand when the process stops; where ClickHouse
// does not take it in time, the queue still has it.
func (w *worker) leave(ctx context.Context, cause error) error {
	if ctx.Err() == nil || w.buffer.Empty() {
		return cause
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), w.cfg.FlushTimeout)
	defer cancel()
	rows := w.rows.len()
	if err := w.flush(last); err != nil {
		w.deps.Logger.Warn("last batch left on the queue", "stream", w.stream, "rows", rows, "err", err)
		return cause
	}
	w.deps.Logger.Info("last batch flushed", "stream", w.stream, "rows", rows)
	return cause
}

// day is the partition of what was queued at the time.
func day(t time.Time) int64 { return t.Unix() / 86_400 }
