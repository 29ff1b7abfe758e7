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
	lag      *prometheus.GaugeVec
	lagTime  *prometheus.GaugeVec
}

func newMetrics(registry prometheus.Registerer) *metrics {
	stream := []string{"stream"}
	m := &metrics{
		batches:  prometheus.NewCounterVec(prometheus.CounterOpts{Name: "logboom_writer_batches_total", Help: "Batches stored and committed."}, stream),
		rows:     prometheus.NewCounterVec(prometheus.CounterOpts{Name: "logboom_writer_rows_total", Help: "Rows stored and committed."}, stream),
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "logboom_writer_failures_total", Help: "Tries to insert that failed and are repeated."}, stream),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "logboom_writer_batch_duration_seconds", Help: "From a batch's intent to its commit.",
			Buckets: []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30},
		}, stream),
		buried:  prometheus.NewCounterVec(prometheus.CounterOpts{Name: "logboom_writer_dropped_total", Help: "Messages put among the dead letters, by reason."}, []string{"reason"}),
		lag:     prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "logboom_writer_lag_messages", Help: "Messages on the stream that are not committed."}, stream),
		lagTime: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "logboom_writer_lag_seconds", Help: "Age of the newest message when it was committed."}, stream),
	}
	registry.MustRegister(m.batches, m.rows, m.failures, m.duration, m.buried, m.lag, m.lagTime)
	return m
}

func (m *metrics) stored(stream string, rows int, elapsed, age time.Duration) {
	m.batches.WithLabelValues(stream).Inc()
	m.rows.WithLabelValues(stream).Add(float64(rows))
	m.duration.WithLabelValues(stream).Observe(elapsed.Seconds())
	m.lagTime.WithLabelValues(stream).Set(age.Seconds())
}
