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
	"github.com/logboom/logboom/pkg/record"
	"github.com/logboom/logboom/pkg/stream"
)

var (
	// errAnew says that the batch in hand is spoilt or was cut: what is not
	// committed is to be read again.
	errAnew = errors.New("read on from what is committed")
	// errDue says that the batch in hand has waited long enough.
	errDue = errors.New("due")
	// errStopping says that no further try is made, because the shard is to be
	// given up.
	errStopping = errors.New("stopping")
)

// source is what a worker reads its stream from; stream.Consumer is one.
type source interface {
	Next(ctx context.Context) (stream.Delivery, error)
	Close()
}

// worker moves one stream. Its fields belong to the goroutine of run, but for
// the last ones.
type worker struct {
	cfg        Config
	deps       Deps
	metrics    *metrics
	failpoints failpoints
	kind       record.Kind
	stream     string
	reader     string
	open       func(ctx context.Context, from uint64) (source, error)
	moves      func() // told when the stream is taken over and nothing is left to finish
	position   stream.Position
	allowed    time.Time       // before the last swap: when what the ledger allows was asked for
	buried     map[uint64]bool // messages that are among the dead letters and not committed yet
	stopping   <-chan struct{} // closed when the shard is to be given up

	buffer   *batch.Buffer
	rows     *rows
	sums     sums // of usage
	digest   hash.Hash
	next     uint64 // the batch in hand is committed+1 to next-1
	received span
	held     *stream.Delivery // does not fit the batch in hand, starts the next

	messagesDone, rowsDone atomic.Uint64 // since the start, for who estimates the lag
}

// span is when the queue had the messages of the batch in hand.
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
		cfg:        w.cfg,
		deps:       w.deps,
		metrics:    w.metrics,
		failpoints: w.failpoints,
		kind:       kind,
		stream:     name,
		reader:     stream.WriterKey(name),
		open: func(ctx context.Context, from uint64) (source, error) {
			consumer, err := w.deps.Queue.Consume(ctx, name, from, stream.ConsumerConfig{MaxBytes: w.cfg.FetchBytes})
			if err != nil {
				return nil, err
			}
			return w.failpoints.source(consumer), nil
		},
		moves:  func() { w.moves(name) },
		buried: map[uint64]bool{},
		buffer: batch.New(w.cfg.Batch),
		rows:   newRows(kind, name, uint8(shard)),
		digest: sha256.New(),
	}
}

// run takes the stream over and moves it until ctx ends or an error comes. What
// is under way when ctx ends is brought to its end, within the flush timeout.
func (w *worker) run(ctx context.Context) error {
	if err := w.takeOver(ctx); err != nil {
		return err
	}
	w.stopping = ctx.Done()
	late, cancel := outlive(ctx, w.cfg.FlushTimeout)
	defer cancel()
	for {
		err := w.finish(late)
		if err == nil {
			w.moves()
			err = w.move(ctx, late)
		}
		if !errors.Is(err, errAnew) {
			return err
		}
		w.reset()
	}
}

// outlive is a context that ends so long after ctx does, or at once where ctx
// ends because the shard is another's.
func outlive(ctx context.Context, grace time.Duration) (context.Context, context.CancelFunc) {
	late, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	forget := context.AfterFunc(ctx, func() {
		if !errors.Is(context.Cause(ctx), stream.ErrFenced) {
			timer := time.NewTimer(grace)
			defer timer.Stop()
			select {
			case <-timer.C:
			case <-late.Done():
			}
		}
		cancel(context.Cause(ctx))
	})
	return late, func() {
		forget()
		cancel(nil)
	}
}

func (w *worker) takeOver(ctx context.Context) error {
	position, err := w.deps.Ledger.TakeOver(ctx, w.reader)
	if err != nil {
		return fmt.Errorf("take over: %w", err)
	}
	w.position, w.sums = position, newSums(time.Now()) // others may have added since
	w.reset()
	if err := w.failpoints.hit(pointTakeOver); err != nil {
		return err
	}
	info, err := w.deps.Queue.Lag(ctx, w.stream)
	if err != nil {
		return fmt.Errorf("ask for the stream's end: %w", err)
	}
	w.tellLag(ctx, position.Committed, info)
	if info.LastSeq < position.Committed {
		return queueLost(w.stream, position.Committed, info.LastSeq, nil)
	}
	if err := w.recognize(ctx); err != nil {
		return err
	}
	w.deps.Logger.Info("stream taken over", "stream", w.stream, "epoch", position.Epoch, "seq", position.Committed, "left", info.LastSeq-position.Committed)
	return nil
}

