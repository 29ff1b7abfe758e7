package delivery

import (
	"github.com/prometheus/client_golang/prometheus"
)

// Reasons for which lines are dropped.
const (
	SpoolFull = "spool_full"
	Refused   = "refused"
	BadFrame  = "bad_frame"
)

// Metrics counts what is delivered and what is lost.
type Metrics struct {
	lines, batches, bytes prometheus.Counter
	failures              *prometheus.CounterVec
	attempt               prometheus.Histogram
	dropped               *prometheus.CounterVec
}

// NewMetrics creates the metrics and registers them.
func NewMetrics(registry prometheus.Registerer) *Metrics {
	m := &Metrics{
		lines:    prometheus.NewCounter(prometheus.CounterOpts{Name: "logboom_collector_delivered_lines_total", Help: "Lines that Logboom has accepted."}),
		batches:  prometheus.NewCounter(prometheus.CounterOpts{Name: "logboom_collector_delivered_batches_total", Help: "Batches that Logboom has accepted."}),
		bytes:    prometheus.NewCounter(prometheus.CounterOpts{Name: "logboom_collector_delivered_bytes_total", Help: "Bytes of accepted batches, before compression."}),
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "logboom_collector_attempt_failures_total", Help: "Failed attempts that will be retried, by reason."}, []string{"reason"}),
		attempt:  prometheus.NewHistogram(prometheus.HistogramOpts{Name: "logboom_collector_attempt_duration_seconds", Help: "Duration of an attempt to send a batch.", Buckets: prometheus.ExponentialBuckets(0.001, 4, 9)}),
		dropped:  prometheus.NewCounterVec(prometheus.CounterOpts{Name: "logboom_collector_dropped_total", Help: "Lines that were lost, by reason."}, []string{"reason"}),
	}
	registry.MustRegister(m.lines, m.batches, m.bytes, m.failures, m.attempt, m.dropped)
	return m
}

// CountDropped counts lines that were lost for a reason.
func (m *Metrics) CountDropped(reason string, lines int64) {
	m.dropped.WithLabelValues(reason).Add(float64(lines))
}
