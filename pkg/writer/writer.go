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
	"github.com/logboom/logboom/pkg/telemetry"
)

// Queue is where records come from; stream.Topology is it.
type Queue interface {
	Consume(ctx context.Context, stream string, from uint64, cfg stream.ConsumerConfig) (*stream.Consumer, error)
	Refetch(ctx context.Context, stream string, from, to uint64) ([]stream.Delivery, error)
	First(ctx context.Context, stream string, from uint64) (stream.Mark, error)
	Lag(ctx context.Context, stream string) (stream.Info, error)
	Bury(ctx context.Context, letter stream.DeadLetter) error
	Purge(ctx context.Context, stream string, below uint64) (uint64, error)
	Shards() int
}

// Ledger holds each stream's position and intent; stream.Ledger is it.
type Ledger interface {
	TakeOver(ctx context.Context, reader string) (stream.Position, error)
	Intend(ctx context.Context, reader string, p stream.Position, in stream.Intent) (stream.Position, error)
	CommitAt(ctx context.Context, reader string, p stream.Position, to uint64, at time.Time) (stream.Position, error)
	Positions(ctx context.Context) (map[string]stream.Position, error)
}

// Leases say who works which shard; stream.Leases is it.
type Leases interface {
	Beat(ctx context.Context) (stream.LeaseView, error)
	Claim(ctx context.Context, name string) (bool, error)
	Release(ctx context.Context, name string) error
	Leave(ctx context.Context) error
}

// Sink is where rows go, and where they are counted; clickhouse.Client is it. A
// token names a block: sent twice with one token it is stored once, and after
// some failures not at all.
type Sink interface {
	InsertLogs(ctx context.Context, token string, block *clickhouse.LogBlock) error
	InsertEvents(ctx context.Context, token string, block *clickhouse.EventBlock) error
	InsertUsage(ctx context.Context, token string, rows []clickhouse.UsageRow) error
	UsageOf(ctx context.Context, stream string, hour time.Time) ([]clickhouse.UsageRow, error)
	CountRange(ctx context.Context, r clickhouse.Range) (map[string]uint64, error)
	Audit(ctx context.Context, r clickhouse.Range) (rows, distinct uint64, maxSeq uint64, err error)
}

// Config is for operators.
type Config struct {
	// Batch says when a batch is flushed.
	Batch batch.Limits
	// FetchBytes is how much of a stream is fetched ahead of its batch.
	FetchBytes int
	// FlushTimeout bounds the last flush of a shard that is given up, to
	// another writer or because the process stops. What is not flushed by then
	// stays on the queue. It is part of the time that re-balancing takes.
	FlushTimeout time.Duration
	// Member names this writer among its like. Default: a new name at each
	// start. A writer that is sure to be alone may have a fixed one: after a
	// crash it goes on at once, where others wait until its lease has lapsed.
	Member string
	// Beat is how often a writer says that it lives and looks who else does,
	// at most 2 s.
	Beat time.Duration
	// AuditEvery is how often the rows stored since are checked. 0: never.
	AuditEvery time.Duration
}

// DefaultConfig is sized for two cores and a few hundred MiB.
func DefaultConfig() Config {
	return Config{
		Batch:        batch.Limits{Rows: 500_000, Bytes: 32 << 20, Age: 500 * time.Millisecond, Idle: 20 * time.Millisecond},
		FetchBytes:   8 << 20,
		FlushTimeout: 4 * time.Second,
		Beat:         1500 * time.Millisecond,
		AuditEvery:   time.Hour,
	}
}

// mostBeat is how long a writer may be silent between two beats: others take
// its shards after three of them.
const mostBeat = 2 * time.Second

