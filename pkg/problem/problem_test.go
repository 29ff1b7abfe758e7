package problem

import (
	"encoding/json"
	"net/http/httptest"
	"testing"
	"time"
)

func TestProblemIsWrittenWhole(t *testing.T) {
	t.Parallel()
	index, offset := 3, int64(120)
	answer := httptest.NewRecorder()
	p := Problem{Status: 503, Code: "queue_full", Detail: "full", Index: &index, Offset: &offset, RetryAfter: 300 * time.Millisecond}
	if err := Write(answer, p, "r1"); err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal(answer.Body.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"type": "about:blank", "title": "Service Unavailable", "status": 503.0, "code": "queue_full",
		"detail": "full", "index": 3.0, "offset": 120.0, "request_id": "r1",
	}
	for key, value := range want {
		if got[key] != value {
			t.Errorf("%s is %v, not %v", key, got[key], value)
		}
	}
	if len(got) != len(want) {
		t.Errorf("unexpected members: %v", got)
	}
	header := answer.Header()
	if answer.Code != 503 || header.Get("Content-Type") != ContentType || header.Get("Retry-After") != "1" {
		t.Errorf("status %d, header %v", answer.Code, header)
	}
}

func TestUnauthorizedNamesTheScheme(t *testing.T) {
	t.Parallel()
	answer := httptest.NewRecorder()
	if err := Write(answer, Problem{Status: 401, Code: "missing_token"}, ""); err != nil {
		t.Fatal(err)
	}
	if answer.Header().Get("WWW-Authenticate") != "Bearer" || answer.Header().Get("Retry-After") != "" {
		t.Errorf("header %v", answer.Header())
	}
}

func TestSpentQuotaIsNamedAndSentAsHeaders(t *testing.T) {
	t.Parallel()
	answer := httptest.NewRecorder()
	reset := time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)
	p := Problem{Status: 429, Code: "quota_exceeded", Quota: &Quota{Name: "daily_records", Limit: 100, Remaining: -3, Reset: reset}, RetryAfter: 1500 * time.Millisecond}
	if err := Write(answer, p, ""); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"Retry-After": "2", "RateLimit-Limit": "100", "RateLimit-Remaining": "0", "RateLimit-Reset": "2"} {
		if got := answer.Header().Get(name); got != want {
			t.Errorf("%s is %q, not %q", name, got, want)
		}
	}
	var got struct {
		Quota string
		Reset time.Time
	}
	if err := json.Unmarshal(answer.Body.Bytes(), &got); err != nil || got.Quota != "daily_records" || !got.Reset.Equal(reset) {
		t.Errorf("body %s", answer.Body)
	}
}

func TestRequestWithoutARouteIsNotFoundOrNotAllowed(t *testing.T) {
	t.Parallel()
	for status, want := range map[int]string{404: "not_found", 405: "method_not_allowed", 400: "not_found"} {
		if p := OfRoute(status); p.Code != want || p.Detail == "" || (p.Status == 405) != (status == 405) {
			t.Errorf("%d is %+v", status, p)
		}
	}
}
