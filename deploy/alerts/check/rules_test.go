// Package check tests with Prometheus' own engine that each alert rule fires
// for one example series and stays silent for another. It is a separate module
// because nothing else in the repository needs Prometheus.
package check

import (
	"os"
	"testing"
	"time"

	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/promqltest"
	"go.yaml.in/yaml/v3"
)

// cases holds two sets of series for each rule, with one sample a minute. At the
// end of the first the rule must fire, at the end of the second it must not.
var cases = map[string]struct{ fires, silent string }{
	"LogboomProcessDown": {
		`up{job="logs/logboom",instance="a"} 0x30`,
		`up{job="logs/logboom",instance="a"} 1x30`,
	},
	"LogboomStreamStopped": {
		`logboom_writer_stopped{stream="LOGS_0",reason="ahead"} 1x30`,
		`logboom_writer_stopped{stream="LOGS_0",reason="ahead"} 0x30`,
	},
	"LogboomRowsMissing": {
		`logboom_writer_audit_missing_rows{stream="LOGS_0"} 3x30`,
		`logboom_writer_audit_missing_rows{stream="LOGS_0"} 0x30`,
	},
	"LogboomAuditFails": {
		`logboom_writer_audits_total{result="failed"} 0+1x30`,
		`logboom_writer_audits_total{result="failed"} 0 1 2 2x28`,
	},
	"LogboomRowsDoubled": {
		`logboom_writer_audit_doubled_rows{stream="LOGS_0"} 3x30`,
		`logboom_writer_audit_doubled_rows{stream="LOGS_0"} 0x30`,
	},
	"LogboomPartsSetAside": {`logboom_writer_parts_set_aside 2x30`, `logboom_writer_parts_set_aside 0x30`},
	"LogboomWriterBehind": {
		`logboom_writer_lag_seconds{stream="LOGS_0"} 300x30`,
		`logboom_writer_lag_seconds{stream="LOGS_0"} 300 300 300 0x27`,
	},
	"LogboomStreamsWithoutWriter": {`up{job="logs/logboom"} 1x30`, `logboom_writer_lag_seconds{stream="LOGS_0"} 0x30`},
	"LogboomInsertsFail": {
		`logboom_writer_failures_total{stream="LOGS_0",reason="timeout"} 0+60x30`,
		`logboom_writer_failures_total{stream="LOGS_0",reason="timeout"} 7x30`,
	},
	"LogboomQueueRefuses": {
		`logboom_ingest_failures_total{route="/v1/logs/:project",code="queue_full"} 0+5x30`,
		`logboom_ingest_failures_total{route="/v1/logs/:project",code="invalid_token"} 0+5x30`,
	},
	"LogboomDeadLetters": {
		`logboom_writer_dropped_total{reason="poison"} 0x25 1x5`,
		`logboom_writer_dropped_total{reason="poison"} 4x30`,
	},
	"LogboomIngestSlow": {
		`logboom_ingest_request_duration_seconds_bucket{route="x",le="2.5"} 0+50x30
		 logboom_ingest_request_duration_seconds_bucket{route="x",le="10"} 0+100x30
		 logboom_ingest_request_duration_seconds_bucket{route="x",le="+Inf"} 0+100x30`,
		`logboom_ingest_request_duration_seconds_bucket{route="x",le="2.5"} 0+100x30
		 logboom_ingest_request_duration_seconds_bucket{route="x",le="10"} 0+100x30
		 logboom_ingest_request_duration_seconds_bucket{route="x",le="+Inf"} 0+100x30`,
	},
	"LogboomRedisUnavailable": {
		`logboom_ingest_quota_failures_total 0+60x30
		 logboom_ingest_shared_cache_failures_total 0x30`,
		`logboom_ingest_quota_failures_total 9x30
		 logboom_ingest_shared_cache_failures_total 3x30`,
	},
	"LogboomTokensUnverifiable": {`logboom_ingest_token_unavailable_total 0+3x30`, `logboom_ingest_token_unavailable_total 3x30`},
	"LogboomAlertsUndelivered": {
		`logboom_notifier_dropped_total{reason="gone"} 0x25 1x5`,
		`logboom_notifier_dropped_total{reason="gone"} 2x40`,
	},
	"LogboomDiskFull": {`logboom_standalone_volume_full 1x30`, `logboom_standalone_volume_full 0x30`},
}

type rule struct {
	Alert, Expr, For string
}

func rules(t *testing.T) []rule {
	t.Helper()
	text, err := os.ReadFile("../rules.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Groups []struct{ Rules []rule } }
	if err := yaml.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	var all []rule
	for _, group := range file.Groups {
		all = append(all, group.Rules...)
	}
	return all
}

func TestRulesFireOnlyForTheirFault(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range rules(t) {
		seen[r.Alert] = true
		c, ok := cases[r.Alert]
		if !ok {
			t.Errorf("%s has no case", r.Alert)
			continue
		}
		if !fires(t, r, c.fires) {
			t.Errorf("%s does not fire for\n%s", r.Alert, c.fires)
		}
		if fires(t, r, c.silent) {
			t.Errorf("%s fires for\n%s", r.Alert, c.silent)
		}
	}
	for name := range cases {
		if !seen[name] {
			t.Errorf("the case %s has no rule in rules.yaml", name)
		}
	}
}

// fires reports whether a rule fires after half an hour: its expression must
// have a value at each minute of the rule's "for" duration.
func fires(t *testing.T, r rule, series string) bool {
	t.Helper()
	storage := promqltest.LoadedStorage(t, "load 1m\n"+series)
	defer storage.Close()
	engine := promql.NewEngine(promql.EngineOpts{MaxSamples: 100_000, Timeout: time.Minute})
	defer engine.Close()
	held := time.Duration(0)
	if r.For != "" {
		var err error
		if held, err = time.ParseDuration(r.For); err != nil {
			t.Fatalf("%s: for %q: %v", r.Alert, r.For, err)
		}
	}
	end := time.Unix(0, 0).Add(30 * time.Minute)
	for at := end.Add(-held); !at.After(end); at = at.Add(time.Minute) {
		query, err := engine.NewInstantQuery(t.Context(), storage, nil, r.Expr, at)
		if err != nil {
			t.Fatalf("%s: %v", r.Alert, err)
		}
		vector, err := query.Exec(t.Context()).Vector()
		query.Close()
		if err != nil {
			t.Fatalf("%s: %v", r.Alert, err)
		}
		if len(vector) == 0 {
			return false
		}
	}
	return true
}
