package e2e

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Redis is flushed, frozen, killed and brought back under load. Good tokens go
// on working, old and new, nothing accepted is lost, and the metrics show what
// happened.
func TestRedisInTroubleCostsNobodyARecord(t *testing.T) {
	t.Parallel()
	s := separate(t)
	s.call(t, http.MethodPut, "/projects/"+s.project+"/settings", `{"rate":1000000,"daily_records":100000000,"monthly_bytes":100000000000}`, http.StatusOK)
	ctx, stop := context.WithCancel(t.Context())
	accepted := s.loadUntil(ctx, t)
	for _, trouble := range []struct {
		name string
		do   func(testing.TB)
	}{
		{"flushed", func(testing.TB) { s.flush(t) }},
		{"frozen", s.cache.Pause},
		{"thawed", s.cache.Resume},
		{"killed", s.cache.Kill},
		{"restarted", s.cache.Restart},
	} {
		trouble.do(t)
		name := "made-while-" + trouble.name
		token, _ := s.newProjectToken(t, name) // its token is in no cache
		for range 20 {
			a := do(t, http.MethodPost, s.ingest+"/v1/logs/"+name, bearer(token), []byte(`{"data":"a"}`))
			if a.status != http.StatusAccepted {
				t.Errorf("redis %s: answer %d: %s", trouble.name, a.status, a.body)
			}
		}
		<-time.After(500 * time.Millisecond) // of load
	}
	stop()
	want := accepted()
	var got []log
	eventually(t, fmt.Sprintf("%d logs are stored", want), func() bool {
		got = s.all(t, "logs", url.Values{}).Logs
		return len(got) >= want
	})
	if len(got) != want {
		t.Errorf("%d logs were accepted and %d are stored", want, len(got))
	}
	metrics := do(t, http.MethodGet, s.ops["ingest"]+"/metrics", nil, nil).body
	for _, name := range []string{"logboom_ingest_quota_failures_total", "logboom_ingest_shared_cache_failures_total"} {
		if value(t, metrics, name) == 0 {
			t.Errorf("%s does not show it", name)
		}
	}
}

// loadUntil sends logs over eight connections until ctx ends. Each must be
// accepted; the function returned waits and counts them.
func (s *system) loadUntil(ctx context.Context, t *testing.T) (accepted func() int) {
	t.Helper()
	var count atomic.Int64
	var senders sync.WaitGroup
	for range 8 {
		senders.Go(func() {
			for ctx.Err() == nil {
				a, err := try(http.MethodPost, s.ingest+"/v1/logs/"+s.project, bearer(s.token), []byte(`{"data":"under load"}`))
				if err != nil || a.status != http.StatusAccepted {
					t.Errorf("under load: %v, answer %d: %s", err, a.status, a.body)
					return
				}
				count.Add(1)
				<-time.After(20 * time.Millisecond) // 400 a second, so that reading them back stays short
			}
		})
	}
	return func() int {
		senders.Wait()
		return int(count.Load())
	}
}

// value is a metric's number.
func value(t *testing.T, metrics []byte, name string) float64 {
	t.Helper()
	for line := range bytes.Lines(metrics) {
		if rest, found := strings.CutPrefix(string(line), name+" "); found {
			n, err := strconv.ParseFloat(strings.TrimSpace(rest), 64)
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
	}
	t.Fatalf("no metric %s", name)
	return 0
}
