package browser

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// pollInterval is the pause between two attempts.
const pollInterval = 100 * time.Millisecond

// send sends a request with a bearer token and reads the whole response.
func send(t *testing.T, method, address, secret, body string, header map[string]string) (status int, content []byte, err error) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, address, strings.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	request.Header.Set("Authorization", "Bearer "+secret)
	for key, value := range header {
		request.Header.Set(key, value)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, nil, err
	}
	defer answer.Body.Close()
	content, err = io.ReadAll(answer.Body)
	return answer.StatusCode, content, err
}

// poll calls done until it returns true. It returns false if that takes longer
// than patience.
func poll(t *testing.T, done func() bool) bool {
	t.Helper()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for !done() {
		select {
		case <-tick.C:
		case <-deadline.C:
			return false
		}
	}
	return true
}

// post sends a body to ingest as a client does: it retries on 503, which a busy
// machine may answer. The idempotency key makes sure that the body is stored
// once.
func (i *installation) post(t *testing.T, path, token, body string) int {
	t.Helper()
	header := map[string]string{"Idempotency-Key": rand.Text()}
	var status int
	var content []byte
	var err error
	if !poll(t, func() bool {
		status, content, err = send(t, http.MethodPost, i.ingest+path, token, body, header)
		return err == nil && status != http.StatusServiceUnavailable
	}) {
		t.Fatalf("ingest did not accept the body for %s: status %d: %s, error %v", path, status, content, err)
	}
	return status
}

// callAPI sends a request to the JSON API and decodes the response into a value,
// unless that is nil.
func (i *installation) callAPI(t *testing.T, method, path, body string, into any) error {
	t.Helper()
	status, content, err := send(t, method, i.pages+"/api/v1"+path, i.apiKey, body, nil)
	switch {
	case err != nil:
		return err
	case status >= http.StatusBadRequest:
		return fmt.Errorf("%s %s: status %d: %s", method, path, status, content)
	case into == nil:
		return nil
	}
	return json.Unmarshal(content, into)
}

// mustCallAPI is like callAPI, but an error fails the test.
func (i *installation) mustCallAPI(t *testing.T, method, path, body string, into any) {
	t.Helper()
	if err := i.callAPI(t, method, path, body, into); err != nil {
		t.Fatal(err)
	}
}

// createProject creates a project with records, waits until they are stored and
// returns a token of the project.
func (i *installation) createProject(t *testing.T, name, logs, events string) string {
	t.Helper()
	var created struct{ Token string }
	i.mustCallAPI(t, http.MethodPost, "/projects", fmt.Sprintf(`{"name":%q}`, name), nil)
	i.mustCallAPI(t, http.MethodPost, "/projects/"+name+"/tokens", `{"name":"test"}`, &created)
	for path, body := range map[string]string{"logs": logs, "events": events} {
		if body == "" {
			continue
		}
		if status := i.post(t, "/v1/"+path+"/"+name, created.Token, body); status != http.StatusAccepted {
			t.Fatalf("ingest answered %d for %s, want 202", status, path)
		}
		i.awaitStored(t, name, path, min(strings.Count(body, "\n"), 1000))
	}
	return created.Token
}

// awaitStored waits until the API returns n records. One response holds at most
// 1,000.
func (i *installation) awaitStored(t *testing.T, name, kind string, n int) {
	t.Helper()
	var list []json.RawMessage
	var err error
	if !poll(t, func() bool {
		var page map[string]json.RawMessage
		if err = i.callAPI(t, http.MethodGet, fmt.Sprintf("/projects/%s/%s?limit=%d", name, kind, n), "", &page); err != nil {
			return false
		}
		err = json.Unmarshal(page[kind], &list)
		return err == nil && len(list) >= n
	}) {
		t.Fatalf("%d of %d %s of project %s are stored, error %v", len(list), n, kind, name, err)
	}
}
