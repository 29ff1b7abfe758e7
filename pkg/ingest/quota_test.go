package ingest

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/logboom/logboom/pkg/project"
	"github.com/logboom/logboom/pkg/record"
	"github.com/logboom/logboom/pkg/stream"
)

// limit sets the project's quotas before its token is used for the first time.
func (b *bench) limit(t *testing.T, change func(*project.Settings)) {
	t.Helper()
	if _, err := b.store.ChangeSettings(t.Context(), "shop", change); err != nil {
		t.Fatal(err)
	}
}

func number(n int64) *int64 { return &n }

func (b *bench) checkSpent(t *testing.T, answer *httptest.ResponseRecorder, code, quota string, limit int64) {
	t.Helper()
	checkProblem(t, answer, http.StatusTooManyRequests, code)
	var p struct {
		Quota string
		Limit int64
		Reset time.Time
	}
	if err := json.Unmarshal(answer.Body.Bytes(), &p); err != nil || p.Quota != quota || p.Limit != limit || !p.Reset.After(b.server.deps.Now()) {
		t.Errorf("the problem is %s", answer.Body)
	}
	header := answer.Header()
	if header.Get("RateLimit-Limit") != strconv.FormatInt(limit, 10) || header.Get("RateLimit-Remaining") != "0" {
		t.Errorf("header %v", header)
	}
	for _, name := range []string{"Retry-After", "RateLimit-Reset"} {
		if n, err := strconv.Atoi(header.Get(name)); err != nil || n < 1 {
			t.Errorf("%s is %q", name, header.Get(name))
		}
	}
}

func TestBatchThatExceedsAQuotaIsAcceptedWholeAndTheNextIsRefused(t *testing.T) {
	t.Parallel()
	for quota, change := range map[string]func(*project.Settings){
		"daily_records": func(s *project.Settings) { s.DailyRecords = number(5) },
		"monthly_bytes": func(s *project.Settings) { s.MonthlyBytes = number(5) },
	} {
		b := newBench(t, stream.Config{MaxBytes: 64 << 20})
		b.limit(t, change)
		if answer := b.post("/v1/logs/shop", strings.Repeat("{\"data\":\"x\"}\n", 8)); answer.Code != http.StatusAccepted {
			t.Fatalf("%s: answer %d: %s", quota, answer.Code, answer.Body)
		}
		b.checkSpent(t, b.post("/v1/logs/shop", `{"data":"y"}`), "quota_exceeded", quota, 5)
		b.checkSpent(t, b.post("/v1/events/shop", `{"channel":"c","title":"t"}`), "quota_exceeded", quota, 5)
		if got := lines(t, b.queued(t, "LOGS_0")); len(got) != 8 {
			t.Errorf("%s: %d records are on the queue", quota, len(got))
		}
	}
}

func TestExceededRateIsAnsweredRateLimited(t *testing.T) {
	t.Parallel()
	b := newBench(t, stream.Config{MaxBytes: 64 << 20})
	b.limit(t, func(s *project.Settings) { s.Rate = number(1) })
	if answer := b.post("/v1/logs/shop", strings.Repeat("{\"data\":\"x\"}\n", 50)); answer.Code != http.StatusAccepted {
		t.Fatalf("answer %d: %s", answer.Code, answer.Body)
	}
	b.checkSpent(t, b.post("/v1/logs/shop", `{"data":"y"}`), "rate_limited", "rate", 1)
}

func TestExceededQuotaIsAnsweredWithoutDecompression(t *testing.T) {
	t.Parallel()
	b := newBench(t, stream.Config{MaxBytes: 64 << 20})
	b.limit(t, func(s *project.Settings) { s.DailyRecords = number(1) })
	b.post("/v1/logs/shop", `{"data":"x"}`)
	b.checkSpent(t, b.post("/v1/logs/shop", "this is no gzip", "Content-Encoding", "gzip"), "quota_exceeded", "daily_records", 1)
}

func TestRecordsThatTheQueueRefusedAreRefunded(t *testing.T) {
	t.Parallel()
	b := newBench(t, stream.Config{MaxBytes: 64 << 20})
	b.limit(t, func(s *project.Settings) { s.DailyRecords = number(3) })
	long := strings.Repeat("k", maxIdempotencyKey+1)
	for range 10 {
		checkProblem(t, b.post("/v1/logs/shop", `{"data":"x"}`, "Idempotency-Key", long), http.StatusBadRequest, "invalid_field")
	}
	for range 10 { // nine of them are stored already
		if answer := b.post("/v1/logs/shop", `{"data":"x"}`, "Idempotency-Key", "k"); answer.Code != http.StatusAccepted {
			t.Fatalf("answer %d: %s", answer.Code, answer.Body)
		}
	}
	for range 2 {
		if answer := b.post("/v1/logs/shop", `{"data":"x"}`); answer.Code != http.StatusAccepted {
			t.Fatalf("answer %d: %s", answer.Code, answer.Body)
		}
	}
	b.checkSpent(t, b.post("/v1/logs/shop", `{"data":"x"}`), "quota_exceeded", "daily_records", 3)
}

func TestRefusedRecordsAreCountedOnTheQueue(t *testing.T) {
	t.Parallel()
	b := newBench(t, stream.Config{MaxBytes: 64 << 20})
	b.limit(t, func(s *project.Settings) { s.DailyRecords = number(1) })
	b.post("/v1/logs/shop", `{"data":"x"}`)
	for range 4 {
		b.post("/v1/logs/shop", `{"data":"refused"}`)
	}
	b.server.drops.flush(t.Context())
	b.server.drops.flush(t.Context()) // nothing is left to send
	var counted []record.Drop
	var reader record.Reader
	for _, delivery := range b.queued(t, "LOGS_0") {
		reader.Reset(delivery.Data)
		section, err := reader.NextSection()
		if err != nil {
			t.Fatal(err)
		}
		if section.Kind != record.KindDrop {
			continue
		}
		var d record.Drop
		for {
			ok, err := section.NextDrop(&d)
			if err != nil {
				t.Fatal(err)
			}
			if !ok {
				break
			}
			d.Reason = strings.Clone(d.Reason)
			counted = append(counted, d)
		}
		if _, err := reader.NextSection(); err != io.EOF {
			t.Fatalf("more than one section: %v", err)
		}
	}
	if len(counted) != 1 || counted[0].Reason != "daily_records" || counted[0].Records != 4 || counted[0].Bytes == 0 {
		t.Fatalf("counted: %+v", counted)
	}
}

func TestCountsThatTheQueueRefusedAreKept(t *testing.T) {
	t.Parallel()
	b := newBench(t, stream.Config{MaxBytes: 64 << 20})
	b.limit(t, func(s *project.Settings) { s.DailyRecords = number(1) })
	b.post("/v1/logs/shop", `{"data":"x"}`)
	b.post("/v1/logs/shop", `{"data":"refused"}`)
	if err := b.nats.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.server.drops.flush(t.Context())
	b.server.drops.mu.Lock()
	defer b.server.drops.mu.Unlock()
	if len(b.server.drops.counts) != 1 {
		t.Fatalf("kept: %v", b.server.drops.counts)
	}
}
