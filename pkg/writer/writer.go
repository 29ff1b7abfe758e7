package writer

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/logboom/logboom/pkg/batch"
	"github.com/logboom/logboom/pkg/clickhouse"
	"github.com/logboom/logboom/pkg/lease"
	"github.com/logboom/logboom/pkg/ledger"
	"github.com/logboom/logboom/pkg/stream"
	"github.com/logboom/logboom/pkg/telemetry"
)

// Queue is where messages come from; stream.Topology implements it.
type Queue interface {
	Consume(ctx context.Context, stream string, from uint64, cfg stream.ConsumerConfig) (*stream.Consumer, error)
	ReadRange(ctx context.Context, stream string, from, to uint64) ([]stream.Delivery, error)
	First(ctx context.Context, stream string, from uint64) (stream.Place, error)
	Info(ctx context.Context, stream string) (stream.Info, error)
	PublishDeadLetter(ctx context.Context, letter stream.DeadLetter) error
	Purge(ctx context.Context, stream string, below uint64) (uint64, error)
	Shards() int
}

// Ledger holds each stream's position and intent; ledger.Ledger implements it.
type Ledger interface {
	TakeOver(ctx context.Context, reader string) (ledger.Position, error)
	Intend(ctx context.Context, reader string, p ledger.Position, in ledger.Intent) (ledger.Position, error)
	Commit(ctx context.Context, reader string, p ledger.Position, to uint64, at time.Time) (ledger.Position, error)
	Positions(ctx context.Context) (map[string]ledger.Position, error)
	RecordAudit(ctx context.Context, a ledger.Audit) error
}

// Sink stores rows and counts them; clickhouse.Client implements it. A token
// names a block: a block that is sent twice under one token is stored once, and
// after some failures not at all.
type Sink interface {
	InsertLogs(ctx context.Context, token string, block *clickhouse.LogBlock) error
	InsertEvents(ctx context.Context, token string, block *clickhouse.EventBlock) error
	InsertUsage(ctx context.Context, token string, rows []clickhouse.UsageRow) error
	UsageOf(ctx context.Context, stream string, hour time.Time) ([]clickhouse.UsageRow, error)
	CountRange(ctx context.Context, r clickhouse.Range) (map[string]clickhouse.Count, error)

	// For the audit.
	CountedRows(ctx context.Context, since time.Time) (map[clickhouse.StreamHour]clickhouse.HourRows, error)
	StoredRows(ctx context.Context, since time.Time) (map[clickhouse.StreamHour]clickhouse.HourRows, error)
	BrokenParts(ctx context.Context) (uint64, error)
}

// settings are the sizes and times of a writer. Only tests use others than the
// defaults.
type settings struct {
	batch        batch.Limits
	fetchBytes   int           // how much of a stream is fetched ahead of its batch
	flushTimeout time.Duration // for the last flush of a shard that is released; the rest stays on the queue
	beat         time.Duration // how often a writer renews its membership and reads that of the others
	auditEvery   time.Duration // how often the stored rows are audited; 0: never
}

// defaults are sized for two cores and a few hundred MiB.
func defaults() settings {
	return settings{
		batch:        batch.Limits{Rows: 500_000, Bytes: 32 << 20, Age: 500 * time.Millisecond, Idle: 20 * time.Millisecond},
		fetchBytes:   8 << 20,
		flushTimeout: 4 * time.Second,
		beat:         1500 * time.Millisecond,
		auditEvery:   30 * time.Minute, // a loss is reported within an hour
	}
}

// Deps is what the writer uses.
type Deps struct {
	Logger   *slog.Logger
	Registry prometheus.Registerer
	Queue    Queue
	Ledger   Ledger
	Leases   lease.Leases
	Sink     Sink
}

// Writer stores the logs and events of the shards that it holds.
type Writer struct {
	settings     settings
	deps         Deps
	metrics      *metrics
	failpoints   failpoints
	shards       []*shard
	auditConfirm time.Duration

	mu       sync.Mutex
	workers  map[string]*worker // of the streams that this writer holds, by name
	troubles map[string]error   // why a stream, or the sharing of shards, does not work
}

