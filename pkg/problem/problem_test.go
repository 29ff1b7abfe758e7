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
