package writer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/logboom/logboom/pkg/batch"
	"github.com/logboom/logboom/pkg/clickhouse"
	"github.com/logboom/logboom/pkg/stream"
)

// Queue is where records come from; stream.Topology is it.
type Queue interface {
	Consume(ctx context.Context, stream string, from uint64, cfg stream.ConsumerConfig) (*stream.Consumer, error)
	Refetch(ctx context.Context, stream string, from, to uint64) ([]stream.Delivery, error)
	Lag(ctx context.Context, stream string) (stream.Info, error)
	Bury(ctx context.Context, letter stream.DeadLetter) error
	Purge(ctx context.Context, stream string, below uint64) (uint64, error)
	Shards() int
}

// Ledger holds each stream's position and intent; stream.Ledger is it.
type Ledger interface {
	TakeOver(ctx context.Context, reader string) (stream.Position, error)
	Intend(ctx context.Context, reader string, p stream.Position, in stream.Intent) (stream.Position, error)
	Commit(ctx context.Context, reader string, p stream.Position, to uint64) (stream.Position, error)
	Positions(ctx context.Context) (map[string]stream.Position, error)
}

// Sink is where rows go; clickhouse.Client is it. A token names a block: the
// same block sent twice with one token is stored once.
type Sink interface {
	InsertLogs(ctx context.Context, token string, block *clickhouse.LogBlock) error
	InsertEvents(ctx context.Context, token string, block *clickhouse.EventBlock) error
	InsertUsage(ctx context.Context, token string, rows []clickhouse.UsageRow) error
}

// Config is for operators.
type Config struct {
	Batch        batch.Limits
	FetchBytes   int           // bytes of messages fetched ahead, a stream
	FlushTimeout time.Duration // of the last flush, when the process stops
	StandBy      time.Duration // how long another writer's position must stand still before its stream is taken
}

// DefaultConfig is sized for two cores and a few hundred MiB.
func DefaultConfig() Config {
	return Config{
		Batch:        batch.Limits{Rows: 500_000, Bytes: 32 << 20, Age: 500 * time.Millisecond, Idle: 20 * time.Millisecond},
		FetchBytes:   8 << 20,
		FlushTimeout: 10 * time.Second,
		StandBy:      10 * time.Second,
	}
}

// Deps is what the writer works with.
type Deps struct {
	Logger   *slog.Logger
	Registry prometheus.Registerer
	Queue    Queue
	Ledger   Ledger
	Sink     Sink
}

// Writer runs a worker for every stream.
type Writer struct {
	cfg     Config
	deps    Deps
	metrics *metrics
	workers []*worker
	mu      sync.Mutex
	stopped map[string]error // streams that wait for a hand or stand by, and why
}

// New lays out the workers; it starts nothing.
func New(cfg Config, deps Deps) *Writer {
	w := &Writer{cfg: cfg, deps: deps, metrics: newMetrics(deps.Registry), stopped: map[string]error{}}
	for shard := range deps.Queue.Shards() {
		for _, kind := range []stream.Kind{stream.Logs, stream.Events} {
			w.workers = append(w.workers, newWorker(w, kind, shard))
		}
	}
	return w
}

// Run works until ctx ends, then flushes what has been gathered.
func (w *Writer) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, worker := range w.workers {
		group.Go(func() error { return w.keep(ctx, worker) })
	}
	group.Go(func() error { return w.tidy(ctx) })
	err := group.Wait()
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// pauses between attempts of a worker: they grow to the last.
var pauses = [...]time.Duration{200 * time.Millisecond, time.Second, 5 * time.Second, 15 * time.Second}

// keep runs a worker again and again. An error that only a person can settle
// stops the stream; it stays unready, and the others go on.
func (w *Writer) keep(ctx context.Context, worker *worker) error {
	for attempt := 0; ; attempt++ {
		committed := worker.position.Committed
		err := worker.run(ctx)
		if ctx.Err() != nil {
			return err
		}
		if worker.position.Committed > committed {
			attempt = 0
		}
		w.note(worker.stream, err)
		switch {
		case errors.Is(err, stream.ErrFenced):
			w.deps.Logger.Warn("another writer has taken the stream; standing by", "stream", worker.stream)
			err = w.standBy(ctx, worker)
		case needsHand(err):
			w.deps.Logger.Error("stream stopped until the queue is repaired and the writer restarted", "stream", worker.stream, "err", err)
			<-ctx.Done()
			return nil
		default:
			w.deps.Logger.Warn("stream interrupted", "stream", worker.stream, "attempt", attempt+1, "err", err)
			err = pause(ctx, pauses[min(attempt, len(pauses)-1)])
		}
		if err != nil {
			return err
		}
		w.note(worker.stream, nil)
	}
}

// needsHand tells errors that going on would turn into lost or doubled rows.
func needsHand(err error) bool {
	var gap *stream.GapError
	return errors.As(err, &gap) || errors.Is(err, errQueueLost)
}

// standBy returns when the other writer's position has stood still for a while
// although there is work.
func (w *Writer) standBy(ctx context.Context, worker *worker) error {
	var last stream.Position
	for {
		if err := pause(ctx, w.cfg.StandBy); err != nil {
			return err
		}
		positions, err := w.deps.Ledger.Positions(ctx)
		if err != nil {
			continue // the queue is away; so is the other writer
		}
		now := positions[worker.reader]
		info, err := w.deps.Queue.Lag(ctx, worker.stream)
		if err == nil && info.LastSeq > now.Committed && now.Committed == last.Committed && now.Epoch == last.Epoch {
			return nil
		}
		last = now
	}
}

func (w *Writer) note(stream string, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err == nil {
		delete(w.stopped, stream)
		return
	}
	w.stopped[stream] = err
}

// Ready is the readiness check: it names a stream that does not move.
func (w *Writer) Ready(context.Context) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for name, err := range w.stopped {
		return fmt.Errorf("stream %s is stopped: %w", name, err)
	}
	return nil
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
