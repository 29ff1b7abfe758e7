package notify

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/logboom/logboom/pkg/webhook"
)

type metrics struct {
	queued      *prometheus.CounterVec
	attempts    *prometheus.CounterVec
	duration    *prometheus.HistogramVec
	latency     prometheus.Histogram
	coalesced   prometheus.Counter
	deadLetters *prometheus.CounterVec
	unknown     *prometheus.CounterVec
	waiting     prometheus.Gauge
	conditions  *prometheus.GaugeVec
	members     prometheus.Gauge
	rows        prometheus.Counter
	rowFailures prometheus.Counter
	logs        prometheus.Counter
}

func newMetrics(registry prometheus.Registerer) *metrics {
	options := func(name, help string) prometheus.Opts {
		return prometheus.Opts{Name: "logboom_notifier_" + name, Help: help}
	}
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		c := prometheus.NewCounterVec(prometheus.CounterOpts(options(name, help)), labels)
		registry.MustRegister(c)
		return c
	}
	gauge := func(name, help string, labels ...string) *prometheus.GaugeVec {
		g := prometheus.NewGaugeVec(prometheus.GaugeOpts(options(name, help)), labels)
		registry.MustRegister(g)
		return g
	}
	m := &metrics{
		queued:      counter("alerts_total", "Alerts published to the outbox, by kind.", "kind"),
		attempts:    counter("attempts_total", "Attempts to deliver a message, by format and outcome.", "format", "outcome"),
		coalesced:   counter("coalesced_total", "Alerts that were delivered in a digest.").WithLabelValues(),
		deadLetters: counter("dropped_total", "Messages that became dead letters, by reason.", "reason"),
		unknown:     counter("repeats_total", "Messages that were sent again although an earlier attempt may have arrived, by format.", "format"),
		rows:        counter("rows_total", "Rows of deliveries that were inserted.").WithLabelValues(),
		rowFailures: counter("row_failures_total", "Failed inserts of rows of deliveries. They are retried.").WithLabelValues(),
		logs:        counter("logs_total", "Logs at or above their project's severity of alerts.").WithLabelValues(),
		waiting:     gauge("waiting_alerts", "Alerts that wait at the destinations of this notifier.").WithLabelValues(),
		conditions:  gauge("destinations", "Destinations of this notifier, by condition.", "condition"),
		members:     gauge("members", "Notifiers that are alive, as seen by this one.").WithLabelValues(),
	}
	m.duration = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "logboom_notifier_attempt_duration_seconds", Help: "Duration of an attempt, by format.",
		Buckets: []float64{.025, .05, .1, .25, .5, 1, 2.5, 5, 10},
	}, []string{"format"})
	m.latency = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "logboom_notifier_delivery_seconds", Help: "Time from when the queue stored an alert to its delivery, for the first alert of each message.",
		Buckets: []float64{.05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 3600},
	})
	registry.MustRegister(m.duration, m.latency)
	return m
}

func (m *metrics) countAttempt(format webhook.Format, outcome webhook.Outcome, elapsed time.Duration) {
	m.attempts.WithLabelValues(string(format), outcome.String()).Inc()
	m.duration.WithLabelValues(string(format)).Observe(elapsed.Seconds())
}

// countCondition counts a destination that changed from one condition to another;
// "" stands for none.
func (m *metrics) countCondition(from, to condition) {
	if from != "" {
		m.conditions.WithLabelValues(string(from)).Dec()
	}
	if to != "" {
		m.conditions.WithLabelValues(string(to)).Inc()
	}
}
