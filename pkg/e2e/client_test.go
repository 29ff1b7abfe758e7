package e2e

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"testing"
	"time"
)

// readableWithin is how long the suite waits for what was accepted to be
// readable. The contract's 2 s is measured by TestLogIsReadableSoon; here a
// busy machine may take longer.
const readableWithin = 60 * time.Second

// client keeps its connections, as senders do.
var client = &http.Client{
	Timeout:   60 * time.Second,
	Transport: &http.Transport{MaxIdleConnsPerHost: 64, MaxConnsPerHost: 64},
}

// answer is what came back.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// do sends a request whose connection must not fail.
func do(t *testing.T, method, address string, header map[string]string, body []byte) answer {
	t.Helper()
	a, err := try(method, address, header, body)
	if err != nil {
		t.Fatalf("%s %s: %v", method, address, err)
	}
	return a
}

func try(method, address string, header map[string]string, body []byte) (answer, error) {
	request, err := http.NewRequest(method, address, bytes.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	for key, value := range header {
		request.Header.Set(key, value)
	}
	response, err := client.Do(request)
	if err != nil {
		return answer{}, err
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	return answer{response.StatusCode, response.Header, content}, err
}

func (a answer) decode(t *testing.T, into any) {
	t.Helper()
	if err := json.Unmarshal(a.body, into); err != nil {
		t.Fatalf("answer %d is no JSON: %v: %.200s", a.status, err, a.body)
	}
}

func bearer(secret string) map[string]string {
	return map[string]string{"Authorization": "Bearer " + secret}
}

// send posts a body that is to be accepted whole.
func (s *system) send(t *testing.T, kind string, body string, records int) {
	t.Helper()
	a := do(t, http.MethodPost, s.ingest+"/v1/"+kind+"/"+s.project, bearer(s.token), []byte(body))
	var got struct {
		Accepted int               `json:"accepted"`
		Rejected []json.RawMessage `json:"rejected"`
	}
	a.decode(t, &got)
	if a.status != http.StatusAccepted || got.Accepted != records || len(got.Rejected) != 0 {
		t.Fatalf("%d records were sent, answer %d: %s", records, a.status, a.body)
	}
}

// log and event are records as the API answers them.
type log struct {
	ID             string            `json:"id"`
	Timestamp      time.Time         `json:"timestamp"`
	Application    string            `json:"application"`
	Severity       string            `json:"severity"`
	SeverityNumber int               `json:"severity_number"`
	Data           string            `json:"data"`
	Metadata       map[string]string `json:"metadata"`
	Host           string            `json:"host"`
	Source         string            `json:"source"`
}

type event struct {
	ID          string            `json:"id"`
	Timestamp   time.Time         `json:"timestamp"`
	Channel     string            `json:"channel"`
	Title       string            `json:"title"`
	Description string            `json:"description"`
	Icon        string            `json:"icon"`
	Notify      bool              `json:"notify"`
	Tags        map[string]string `json:"tags"`
}

type page struct {
	Logs   []log   `json:"logs"`
	Events []event `json:"events"`
	Next   string  `json:"next"`
}

// page asks for one page of "logs" or "events".
func (s *system) page(t *testing.T, kind string, query url.Values) page {
	t.Helper()
	a := do(t, http.MethodGet, s.admin+"/api/v1/projects/"+s.project+"/"+kind+"?"+query.Encode(), bearer(s.apiKey), nil)
	if a.status != http.StatusOK {
		t.Fatalf("read %s: answer %d: %s", kind, a.status, a.body)
	}
	var p page
	a.decode(t, &p)
	return p
}

// all follows the cursor to the end.
func (s *system) all(t *testing.T, kind string, query url.Values) page {
	t.Helper()
	var whole page
	query.Set("limit", "1000")
	for {
		p := s.page(t, kind, query)
		whole.Logs, whole.Events = append(whole.Logs, p.Logs...), append(whole.Events, p.Events...)
		if p.Next == "" {
			return whole
		}
		query.Set("cursor", p.Next)
	}
}

// until reads until the test accepts what it reads.
func (s *system) until(t *testing.T, kind string, query url.Values, accept func(page) bool) page {
	t.Helper()
	var p page
	eventually(t, "what was accepted is readable", func() bool {
		p = s.page(t, kind, query)
		return accept(p)
	})
	return p
}

// eventually asks again and again, at growing intervals.
func eventually(t *testing.T, what string, ask func() bool) {
	t.Helper()
	deadline := time.Now().Add(readableWithin)
	for wait := 10 * time.Millisecond; !ask(); wait = min(2*wait, 500*time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within %s: %s", readableWithin, what)
		}
		<-time.After(wait)
	}
}
