package writer

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

type metrics struct {
	batches  *prometheus.CounterVec
	rows     *prometheus.CounterVec
	failures *prometheus.CounterVec
	duration *prometheus.HistogramVec
	buried   *prometheus.CounterVec
	burnt    *prometheus.CounterVec
	stopped  *prometheus.GaugeVec
	writers  prometheus.Gauge

	lagMessages, lagRecords, lagSeconds *prometheus.GaugeVec

	audits         *prometheus.CounterVec
	doubled, ahead *prometheus.GaugeVec
}

func newMetrics(registry prometheus.Registerer) *metrics {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "logboom_writer_" + name, Help: help}, labels)
		registry.MustRegister(c)
		return c
	}
	gauge := func(name, help string, labels ...string) *prometheus.GaugeVec {
		g := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "logboom_writer_" + name, Help: help}, labels)
		registry.MustRegister(g)
		return g
	}
	m := &metrics{
		batches:     counter("batches_total", "Batches stored and committed.", "stream"),
		rows:        counter("rows_total", "Rows stored and committed.", "stream"),
		failures:    counter("failures_total", "Requests to ClickHouse that failed and are repeated, by reason.", "stream", "reason"),
		buried:      counter("dropped_total", "Messages put among the dead letters, by reason.", "reason"),
		burnt:       counter("burnt_tokens_total", "Inserts answered with ok whose rows were not there, and which were repeated under a new token.", "stream"),
		stopped:     gauge("stopped", "1 where a stream stands still until a person has looked at it, by reason.", "stream", "reason"),
		writers:     prometheus.NewGauge(prometheus.GaugeOpts{Name: "logboom_writer_members", Help: "Writers alive, as seen by this one."}),
		lagMessages: gauge("lag_messages", "Messages on the stream that are not committed.", "stream"),
		lagRecords:  gauge("lag_records", "About how many records these messages hold, by the mean of those seen.", "stream"),
		lagSeconds:  gauge("lag_seconds", "Age of the oldest message that is not committed.", "stream"),
		audits:      counter("audits_total", "Audits of what was stored of late, by result: passed, found, failed.", "stream", "result"),
		doubled:     gauge("audit_doubled_rows", "Rows stored more than once, at the last audit.", "stream"),
		ahead:       gauge("audit_ahead_messages", "By how many messages rows are ahead of the ledger, at the last audit.", "stream"),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "logboom_writer_batch_duration_seconds", Help: "From a batch's intent to its commit.",
			Buckets: []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30},
		}, []string{"stream"}),
	}
	registry.MustRegister(m.writers, m.duration)
	return m
}

func (m *metrics) stored(stream string, rows int, elapsed time.Duration) {
	m.batches.WithLabelValues(stream).Inc()
	m.rows.WithLabelValues(stream).Add(float64(rows))
	m.duration.WithLabelValues(stream).Observe(elapsed.Seconds())
}

func (m *metrics) behind(stream string, messages uint64, waited time.Duration, rowsPerMessage float64) {
	m.lagMessages.WithLabelValues(stream).Set(float64(messages))
	m.lagRecords.WithLabelValues(stream).Set(float64(messages) * rowsPerMessage)
	m.lagSeconds.WithLabelValues(stream).Set(waited.Seconds())
}

func (m *metrics) audited(stream string, doubled, ahead uint64) {
	result := "passed"
	if doubled > 0 || ahead > 0 {
		result = "found"
	}
	m.audits.WithLabelValues(stream, result).Inc()
	m.doubled.WithLabelValues(stream).Set(float64(doubled))
	m.ahead.WithLabelValues(stream).Set(float64(ahead))
}

// moves takes back that a stream stands still.
func (m *metrics) moves(stream string) {
	m.stopped.DeletePartialMatch(prometheus.Labels{"stream": stream})
}

// forget takes away what only the holder of a stream can tell.
func (m *metrics) forget(stream string) {
	for _, g := range []*prometheus.GaugeVec{m.lagMessages, m.lagRecords, m.lagSeconds, m.doubled, m.ahead} {
		g.DeleteLabelValues(stream)
	}
	m.moves(stream)
}
