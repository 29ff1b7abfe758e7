package ingest

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/logboom/logboom/pkg/decode"
	"github.com/logboom/logboom/pkg/project"
	"github.com/logboom/logboom/pkg/quota"
	"github.com/logboom/logboom/pkg/record"
	"github.com/logboom/logboom/pkg/stream"
)

// metrics count records; requests are counted by telemetry.Requests. Labels
// are closed sets: kinds of record, codes of rejections.
type metrics struct {
	records *prometheus.CounterVec
	bytes   *prometheus.CounterVec
	dropped *prometheus.CounterVec
}

func newMetrics(registry prometheus.Registerer, bodies *budget) *metrics {
	registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "logboom_ingest_body_memory_bytes", Help: "Memory that the bodies under way hold."},
		func() float64 { return float64(bodies.held.Load()) }))
	m := &metrics{
		records: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "logboom_ingest_records_total", Help: "Records accepted: on the queue's disk."}, []string{"kind"}),
		bytes:   prometheus.NewCounterVec(prometheus.CounterOpts{Name: "logboom_ingest_records_bytes_total", Help: "Bytes of text in the records accepted."}, []string{"kind"}),
		dropped: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "logboom_ingest_dropped_total", Help: "Entries of bodies that were not accepted, by reason."}, []string{"reason"}),
	}
	registry.MustRegister(m.records, m.bytes, m.dropped)
	return m
}

func (m *metrics) accepted(kind record.Kind, records int, bytes int64) {
	m.records.WithLabelValues(kind.String()).Add(float64(records))
	m.bytes.WithLabelValues(kind.String()).Add(float64(bytes))
}

// rejected counts entries that were not taken. Of those past the list's end
// only the number is known: their reason is "unlisted".
func (m *metrics) rejected(listed []decode.Rejection, total int) {
	for _, r := range listed {
		m.dropped.WithLabelValues(r.Code).Inc()
	}
	if unlisted := total - len(listed); unlisted > 0 {
		m.dropped.WithLabelValues("unlisted").Add(float64(unlisted))
	}
}

// watchParts shows what the token cache and the publisher count themselves.
func watchParts(registry prometheus.Registerer, cache *project.Cache, publisher *stream.Publisher, limiter quota.Limiter) {
	counter := func(name, help string, read func() uint64) prometheus.Collector {
		return prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "logboom_ingest_" + name + "_total", Help: help}, func() float64 { return float64(read()) })
	}
	registry.MustRegister(
		counter("token_hits", "Tokens known to the process.", func() uint64 { return cache.Stats().Hits }),
		counter("token_shared_hits", "Tokens found in the shared cache.", func() uint64 { return cache.Stats().SharedHits }),
		counter("token_lookups", "Tokens asked of the system of record.", func() uint64 { return cache.Stats().LookUps }),
		counter("token_unavailable", "Tokens that nobody could tell about.", func() uint64 { return cache.Stats().Unavailable }),
		counter("shared_cache_failures", "Operations of the shared cache that failed or took too long.", func() uint64 { return cache.Stats().SharedErrors }),
		counter("messages", "Messages put on the queue; records over messages tell how well senders share them.", func() uint64 { return publisher.Stats().Messages }),
		counter("quota_refusals_rate", "Requests refused for the quota rate.", func() uint64 { return limiter.Stats().RefusedRate }),
		counter("quota_refusals_daily_records", "Requests refused for the quota daily_records.", func() uint64 { return limiter.Stats().RefusedDailyRecords }),
		counter("quota_refusals_monthly_bytes", "Requests refused for the quota monthly_bytes.", func() uint64 { return limiter.Stats().RefusedMonthlyBytes }),
		counter("quota_round_trips", "Questions about quotas to Redis.", func() uint64 { return limiter.Stats().RoundTrips }),
		counter("quota_failures", "Of these, not answered in time.", func() uint64 { return limiter.Stats().Failures }),
		counter("quota_fallbacks", "Requests decided by what the process knows, since Redis was away.", func() uint64 { return limiter.Stats().Fallbacks }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "logboom_ingest_pending_bytes", Help: "Bytes that wait for the queue's confirmation."},
			func() float64 { return float64(publisher.Stats().Pending) }),
	)
}
