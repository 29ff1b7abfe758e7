// Package notify delivers alerts to chats: of events that ask for one, of logs at
// or above a severity, and of quotas that run out.
//
// It reads the streams beside the writer. Notifiers share the partitions by
// leases. The holder of a partition publishes the alerts of its events to the
// outbox, in which they wait by destination, and delivers what waits there. This
// is the way of one alert, with the functions that carry it:
//
//	EVENTS_<n> ── eventReader.handle ─▶ outbox ── dispatcher ─▶ destination ── deliver ─▶ chat
//	LOGS_<n>   ── logMatcher.match ───▶   │                        │ rows
//	usage      ── checkQuotas ────────▶   │                        ▼
//	                                      │                    rowWriter ─▶ ClickHouse
//	                                      └─ full, rejected, expired ─▶ dead letter
//
// A destination is the address of one project, with its own queue, pace and
// state:
//
//	         delivered                           a failure that may pass
//	┌──────────────────────────── active ───────────────────────────┐
//	│                              │  ▲                             ▼
//	└──────────────────────────────┼──┴────── delivered ────── backing off
//	                               │                                │
//	  permanent error of the address, or 24 h of failures           │
//	                               ▼                                │
//	                           disabled ◀───────────────────────────┘
//	  (alerts become dead letters; one an hour is sent; a changed address makes
//	   it active)
//
// Each attempt takes these steps: store the intent (compare-and-swap), send the
// request, store the outcome (compare-and-swap), publish the rows, remove the
// alerts from the outbox. A notifier that takes over finds the intent. If the
// outcome is missing, the request may have arrived, and it is sent again under
// the same ID. Google Chat and receivers of the generic format drop the second
// copy by the ID; in the other services, the message says that it is a repeat.
//
// What a newcomer would get wrong: a lease decides who works, never whether a
// write is valid. A notifier that loses a compare-and-swap stops at once.
package notify

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/logboom/logboom/pkg/clickhouse"
	"github.com/logboom/logboom/pkg/lease"
	"github.com/logboom/logboom/pkg/ledger"
	"github.com/logboom/logboom/pkg/outbox"
	"github.com/logboom/logboom/pkg/project"
	"github.com/logboom/logboom/pkg/stream"
	"github.com/logboom/logboom/pkg/telemetry"
	"github.com/logboom/logboom/pkg/webhook"
)

// Queue is the source of records and the place of dead letters. stream.Topology
// implements it.
type Queue interface {
	Consume(ctx context.Context, stream string, from uint64, cfg stream.ConsumerConfig) (*stream.Consumer, error)
	Info(ctx context.Context, stream string) (stream.Info, error)
	PublishDeadLetter(ctx context.Context, letter stream.DeadLetter) error
	Shards() int
}

// Ledger holds the positions in the streams of events. ledger.Ledger implements
// it.
type Ledger interface {
	TakeOver(ctx context.Context, reader string) (ledger.Position, error)
	Commit(ctx context.Context, reader string, p ledger.Position, to uint64, at time.Time) (ledger.Position, error)
}

// Projects holds the projects and their alert settings. project.Store implements
// it.
type Projects interface {
	AlertsByID(ctx context.Context, projectID string) (project.Alerts, error)
	Projects(ctx context.Context, after string, limit int) ([]project.Project, error)
	AlertsRevision(ctx context.Context) (uint64, error)
	LogSeverities(ctx context.Context) (map[string]string, error)
}

// Deliverer makes one attempt to deliver a message. webhook.Sender implements it.
type Deliverer interface {
	Deliver(ctx context.Context, t webhook.Target, m webhook.Message) webhook.Result
}

// Tables stores the rows of deliveries and holds the usage. clickhouse.Client
// implements it.
type Tables interface {
	InsertDeliveries(ctx context.Context, token string, rows []clickhouse.DeliveryRow) error
	Usage(ctx context.Context, project string, from, to time.Time) ([]clickhouse.UsageHour, error)
}

