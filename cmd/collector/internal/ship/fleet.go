package ship

import (
	"log/slog"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/logboom/logboom/cmd/collector/internal/option"
)

// Metrics counts what is shipped.
type Metrics struct {
	lines, batches, bytes prometheus.Counter
	failures              *prometheus.CounterVec
	attempt               prometheus.Histogram
	Dropped               *prometheus.CounterVec // lines, by reason
}

// Reasons of Metrics.Dropped.
const (
	SpoolFull = "spool_full"
	Refused   = "refused"
	BadFrame  = "bad_frame"
)

// NewMetrics registers them.
func NewMetrics(registry prometheus.Registerer) *Metrics {
	counter := func(name, help string) prometheus.Counter {
		c := prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
		registry.MustRegister(c)
		return c
	}
	m := &Metrics{
		lines:    counter("logboom_collector_delivered_lines_total", "Lines that Logboom has answered for."),
		batches:  counter("logboom_collector_delivered_batches_total", "Batches that Logboom has answered for."),
		bytes:    counter("logboom_collector_delivered_bytes_total", "Bytes of delivered batches, before compression."),
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "logboom_collector_attempt_failures_total", Help: "Attempts that will be repeated."}, []string{"reason"}),
		attempt:  prometheus.NewHistogram(prometheus.HistogramOpts{Name: "logboom_collector_attempt_duration_seconds", Help: "Time of an attempt.", Buckets: prometheus.ExponentialBuckets(0.001, 4, 9)}),
		Dropped:  prometheus.NewCounterVec(prometheus.CounterOpts{Name: "logboom_collector_dropped_total", Help: "Lines that are lost."}, []string{"reason"}),
	}
	registry.MustRegister(m.failures, m.attempt, m.Dropped)
	return m
}

// Fleet is all routes.
type Fleet struct {
	patience Patience
	logger   *slog.Logger
	metrics  *Metrics

	mu     sync.Mutex
	routes map[option.Destination]*used
}

type used struct {
	route *Route
	by    int // senders
}

// NewFleet has no route yet.
func NewFleet(patience Patience, logger *slog.Logger, metrics *Metrics) *Fleet {
	patience.setDefaults()
	return &Fleet{patience: patience, logger: logger, metrics: metrics, routes: map[option.Destination]*used{}}
}

// Take is the route to a destination; Give it back when it is used no more.
func (f *Fleet) Take(to option.Destination) *Route {
	f.mu.Lock()
	defer f.mu.Unlock()
	u := f.routes[to]
	if u == nil {
		u = &used{route: newRoute(to, f.patience, f.logger, f.metrics)}
		f.routes[to] = u
	}
	u.by++
	return u.route
}

// Give gives a route back.
func (f *Fleet) Give(r *Route) {
	f.mu.Lock()
	defer f.mu.Unlock()
	u := f.routes[r.to]
	if u.by--; u.by == 0 {
		delete(f.routes, r.to)
		r.close()
	}
}

// States are how all routes do.
func (f *Fleet) States() []State {
	f.mu.Lock()
	defer f.mu.Unlock()
	states := make([]State, 0, len(f.routes))
	for _, u := range f.routes {
		states = append(states, u.route.State())
	}
	return states
}
