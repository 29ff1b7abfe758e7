package ingest

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/logboom/logboom/pkg/decode"
	"github.com/logboom/logboom/pkg/quota"
	"github.com/logboom/logboom/pkg/record"
	"github.com/logboom/logboom/pkg/stream"
	"github.com/logboom/logboom/pkg/token"
)

// metrics count records; telemetry.Requests counts requests. The labels are
// closed sets: kinds of record, codes of rejections.
type metrics struct {
	records *prometheus.CounterVec
	bytes   *prometheus.CounterVec
	dropped *prometheus.CounterVec
}

func newMetrics(registry prometheus.Registerer, bodies *budget) *metrics {
	registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "logboom_ingest_body_memory_bytes", Help: "Memory that the requests in progress hold for their bodies."},
		func() float64 { return float64(bodies.held.Load()) }))
	m := &metrics{
		records: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "logboom_ingest_records_total", Help: "Accepted records, which are on the queue's disk."}, []string{"kind"}),
		bytes:   prometheus.NewCounterVec(prometheus.CounterOpts{Name: "logboom_ingest_records_bytes_total", Help: "Bytes of text in the accepted records."}, []string{"kind"}),
		dropped: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "logboom_ingest_dropped_total", Help: "Entries of bodies that were not accepted, by reason."}, []string{"reason"}),
	}
	registry.MustRegister(m.records, m.bytes, m.dropped)
	return m
}

func (m *metrics) accepted(kind record.Kind, records int, bytes int64) {
	m.records.WithLabelValues(kind.String()).Add(float64(records))
	m.bytes.WithLabelValues(kind.String()).Add(float64(bytes))
}

// rejected counts entries that were not accepted. The reason of those that are
// not listed is "unlisted".
func (m *metrics) rejected(listed []decode.Rejection, total int) {
	for _, r := range listed {
		m.dropped.WithLabelValues(r.Code).Inc()
	}
	if unlisted := total - len(listed); unlisted > 0 {
		m.dropped.WithLabelValues("unlisted").Add(float64(unlisted))
	}
}

// registerParts registers the counts that the token cache, the publisher and the
// limiter keep.
func registerParts(registry prometheus.Registerer, cache *token.Cache, publisher *stream.Publisher, limiter quota.Limiter) {
	counter := func(name, help string, read func() uint64) prometheus.Collector {
		return prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "logboom_ingest_" + name + "_total", Help: help}, func() float64 { return float64(read()) })
	}
	registry.MustRegister(
		counter("token_hits", "Tokens found in the process's cache.", func() uint64 { return cache.Stats().Hits }),
		counter("token_shared_hits", "Tokens found in the shared cache.", func() uint64 { return cache.Stats().SharedHits }),
		counter("token_lookups", "Tokens looked up in the system of record.", func() uint64 { return cache.Stats().Lookups }),
		counter("token_unavailable", "Tokens that could not be checked.", func() uint64 { return cache.Stats().Unavailable }),
		counter("shared_cache_failures", "Operations of the shared cache that failed or timed out.", func() uint64 { return cache.Stats().SharedErrors }),
		counter("messages", "Messages published to the queue. Records divided by messages is how many records share a message.", func() uint64 { return publisher.Stats().Messages }),
		counter("quota_refusals_rate", "Requests refused because of the quota rate.", func() uint64 { return limiter.Stats().RefusedRate }),
		counter("quota_refusals_daily_records", "Requests refused because of the quota daily_records.", func() uint64 { return limiter.Stats().RefusedDailyRecords }),
		counter("quota_refusals_monthly_bytes", "Requests refused because of the quota monthly_bytes.", func() uint64 { return limiter.Stats().RefusedMonthlyBytes }),
		counter("quota_round_trips", "Calls of Redis about quotas.", func() uint64 { return limiter.Stats().RoundTrips }),
		counter("quota_failures", "Calls of Redis about quotas that were not answered in time.", func() uint64 { return limiter.Stats().Failures }),
		counter("quota_fallbacks", "Requests whose quota the process decided alone, because Redis did not answer.", func() uint64 { return limiter.Stats().Fallbacks }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "logboom_ingest_pending_bytes", Help: "Bytes waiting for the queue's acknowledgement."},
			func() float64 { return float64(publisher.Stats().Pending) }),
	)
}