// Validate names the first setting that cannot work.
func (c Config) Validate() error {
	switch {
	case c.Batch.Rows < 1 || c.Batch.Bytes < 1:
		return fmt.Errorf("setting Batch is %d rows and %d bytes: give at least 1 of each", c.Batch.Rows, c.Batch.Bytes)
	case c.FetchBytes < 0:
		return fmt.Errorf("setting FetchBytes is %d: give 0 or more", c.FetchBytes)
	case c.FlushTimeout < 0:
		return fmt.Errorf("setting FlushTimeout is %s: give 0 or more", c.FlushTimeout)
	case c.Beat <= 0 || c.Beat > mostBeat:
		return fmt.Errorf("setting Beat is %s: give up to %s", c.Beat, mostBeat)
	case c.AuditEvery < 0:
		return fmt.Errorf("setting AuditEvery is %s: give 0 for never, or more", c.AuditEvery)
	}
	return nil
}

// Deps is what the writer works with.
type Deps struct {
	Logger   *slog.Logger
	Registry prometheus.Registerer
	Queue    Queue
	Ledger   Ledger
	Leases   Leases
	Sink     Sink
}

// Writer works the shards that it holds: each one's logs and events.
type Writer struct {
	cfg        Config
	deps       Deps
	metrics    *metrics
	failpoints failpoints
	shards     []*shard

	mu       sync.Mutex
	held     map[string]*worker // the streams that are worked, by name
	troubles map[string]error   // of the streams that do not move, and of the leases: why
}

// New lays out the shards; it starts nothing.
func New(cfg Config, deps Deps) *Writer {
	w := &Writer{
		cfg:        cfg,
		deps:       deps,
		metrics:    newMetrics(deps.Registry),
		failpoints: newFailpoints(),
		held:       map[string]*worker{},
		troubles:   map[string]error{},
	}
	w.deps.Queue = w.failpoints.queue(deps.Queue)
	for number := range deps.Queue.Shards() {
		w.shards = append(w.shards, newShard(w, number))
	}
	return w
}

// Run works until ctx ends, then flushes what has been gathered and gives its
// shards back.
func (w *Writer) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return w.share(ctx) })
	group.Go(func() error { return w.tidy(ctx) })
	group.Go(func() error { return w.audit(ctx) })
	err := group.Wait()
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// pauses between attempts of a worker: they grow to the last.
var pauses = [...]time.Duration{200 * time.Millisecond, time.Second, 5 * time.Second, 15 * time.Second}

// lookAgain is how often a stopped stream is looked at: a person may have
// mended it. Every check of a take-over is made anew.
const lookAgain = time.Minute

// keep runs a worker again and again, until ctx ends or another writer has
// taken its stream. An error that only a person can settle stops the stream; it
// stays unready, and the others go on.
func (w *Writer) keep(ctx context.Context, worker *worker) error {
	for attempt := 0; ; attempt++ {
		committed := worker.position.Committed
		err := worker.run(ctx)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if errors.Is(err, stream.ErrFenced) {
			w.deps.Logger.Warn("another writer has taken the stream", "stream", worker.stream)
			return stream.ErrFenced
		}
		if worker.position.Committed > committed {
			attempt = 0
		}
		wait := pauses[min(attempt, len(pauses)-1)]
		if stopped, ok := asStopped(worker.stream, err); ok {
			wait, err = lookAgain, stopped
			w.deps.Logger.Error("stream stopped", "stream", worker.stream, "reason", stopped.code, "err", err)
			w.metrics.stopped.WithLabelValues(worker.stream, stopped.code).Set(1)
		} else {
			w.deps.Logger.Warn("stream interrupted", "stream", worker.stream, "attempt", attempt+1, "err", err)
		}
		w.note(worker.stream, err) // until it moves
		if err := pause(ctx, wait); err != nil {
			return err
		}
	}
}

// moves notes that a stream moves again.
func (w *Writer) moves(name string) {
	w.note(name, nil)
	w.metrics.moves(name)
}

// note keeps why something does not move, for who asks whether it is ready.
func (w *Writer) note(name string, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err == nil {
		delete(w.troubles, name)
		return
	}
	w.troubles[name] = err
}

// Ready is the readiness check: it names what does not move, and how to go on
// where a person must help.
func (w *Writer) Ready(context.Context) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return telemetry.Stopped(w.troubles)
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