// Config holds the settings of an operator.
type Config struct {
	// Member names this notifier among the notifiers. Default: a new name at each
	// start. A notifier that is always alone may have a fixed name. After a crash
	// it continues at once, while others wait until its leases have expired.
	Member string
	// PerMinute is how many messages one destination gets in a minute. Further
	// alerts become one digest.
	PerMinute int
	// PublicURL is the address of the pages, for links in messages. Default: no
	// links.
	PublicURL string
	// Quotas are the quotas of projects that set none.
	Quotas project.Quotas
}

// timing holds the durations that only tests change.
type timing struct {
	beat                     time.Duration // between two announcements of this notifier
	window                   time.Duration // in which a destination gets Config.PerMinute messages
	gap                      time.Duration // between two messages; 0: what the service requires
	firstBackoff, maxBackoff time.Duration // the pause after the first failure, and the longest pause
	giveUpGeneric            time.Duration // how long a message in the generic format is retried
	flushEvery               time.Duration // between two inserts of rows
	gather                   time.Duration // how long the first log of a group waits for others
	groupEvery               time.Duration // between two alerts of a group of logs
	quotaEvery               time.Duration // between two checks of the quotas
}

func defaultTiming() timing {
	return timing{
		beat: 1500 * time.Millisecond, window: time.Minute, firstBackoff: time.Second, maxBackoff: 5 * time.Minute,
		giveUpGeneric: 24 * time.Hour, flushEvery: time.Second, gather: 2 * time.Second, groupEvery: time.Minute, quotaEvery: time.Minute,
	}
}

// Deps holds what the notifier works with.
type Deps struct {
	Logger    *slog.Logger
	Registry  prometheus.Registerer
	Queue     Queue
	Ledger    Ledger
	Outbox    *outbox.Outbox
	Bucket    *Bucket
	Leases    lease.Leases
	Projects  Projects
	Deliverer Deliverer
	Tables    Tables
}

// Notifier delivers the alerts of the partitions whose leases it holds.
type Notifier struct {
	cfg     Config
	timing  timing
	deps    Deps
	metrics *metrics
	alerts  *alertsCache

	mu       sync.Mutex
	failures map[string]error // of the parts that do not work at the moment
}

// New returns a notifier. It starts nothing.
func New(cfg Config, deps Deps) *Notifier {
	return &Notifier{
		cfg: cfg, timing: defaultTiming(), deps: deps, metrics: newMetrics(deps.Registry), alerts: newAlertsCache(deps.Projects),
		failures: map[string]error{},
	}
}

// Connections holds the engines: real clusters in cmd/notifier, embedded ones in
// cmd/standalone.
type Connections struct {
	JetStream jetstream.JetStream
	Topology  *stream.Topology
	Ledger    *ledger.Ledger
	Store     *project.Store
	Client    *clickhouse.Client
	Sender    *webhook.Sender
	Replicas  int
}

// Start creates the tables, the outbox and the bucket, and adds a notifier to the
// process.
func Start(ctx context.Context, p *telemetry.Process, cfg Config, conn Connections) error {
	if err := conn.Client.Prepare(ctx, p.Logger); err != nil {
		return err
	}
	box, err := outbox.Open(ctx, conn.JetStream, outbox.Config{Partitions: conn.Topology.Shards(), Replicas: conn.Replicas})
	if err != nil {
		return err
	}
	bucket, err := OpenBucket(ctx, conn.JetStream, conn.Replicas)
	if err != nil {
		return err
	}
	member, err := bucket.newMember(cfg.Member, p.Logger)
	if err != nil {
		return err
	}
	n := New(cfg, Deps{
		Logger: p.Logger, Registry: p.Registry, Queue: conn.Topology, Ledger: conn.Ledger, Outbox: box, Bucket: bucket, Leases: member,
		Projects: conn.Store, Deliverer: conn.Sender, Tables: conn.Client,
	})
	p.Health.Add("alerts", n.Ready)
	p.Go("notifier", n.Run)
	return nil
}

