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

// Redis is flushed, paused, killed and restarted under load. Old and new tokens
// still work, no accepted log is lost, and the metrics show what happened.
func TestRedisInTroubleCostsNobodyARecord(t *testing.T) {
	t.Parallel()
	s := separate(t)
	s.call(t, http.MethodPut, "/projects/"+s.project+"/settings", `{"rate":1000000,"daily_records":100000000,"monthly_bytes":100000000000}`, http.StatusOK)
	under := s.startTraffic(t)
	for _, trouble := range []struct {
		name string
		do   func(testing.TB)
		seen []string // metrics that show it
	}{
		{"flushed", func(testing.TB) { s.flush(t) }, nil},
		{"frozen", s.cache.Pause, []string{"logboom_ingest_quota_failures_total", "logboom_ingest_shared_cache_failures_total"}},
		{"thawed", s.cache.Resume, nil},
		{"killed", s.cache.Kill, nil},
		{"restarted", s.cache.Restart, nil},
	} {
		before := under.accepted.Load()
		trouble.do(t)
		name := "made-while-" + trouble.name
		token, _ := s.newProjectToken(t, name) // no cache has its token
		for range 20 {
			a, _ := insist(t, http.MethodPost, s.ingest+"/v1/logs/"+name, keyed(bearer(token)), []byte(`{"data":"a"}`))
			if a.status != http.StatusAccepted {
				t.Errorf("redis %s: answer %d: %s", trouble.name, a.status, a.body)
			}
		}
		eventually(t, "there is load while redis is "+trouble.name, func() bool { return under.accepted.Load() >= before+200 })
		for _, metric := range trouble.seen { // leases last for seconds and are renewed after that
			eventually(t, metric+" shows that redis is "+trouble.name, func() bool {
				return value(t, do(t, http.MethodGet, s.ops["ingest"]+"/metrics", nil, nil).body, metric) > 0
			})
		}
	}
	want := under.end()
	if refused := int(under.refused.Load()); refused > want/10 {
		t.Errorf("%d logs were accepted, and %d times one was not at once", want, refused)
	}
	var got []log
	eventually(t, fmt.Sprintf("%d logs are stored", want), func() bool {
		got = s.all(t, "logs", url.Values{}).Logs
		return len(got) >= want
	})
	if len(got) != want {
		t.Errorf("%d logs were accepted and %d are stored", want, len(got))
	}
}

// traffic sends logs in the background.
type traffic struct {
	accepted, refused atomic.Int64 // refused with 503 and sent again
	senders           sync.WaitGroup
	stop              context.CancelFunc
}

// startTraffic sends logs over eight connections until end is called or the test
// ends. Each log must be accepted eventually.
func (s *system) startTraffic(t *testing.T) *traffic {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	under := &traffic{stop: stop}
	for range 8 {
		under.senders.Go(func() {
			for ctx.Err() == nil && s.sendOne(t, under) {
				<-time.After(20 * time.Millisecond) // 400 per second, so that reading them back takes little time
			}
		})
	}
	t.Cleanup(func() { under.end() }) // before the processes that receive it end
	return under
}

// sendOne sends a log until it is accepted.
func (s *system) sendOne(t *testing.T, under *traffic) bool {
	header := keyed(bearer(s.token))
	for deadline := time.Now().Add(readableWithin); ; <-time.After(500 * time.Millisecond) {
		a, err := try(http.MethodPost, s.ingest+"/v1/logs/"+s.project, header, []byte(`{"data":"under load"}`))
		if err == nil && a.status == http.StatusAccepted {
			under.accepted.Add(1)
			return true
		}
		if err != nil || a.status != http.StatusServiceUnavailable || time.Now().After(deadline) {
			t.Errorf("under load: %v, answer %d: %s", err, a.status, a.body)
			return false
		}
		under.refused.Add(1)
	}
}

// end stops the traffic and returns the number of accepted logs.
func (u *traffic) end() int {
	u.stop()
	u.senders.Wait()
	return int(u.accepted.Load())
}

// value returns the value of a metric.
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
