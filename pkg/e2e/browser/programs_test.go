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

// tryEvery is the pause before a program asks again.
const tryEvery = 100 * time.Millisecond

// send sends a request with a bearer's secret and reads the whole answer.
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

// try asks until the answer will do, or for as long as the patience lasts.
func try(t *testing.T, ask func() bool) bool {
	t.Helper()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	tick := time.NewTicker(tryEvery)
	defer tick.Stop()
	for !ask() {
		select {
		case <-tick.C:
		case <-deadline.C:
			return false
		}
	}
	return true
}

// post sends a body to ingest as a program does: a machine that stalls is
// answered 503, and asked again. By the key it is stored once all the same.
func (i *installation) post(t *testing.T, path, token, body string) int {
	t.Helper()
	header := map[string]string{"Idempotency-Key": rand.Text()}
	var status int
	var content []byte
	var err error
	if !try(t, func() bool {
		status, content, err = send(t, http.MethodPost, i.ingest+path, token, body, header)
		return err == nil && status != http.StatusServiceUnavailable
	}) {
		t.Fatalf("%s is not taken in: answer %d: %s, %v", path, status, content, err)
	}
	return status
}

// ask asks the JSON API as a script does.
func (i *installation) ask(t *testing.T, method, path, body string, into any) error {
	t.Helper()
	status, content, err := send(t, method, i.pages+"/api/v1"+path, i.apiKey, body, nil)
	switch {
	case err != nil:
		return err
	case status >= http.StatusBadRequest:
		return fmt.Errorf("%s %s: answer %d: %s", method, path, status, content)
	case into == nil:
		return nil
	}
	return json.Unmarshal(content, into)
}

// call is ask for what must be answered well.
func (i *installation) call(t *testing.T, method, path, body string, into any) {
	t.Helper()
	if err := i.ask(t, method, path, body, into); err != nil {
		t.Fatal(err)
	}
}

// stocked makes a project with records in it and waits until they are stored.
// It gives the token.
func (i *installation) stocked(t *testing.T, name, logs, events string) string {
	t.Helper()
	var made struct{ Token string }
	i.call(t, http.MethodPost, "/projects", fmt.Sprintf(`{"name":%q}`, name), nil)
	i.call(t, http.MethodPost, "/projects/"+name+"/tokens", `{"name":"test"}`, &made)
	for path, body := range map[string]string{"logs": logs, "events": events} {
		if body == "" {
			continue
		}
		if status := i.post(t, "/v1/"+path+"/"+name, made.Token, body); status != http.StatusAccepted {
			t.Fatalf("%s: answer %d", path, status)
		}
		i.awaitStored(t, name, path, min(strings.Count(body, "\n"), 1000))
	}
	return made.Token
}

// awaitStored waits until so many records can be read, at most 1,000.
func (i *installation) awaitStored(t *testing.T, name, kind string, n int) {
	t.Helper()
	var list []json.RawMessage
	var err error
	if !try(t, func() bool {
		var page map[string]json.RawMessage
		if err = i.ask(t, http.MethodGet, fmt.Sprintf("/projects/%s/%s?limit=%d", name, kind, n), "", &page); err != nil {
			return false
		}
		err = json.Unmarshal(page[kind], &list)
		return err == nil && len(list) >= n
	}) {
		t.Fatalf("%d of %d %s of %s are stored, %v", len(list), n, kind, name, err)
	}
}
