package notify

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/logboom/logboom/pkg/clickhouse"
	"github.com/logboom/logboom/pkg/lease"
	"github.com/logboom/logboom/pkg/ledger"
	"github.com/logboom/logboom/pkg/outbox"
	"github.com/logboom/logboom/pkg/project"
	"github.com/logboom/logboom/pkg/stream"
	"github.com/logboom/logboom/pkg/telemetry"
	"github.com/logboom/logboom/pkg/webhook"
)

// Queue is where records come from and dead letters go; stream.Topology is it.
type Queue interface {
	Consume(ctx context.Context, stream string, from uint64, cfg stream.ConsumerConfig) (*stream.Consumer, error)
	Info(ctx context.Context, stream string) (stream.Info, error)
	PublishDeadLetter(ctx context.Context, letter stream.DeadLetter) error
	Shards() int
}

// Ledger holds how far the events are read; ledger.Ledger is it.
type Ledger interface {
	TakeOver(ctx context.Context, reader string) (ledger.Position, error)
	Commit(ctx context.Context, reader string, p ledger.Position, to uint64, at time.Time) (ledger.Position, error)
}

// Projects is the record of projects and their alerts; project.Store is.
type Projects interface {
	AlertsByID(ctx context.Context, projectID string) (project.Alerts, error)
	Projects(ctx context.Context, after string, limit int) ([]project.Project, error)
	AlertsRevision(ctx context.Context) (uint64, error)
	LogSeverities(ctx context.Context) (map[string]string, error)
}

// Deliverer makes one attempt; webhook.Sender is it.
type Deliverer interface {
	Deliver(ctx context.Context, t webhook.Target, m webhook.Message) webhook.Result
}

// Tables are where rows go and usage comes from; clickhouse.Client is it.
type Tables interface {
	InsertDeliveries(ctx context.Context, token string, rows []clickhouse.DeliveryRow) error
	Usage(ctx context.Context, project string, from, to time.Time) ([]clickhouse.UsageHour, error)
}

// Config is for operators.
type Config struct {
	// Member names this notifier among its like. Default: a new name at each
	// start. One that is sure to be alone may have a fixed one: after a crash it
	// goes on at once, where others wait until its leases have lapsed.
	Member string
	// PerWindow is how many messages one destination gets in a Window; what is
	// more becomes one digest.
	PerWindow int
	Window    time.Duration
	// Gap is the time between two messages. 0: what each service wants.
	Gap time.Duration
	// BackoffFirst and BackoffMost are the first and the longest pause after a
	// failure; half of each is by chance.
	BackoffFirst, BackoffMost time.Duration
	// GiveUpChat and GiveUpGeneric are for how long one message is tried.
	GiveUpChat, GiveUpGeneric time.Duration
	// DisableAfter is after how long without a success a destination is given
	// up, and ProbeEvery how often one that is given up is tried again.
	DisableAfter, ProbeEvery time.Duration
	// Beat is how often a notifier announces that it is alive, at most 2 s.
	Beat time.Duration
	// FlushEvery is how often rows go to ClickHouse.
	FlushEvery time.Duration
	// GroupEvery is how often a group of like logs that goes on is told of, and
	// Gather how long the first one waits for others.
	GroupEvery, Gather time.Duration
	// QuotaEvery is how often quotas are looked at, and Defaults are those of
	// projects that name none.
	QuotaEvery time.Duration
	Defaults   project.Quotas
	// PublicURL is where people find the admin pages, for links. "": no links.
	PublicURL string
}

// DefaultConfig suits people who read what comes.
func DefaultConfig() Config {
	return Config{
		PerWindow: 20, Window: time.Minute, BackoffFirst: time.Second, BackoffMost: 5 * time.Minute,
		GiveUpChat: time.Hour, GiveUpGeneric: 24 * time.Hour, DisableAfter: 24 * time.Hour, ProbeEvery: time.Hour,
		Beat: 1500 * time.Millisecond, FlushEvery: time.Second, GroupEvery: time.Minute, Gather: 2 * time.Second, QuotaEvery: time.Minute,
	}
}

// Validate names the first setting that cannot work.
func (c Config) Validate() error {
	if c.PerWindow < 1 {
		return fmt.Errorf("setting PerWindow is %d: give 1 or more", c.PerWindow)
	}
	for _, setting := range []struct {
		name  string
		value time.Duration
	}{
		{"Window", c.Window}, {"BackoffFirst", c.BackoffFirst}, {"BackoffMost", c.BackoffMost}, {"GiveUpChat", c.GiveUpChat},
		{"GiveUpGeneric", c.GiveUpGeneric}, {"DisableAfter", c.DisableAfter}, {"ProbeEvery", c.ProbeEvery}, {"Beat", c.Beat},
		{"FlushEvery", c.FlushEvery}, {"GroupEvery", c.GroupEvery}, {"Gather", c.Gather}, {"QuotaEvery", c.QuotaEvery},
	} {
		if setting.value <= 0 {
			return fmt.Errorf("setting %s is %s: give more than 0", setting.name, setting.value)
		}
	}
	if c.Beat > lease.MaxBeat {
		return fmt.Errorf("setting Beat is %s: give up to %s", c.Beat, lease.MaxBeat)
	}
	return nil
}

// Deps is what the notifier works with.
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

// Notifier works the partitions that it holds.
type Notifier struct {
	cfg      Config
	deps     Deps
	metrics  *metrics
	settings *settings
	units    []string

	mu       sync.Mutex
	troubles map[string]error // of what does not move: why
}

// New lays out the work; it starts nothing.
func New(cfg Config, deps Deps) *Notifier {
	n := &Notifier{
		cfg: cfg, deps: deps, metrics: newMetrics(deps.Registry), settings: newSettings(deps.Projects),
		troubles: map[string]error{},
	}
	n.units = append(n.units, watchUnit)
	for partition := range deps.Queue.Shards() {
		n.units = append(n.units, fmt.Sprint(partition))
	}
	return n
}

// pauses between attempts at what must work: they grow to the last.
var pauses = [...]time.Duration{50 * time.Millisecond, 200 * time.Millisecond, time.Second, 5 * time.Second}

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

// keep runs a part again and again, until ctx ends or another notifier has
// taken it over.
func (n *Notifier) keep(ctx context.Context, name string, run func(context.Context) error) error {
	for attempt := 0; ; attempt++ {
		began := time.Now()
		err := run(ctx)
		switch {
		case ctx.Err() != nil:
			n.note(name, nil)
			return context.Cause(ctx)
		case errors.Is(err, ledger.ErrFenced):
			n.note(name, nil)
			n.deps.Logger.Warn("another notifier has taken over", "part", name)
			return err
		case time.Since(began) > time.Minute:
			attempt = 0
		}
		n.note(name, err)
		n.deps.Logger.Warn("part of the notifier interrupted", "part", name, "attempt", attempt+1, "err", err)
		if err := pause(ctx, pauses[min(attempt, len(pauses)-1)]); err != nil {
			return err
		}
	}
}

// note keeps why something does not move, for who asks whether it is ready.
func (n *Notifier) note(name string, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if err == nil {
		delete(n.troubles, name)
		return
	}
	n.troubles[name] = err
}

// Ready is the readiness check: it names what does not move.
func (n *Notifier) Ready(context.Context) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return telemetry.Stopped(n.troubles)
}