// recognize checks that the message that was committed last is still the same
// one: a queue that was lost grows past the position again after a while.
func (w *worker) recognize(ctx context.Context) error {
	at := w.position.Committed
	if at == 0 || w.position.CommittedAt.IsZero() {
		return nil
	}
	mark, err := w.deps.Queue.First(ctx, w.stream, at)
	if err != nil {
		return fmt.Errorf("look at message %d: %w", at, err)
	}
	if mark.Seq == at && !mark.Time.Equal(w.position.CommittedAt) {
		return queueLost(w.stream, at, at, nil)
	}
	return nil
}

// reset empties the batch in hand; its messages are still on the queue.
func (w *worker) reset() {
	w.buffer.Flushed(time.Now())
	w.rows.reset()
	w.digest.Reset()
	w.held = nil
	w.next = w.position.Committed + 1
	w.received = span{min: math.MaxInt64, max: math.MinInt64}
}

// finish brings the intent that an earlier owner left to its end, with the same
// cut and tokens.
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
	if err := w.same(left); err != nil {
		return err
	}
	return w.store(ctx, false)
}

// load makes the messages from..to the batch in hand.
func (w *worker) load(ctx context.Context, from, to uint64) error {
	deliveries, err := w.deps.Queue.Refetch(ctx, w.stream, from, to)
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

// same checks that the batch in hand is what was intended. An intent of before
// the rows were recorded is filled in.
func (w *worker) same(left *stream.Intent) error {
	mine := w.intent()
	if left.Want == nil && left.ReceivedMax == 0 {
		mine.Dead = left.Dead
		if mine.Hash == left.Hash {
			*left = mine
		}
	}
	if mine.Hash == left.Hash && maps.Equal(mine.Want, left.Want) {
		return nil
	}
	return &stoppedError{
		code:   stopDiffers,
		found:  fmt.Sprintf("stream %s: messages %d to %d are not what was intended (hash %s, not %s)", w.stream, left.From, left.To, mine.Hash, left.Hash),
		remedy: "restore the queue's newest backup, or let a writer of the version that made the intent finish it",
	}
}

// move gathers messages into batches and flushes them, until ctx ends.
func (w *worker) move(ctx, late context.Context) error {
	from, err := w.open(ctx, w.next)
	if err != nil {
		return fmt.Errorf("consume: %w", err)
	}
	defer from.Close()
	for {
		if err := w.gather(ctx, from); err != nil {
			return w.leave(ctx, late, err)
		}
		if err := w.flush(late); err != nil {
			return err
		}
	}
}

// gather adds messages until the batch in hand is to be flushed.
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
func (w *worker) receive(ctx context.Context, from source) (stream.Delivery, error) {
	if w.held != nil {
		delivery := *w.held
		w.held = nil
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

// add puts a message's rows into the batch in hand.
func (w *worker) add(ctx context.Context, delivery stream.Delivery) error {
	before, bytes := w.rows.len(), 0
	if !w.buried[delivery.Seq] {
		var err error
		if bytes, err = w.rows.add(delivery); err != nil {
			// Half of its rows may be in the batch in hand.
			if err := w.bury(ctx, delivery, reasonUndecodable, err.Error()); err != nil {
				return err
			}
			return fmt.Errorf("message %d: %w", delivery.Seq, errAnew)
		}
	}
	w.digest.Write(delivery.Data)
	w.buffer.Add(w.rows.len()-before, bytes, day(delivery.Time), time.Now())
	w.received.add(delivery.Time)
	w.next = delivery.Seq + 1
	return nil
}

// reasonUndecodable is of messages that are no batch of records.
const reasonUndecodable = "undecodable"

// bury puts a message among the dead letters.
func (w *worker) bury(ctx context.Context, delivery stream.Delivery, reason, detail string) error {
	letter := stream.DeadLetter{
		Reason: reason, Stream: w.stream, Subject: delivery.Subject, Seq: delivery.Seq, Time: delivery.Time, Data: delivery.Data, Detail: detail,
	}
	if err := w.deps.Queue.Bury(ctx, letter); err != nil {
		return fmt.Errorf("bury %d: %w", delivery.Seq, err)
	}
	w.buried[delivery.Seq] = true
	w.metrics.buried.WithLabelValues(reason).Inc()
	w.deps.Logger.Error("message put among the dead letters", "stream", w.stream, "seq", delivery.Seq, "reason", reason, "err", detail)
	return nil
}

// intent is the batch in hand as the ledger has it.
func (w *worker) intent() stream.Intent {
	return stream.Intent{
		From:        w.position.Committed + 1,
		To:          w.next - 1,
		ReceivedMin: w.received.min,
		ReceivedMax: w.received.max,
		Want:        w.rows.want(),
		Hash:        hex.EncodeToString(w.digest.Sum(nil)[:8]),
		Attempt:     1,
		Schema:      rowsVersion,
	}
}

// intend swaps the intent into the ledger. What it allows is allowed from before
// the swap on: a writer that is paused after it must notice.
func (w *worker) intend(ctx context.Context, in stream.Intent) error {
	w.allowed = time.Now()
	position, err := w.deps.Ledger.Intend(ctx, w.reader, w.position, in)
	if err != nil {
		return fmt.Errorf("intend %d to %d: %w", in.From, in.To, err)
	}
	w.position = position
	return nil
}

// flush moves the batch in hand to ClickHouse.
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

// store brings the intent in hand to its end and commits it. fresh says that
// nobody has sent any of its rows before.
func (w *worker) store(ctx context.Context, fresh bool) error {
	began, wanted := time.Now(), w.position.Intent.To
	if err := w.settle(ctx, fresh); err != nil {
		return err
	}
	if err := newSettlement(w).storeUsage(ctx); err != nil {
		return err
	}
	if err := w.failpoints.hit(pointBeforeCommit); err != nil {
		return err
	}
	if err := w.commit(ctx, began); err != nil {
		return err
	}
	if w.position.Committed < wanted {
		return errAnew // it was cut; the rest is read again
	}
	return w.failpoints.hit(pointAfterCommit)
}

func (w *worker) commit(ctx context.Context, began time.Time) error {
	done, count := w.position.Intent, w.rows.len()
	position, err := w.deps.Ledger.CommitAt(ctx, w.reader, w.position, done.To, w.received.last)
	if err != nil {
		return fmt.Errorf("commit %d: %w", done.To, err)
	}
	w.position = position
	if done.Dead != "" {
		count = 0
	}
	w.rowsDone.Add(uint64(count))
	w.messagesDone.Add(done.To - done.From + 1)
	maps.DeleteFunc(w.buried, func(seq uint64, _ bool) bool { return seq <= done.To })
	w.metrics.stored(w.stream, count, time.Since(began))
	w.deps.Logger.Debug("batch stored", "stream", w.stream, "seq", done.To, "rows", count, "elapsed", time.Since(began))
	held := w.held
	w.reset()
	w.held = held
	return nil
}

// leave flushes the batch in hand when the shard is given up; where ClickHouse
// does not take it in time, the queue still has it.
func (w *worker) leave(ctx, late context.Context, cause error) error {
	if ctx.Err() == nil || errors.Is(context.Cause(ctx), stream.ErrFenced) || w.buffer.Empty() {
		return cause
	}
	rows := w.rows.len()
	if err := w.flush(late); err != nil {
		w.deps.Logger.Warn("last batch left on the queue", "stream", w.stream, "rows", rows, "err", err)
		return cause
	}
	w.deps.Logger.Info("last batch flushed", "stream", w.stream, "rows", rows)
	return cause
}

// givenUp tells whether the shard is to be given up.
func (w *worker) givenUp() bool {
	select {
	case <-w.stopping:
		return true
	default:
		return false
	}
}

// pause waits before the next try; there is none once the shard is given up.
func (w *worker) pause(ctx context.Context, d time.Duration) error {
	if w.givenUp() {
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