// watchUnit is the unit of the work that one notifier does for all partitions:
// logs and quotas.
const watchUnit = "watch"

// Run does this notifier's share of the work until ctx ends. It finishes started
// attempts and gives its share back.
func (n *Notifier) Run(ctx context.Context) error {
	units := []string{watchUnit}
	for partition := range n.deps.Queue.Shards() {
		units = append(units, strconv.Itoa(partition))
	}
	lease.Share(ctx, lease.ShareConfig{
		Leases: n.deps.Leases, Beat: n.timing.beat, Units: units, Work: n.runUnit, Logger: n.deps.Logger,
		Report: func(view lease.View, err error) {
			if n.reportFailure("sharing", err); err == nil {
				n.metrics.members.Set(float64(len(view.Members)))
			}
		},
	})
	return nil
}

// runUnit does the work of one unit.
func (n *Notifier) runUnit(ctx context.Context, unit string) error {
	group, ctx := errgroup.WithContext(ctx)
	start := func(name string, run func(context.Context) error) {
		group.Go(func() error { return n.runPart(ctx, name+" "+unit, run) })
	}
	if unit == watchUnit {
		start("logs", n.watchLogs)
		start("quotas", n.watchQuotas)
		return group.Wait()
	}
	partition, err := strconv.Atoi(unit)
	if err != nil {
		return fmt.Errorf("unit %s: %w", unit, err)
	}
	start("events", func(ctx context.Context) error { return newEventReader(n, partition).run(ctx) })
	start("deliveries", func(ctx context.Context) error { return newDispatcher(n, partition).run(ctx) })
	start("rows", func(ctx context.Context) error { return (&rowWriter{n: n, partition: partition}).run(ctx) })
	return group.Wait()
}

// runPart runs a part of a unit and restarts it after an error, until ctx ends or
// another notifier has taken over.
func (n *Notifier) runPart(ctx context.Context, name string, run func(context.Context) error) error {
	pauses := newBackoff()
	for {
		began := time.Now()
		err := run(ctx)
		switch {
		case ctx.Err() != nil:
			n.reportFailure(name, nil)
			return context.Cause(ctx)
		case errors.Is(err, ledger.ErrFenced):
			n.reportFailure(name, nil)
			n.deps.Logger.Warn("another notifier has taken over", "part", name)
			return err
		case time.Since(began) > time.Minute:
			pauses.Reset()
		}
		n.reportFailure(name, err)
		n.deps.Logger.Warn("part of the notifier interrupted", "part", name, "err", err)
		if err := pause(ctx, pauses.NextBackOff()); err != nil {
			return err
		}
	}
}

// reportFailure stores why a part does not work, for Ready; nil means that it
// works.
func (n *Notifier) reportFailure(part string, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if err == nil {
		delete(n.failures, part)
		return
	}
	n.failures[part] = err
}

// Ready returns an error that names the parts that do not work.
func (n *Notifier) Ready(context.Context) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return telemetry.Stopped(n.failures)
}

// newBackoff returns the pauses between attempts at work that must succeed.
func newBackoff() *backoff.ExponentialBackOff {
	return &backoff.ExponentialBackOff{InitialInterval: 50 * time.Millisecond, Multiplier: 4, RandomizationFactor: 0.2, MaxInterval: 5 * time.Second}
}

// retry calls do until it succeeds or ctx ends, with pauses that grow up to 5 s.
// It calls failed with each error.
func retry(ctx context.Context, do func() error, failed func(error)) error {
	_, err := backoff.Retry(ctx, func() (struct{}, error) { return struct{}{}, do() },
		backoff.WithBackOff(newBackoff()), backoff.WithMaxElapsedTime(0), backoff.WithNotify(func(err error, _ time.Duration) { failed(err) }))
	return err
}

// pause waits. It returns early, with the cause, if ctx ends.
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