// New returns a writer; it starts nothing.
func New(deps Deps) *Writer { return newWriter(defaults(), deps) }

func newWriter(settings settings, deps Deps) *Writer {
	w := &Writer{
		settings:     settings,
		deps:         deps,
		metrics:      newMetrics(deps.Registry),
		failpoints:   newFailpoints(),
		auditConfirm: auditConfirm,
		workers:      map[string]*worker{},
		troubles:     map[string]error{},
	}
	w.deps.Queue = w.failpoints.queue(deps.Queue)
	for number := range deps.Queue.Shards() {
		w.shards = append(w.shards, newShard(w, number))
	}
	return w
}

// Connections are the engines that Start uses: clusters in cmd/writer, embedded
// engines in cmd/standalone.
type Connections struct {
	Topology *stream.Topology
	Ledger   *ledger.Ledger
	Client   *clickhouse.Client
}

// Start creates the tables and adds a Writer to the process. name is its name
// among all writers; "" means a new name at each start. A writer that is
// certainly alone may have a fixed name: after a crash it continues at once
// instead of waiting until its lease has expired.
func Start(ctx context.Context, p *telemetry.Process, name string, conn Connections) error {
	if err := conn.Client.Prepare(ctx, p.Logger); err != nil {
		return err
	}
	member, err := lease.NewMember(conn.Ledger.Bucket(), leaseKeys, name, p.Logger)
	if err != nil {
		return err
	}
	w := New(Deps{
		Logger: p.Logger, Registry: p.Registry, Queue: conn.Topology, Ledger: conn.Ledger, Leases: member, Sink: conn.Client,
	})
	p.Health.Add("clickhouse", conn.Client.Ping)
	p.Health.Add("streams", w.Ready)
	p.Go("writer", w.Run)
	return nil
}

// Run stores records until ctx ends, then flushes what it has gathered and
// releases its shards.
func (w *Writer) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return w.share(ctx) })
	group.Go(func() error { return w.purge(ctx) })
	group.Go(func() error { return w.audit(ctx) })
	err := group.Wait()
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// stoppedPause is how often a stopped stream is tried again: a person may have
// repaired it. A take-over makes every check again.
const stoppedPause = time.Minute

// keepRunning runs a worker again and again, until ctx ends or another writer
// takes its stream. An error that only a person can resolve stops the stream:
// it is not ready, and the other streams continue.
func (w *Writer) keepRunning(ctx context.Context, worker *worker) error {
	pauses := [...]time.Duration{200 * time.Millisecond, time.Second, 5 * time.Second, 15 * time.Second}
	for attempt := 0; ; attempt++ {
		committed := worker.position.Committed
		err := worker.run(ctx)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if errors.Is(err, ledger.ErrFenced) {
			w.deps.Logger.Warn("another writer has taken over the stream", "stream", worker.stream)
			return ledger.ErrFenced
		}
		if worker.position.Committed > committed {
			attempt = 0
		}
		wait := pauses[min(attempt, len(pauses)-1)]
		if stopped, ok := asStopped(worker.stream, err); ok {
			wait, err = stoppedPause, stopped
			w.deps.Logger.Error("stream stopped", "stream", worker.stream, "reason", stopped.code, "err", err)
			w.metrics.stopped.WithLabelValues(worker.stream, stopped.code).Set(1)
		} else {
			w.deps.Logger.Warn("stream interrupted", "stream", worker.stream, "attempt", attempt+1, "err", err)
		}
		w.setTrouble(worker.stream, err)
		if err := pause(ctx, wait); err != nil {
			return err
		}
	}
}

// setTrouble records why something does not work, or with nil that it does.
func (w *Writer) setTrouble(name string, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err == nil {
		delete(w.troubles, name)
		return
	}
	w.troubles[name] = err
}

// Ready is the readiness check: its error names what does not work and, where a
// person must act, what to do.
func (w *Writer) Ready(context.Context) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return telemetry.Stopped(w.troubles)
}

// holds reports whether this writer stores a stream.
func (w *Writer) holds(stream string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.workers[stream] != nil
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
