//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"syscall"
	"testing"
)

func TestAnswersPromiseWhatTheContractSays(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		status       int
		code, detail string
		want         fate
	}{
		{202, "", "", accepted},
		{400, "invalid_json", "", refused},
		{429, "rate_limited", "", refused},
		{503, "queue_full", "the queue takes no more records at present", refused},
		{503, "draining", "", refused},
		{503, "queue_unavailable", "the token could not be checked", refused},
		{503, "queue_unavailable", "nothing was accepted", refused},
		{503, "queue_unavailable", "the queue did not confirm the records", unknown},
		{500, "internal_error", "", unknown},
		{502, "", "", unknown},
	} {
		if got := fateOf(tc.status, tc.code, tc.detail); got != tc.want {
			t.Errorf("%d %s (%s) is %s, not %s", tc.status, tc.code, tc.detail, got, tc.want)
		}
	}
	if got := fateOfFailure(fmt.Errorf("dial: %w", syscall.ECONNREFUSED)); got != refused {
		t.Errorf("a refused connection is %s", got)
	}
	if got := fateOfFailure(errors.New("unexpected EOF")); got != unknown {
		t.Errorf("a broken connection is %s", got)
	}
}

// intake is an ingest that fails the first attempt with each key after it stored
// it, and counts the records that it received.
type intake struct {
	mu      sync.Mutex
	keys    map[string]int
	records map[string]bool
	stop    context.CancelFunc
}

func (i *intake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	lines := strings.Split(strings.TrimSpace(string(body)), "\n")
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, line := range lines {
		i.records[line] = true
	}
	if len(i.records) > 3000 {
		i.stop()
	}
	if key := r.Header.Get("Idempotency-Key"); key != "" {
		if i.keys[key]++; i.keys[key] == 1 {
			panic(http.ErrAbortHandler)
		}
	}
	w.WriteHeader(http.StatusAccepted)
	fmt.Fprintf(w, `{"accepted":%d,"rejected":[]}`, len(lines))
}

func TestRequestWithAKeyIsRetriedUntilAnsweredAndOnceMore(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	in := &intake{keys: map[string]int{}, records: map[string]bool{}, stop: stop}
	server := httptest.NewServer(in)
	defer server.Close()
	l := &load{
		journal: newJournal(3), urls: []string{server.URL}, project: "p", token: "t", rate: 100_000, kinds: []string{"logs", "events"}, seed: 1,
		odd: func(format string, arguments ...any) { t.Errorf(format, arguments...) },
	}
	if err := l.run(t.Context(), ctx); err != nil {
		t.Fatal(err)
	}
	records, _ := l.journal.totals()
	if records[accepted] != len(in.records) || records[refused]+records[unknown] != 0 {
		t.Errorf("journal %v, %d records came in", records, len(in.records))
	}
	if len(in.keys) == 0 {
		t.Error("no request had a key")
	}
	for key, attempts := range in.keys {
		if attempts != 3 {
			t.Errorf("%s was sent %d times: not once failed, once answered and once more", key, attempts)
		}
	}
}
