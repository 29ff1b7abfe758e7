package e2e

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/url"
	"testing"
	"time"
)

// readableWithin is how long the suite waits until accepted records can be read.
// BenchmarkTargets measures the promised 2 s; a busy machine may take longer.
const readableWithin = 2 * time.Minute

// client keeps its connections open, as clients do.
var client = &http.Client{
	Timeout:   60 * time.Second,
	Transport: &http.Transport{MaxIdleConnsPerHost: 64, MaxConnsPerHost: 64},
}

// answer is the answer to a request.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// do sends a request. The test fails if the connection does.
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

// insist sends a request and repeats it while the answer is 503, as a client
// does. On a machine that is paused for seconds, a process answers 503 after it
// has waited too long for another process. It returns the number of attempts. A
// repeated request must do no harm.
func insist(t *testing.T, method, address string, header map[string]string, body []byte) (a answer, tries int) {
	t.Helper()
	eventually(t, method+" "+address+" is not answered by 503", func() bool {
		a = do(t, method, address, header, body)
		if tries++; tries == 1 && a.status == http.StatusServiceUnavailable {
			t.Logf("sent several times: %s", a.body) // names a disk that is nearly full
		}
		return a.status != http.StatusServiceUnavailable
	})
	return a, tries
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

// keyed is the header with an idempotency key, so that a body is stored once even
// if it is sent several times.
func keyed(header map[string]string) map[string]string {
	header = maps.Clone(header)
	header["Idempotency-Key"] = rand.Text()
	return header
}

// post sends a body of "logs" or "events" until it is accepted or refused.
func (s *system) post(t *testing.T, kind string, body string) (a answer, tries int) {
	t.Helper()
	return insist(t, http.MethodPost, s.ingest+"/v1/"+kind+"/"+s.project, keyed(bearer(s.token)), []byte(body))
}

// send posts a body and fails the test unless the whole body is accepted.
func (s *system) send(t *testing.T, kind string, body string, records int) (tries int) {
	t.Helper()
	a, tries := s.post(t, kind, body)
	var got struct {
		Accepted int               `json:"accepted"`
		Rejected []json.RawMessage `json:"rejected"`
	}
	a.decode(t, &got)
	if a.status != http.StatusAccepted || got.Accepted != records || len(got.Rejected) != 0 {
		t.Fatalf("%d records were sent, answer %d: %s", records, a.status, a.body)
	}
	return tries
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

// page reads one page of "logs" or "events".
func (s *system) page(t *testing.T, kind string, query url.Values) page {
	t.Helper()
	a := s.look(t, s.project, kind, query)
	if a.status != http.StatusOK {
		t.Fatalf("read %s: answer %d: %s", kind, a.status, a.body)
	}
	var p page
	a.decode(t, &p)
	return p
}

// all reads all pages.
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

// until reads until the condition is true for what it reads.
func (s *system) until(t *testing.T, kind string, query url.Values, accept func(page) bool) page {
	t.Helper()
	var p page
	eventually(t, "what was accepted is readable", func() bool {
		p = s.page(t, kind, query)
		return accept(p)
	})
	return p
}

// eventually checks a condition at growing intervals until it is true.
func eventually(t *testing.T, what string, ask func() bool) {
	t.Helper()
	within(t, readableWithin, what, ask)
}

func within(t *testing.T, longest time.Duration, what string, ask func() bool) {
	t.Helper()
	deadline := time.Now().Add(longest)
	for wait := 10 * time.Millisecond; !ask(); wait = min(2*wait, 500*time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within %s: %s", longest, what)
		}
		<-time.After(wait)
	}
}
