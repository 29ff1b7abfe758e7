package writer

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/logboom/logboom/pkg/ledger"
)

type metrics struct {
	batches     *prometheus.CounterVec
	rows        *prometheus.CounterVec
	failures    *prometheus.CounterVec
	duration    *prometheus.HistogramVec
	deadLetters *prometheus.CounterVec
	burnt       *prometheus.CounterVec
	stopped     *prometheus.GaugeVec
	writers     prometheus.Gauge

	lagMessages, lagRecords, lagSeconds *prometheus.GaugeVec

	audits                  *prometheus.CounterVec
	missing, doubled, ahead *prometheus.GaugeVec
	setAside                prometheus.Gauge
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
		failures:    counter("failures_total", "Requests to ClickHouse that failed and are retried, by reason.", "stream", "reason"),
		deadLetters: counter("dropped_total", "Messages that became dead letters, by reason.", "reason"),
		burnt:       counter("burnt_tokens_total", "Inserts that ClickHouse acknowledged without storing their rows, and that were repeated under a new token.", "stream"),
		stopped:     gauge("stopped", "1 if a stream is stopped until a person acts, by reason.", "stream", "reason"),
		writers:     prometheus.NewGauge(prometheus.GaugeOpts{Name: "logboom_writer_members", Help: "Writers that are alive, as this one sees it."}),
		lagMessages: gauge("lag_messages", "Messages on the stream that are not committed.", "stream"),
		lagRecords:  gauge("lag_records", "Estimated number of records in these messages, from the mean of the messages stored so far.", "stream"),
		lagSeconds:  gauge("lag_seconds", "Age of the oldest message that is not committed.", "stream"),
		audits:      counter("audits_total", "Audits of the rows of yesterday and today, by result: passed, found, failed.", "result"),
		missing:     gauge("audit_missing_rows", "Rows that were stored and are missing, at the last audit.", "stream"),
		doubled:     gauge("audit_doubled_rows", "Rows stored more than once, at the last audit.", "stream"),
		ahead:       gauge("audit_ahead_messages", "Messages after the last one in the ledger that have rows, at the last audit.", "stream"),
		setAside: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "logboom_writer_parts_set_aside", Help: "Parts that ClickHouse put aside as broken at a start, at the last audit: their rows are missing.",
		}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "logboom_writer_batch_duration_seconds", Help: "Time from a batch's intent to its commit.",
			Buckets: []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30},
		}, []string{"stream"}),
	}
	registry.MustRegister(m.writers, m.duration, m.setAside)
	return m
}

func (m *metrics) recordBatch(stream string, rows int, elapsed time.Duration) {
	m.batches.WithLabelValues(stream).Inc()
	m.rows.WithLabelValues(stream).Add(float64(rows))
	m.duration.WithLabelValues(stream).Observe(elapsed.Seconds())
}

func (m *metrics) recordLag(stream string, messages uint64, waited time.Duration, rowsPerMessage float64) {
	m.lagMessages.WithLabelValues(stream).Set(float64(messages))
	m.lagRecords.WithLabelValues(stream).Set(float64(messages) * rowsPerMessage)
	m.lagSeconds.WithLabelValues(stream).Set(waited.Seconds())
}

func (m *metrics) recordAudit(f ledger.AuditFinding) {
	m.missing.WithLabelValues(f.Stream).Set(float64(f.Missing))
	m.doubled.WithLabelValues(f.Stream).Set(float64(f.Doubled))
	m.ahead.WithLabelValues(f.Stream).Set(float64(f.Ahead))
}

// forgetAudit removes the results of an audit that another writer now makes.
func (m *metrics) forgetAudit() {
	for _, g := range []*prometheus.GaugeVec{m.missing, m.doubled, m.ahead} {
		g.Reset()
	}
	m.setAside.Set(0)
}

// setRunning records that a stream is not stopped.
func (m *metrics) setRunning(stream string) {
	m.stopped.DeletePartialMatch(prometheus.Labels{"stream": stream})
}

// forget removes what only the holder of a stream knows.
func (m *metrics) forget(stream string) {
	for _, g := range []*prometheus.GaugeVec{m.lagMessages, m.lagRecords, m.lagSeconds} {
		g.DeleteLabelValues(stream)
	}
	m.setRunning(stream)
}
