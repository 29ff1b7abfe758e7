package telemetry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// checkTimeout bounds all readiness checks of one request together, so that a probe
// gets an answer before its own timeout.
const checkTimeout = 900 * time.Millisecond

// Health answers whether a process is alive and whether it is ready.
type Health struct {
	starting atomic.Bool // until every part runs; the parts add their checks one by one
	draining atomic.Bool
	mu       sync.Mutex
	checks   []check
}

type check struct {
	name string
	ask  func(context.Context) error
}

// Add registers a readiness check. Its error is shown to every client and must not
// contain a secret.
func (h *Health) Add(name string, ask func(context.Context) error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.checks = append(slices.Clone(h.checks), check{name, ask})
}

// Drain makes the process unready, because it is about to stop.
func (h *Health) Drain() { h.draining.Store(true) }

// Draining reports whether Drain was called.
func (h *Health) Draining() bool { return h.draining.Load() }

// report is the answer of /readyz and /livez.
type report struct {
	Status string            `json:"status"` // ready, draining or unready
	Checks map[string]string `json:"checks"` // "ok", or an error
}

// ready runs every check.
func (h *Health) ready(ctx context.Context) (report, bool) {
	h.mu.Lock()
	checks := h.checks
	h.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	answer := report{Status: "ready", Checks: make(map[string]string, len(checks))}
	for _, c := range checks {
		answer.Checks[c.name] = "ok"
		if err := c.ask(ctx); err != nil {
			answer.Status, answer.Checks[c.name] = "unready", err.Error()
		}
	}
	if h.starting.Load() {
		answer.Status, answer.Checks["start"] = "unready", "not all parts are running yet"
	}
	if h.Draining() {
		answer.Status = "draining"
	}
	return answer, answer.Status == "ready"
}

// Ready returns nil if every check passes, or else the first error with the name of
// its check.
func (h *Health) Ready(ctx context.Context) error {
	answer, ok := h.ready(ctx)
	if ok {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(answer.Checks)) {
		if text := answer.Checks[name]; text != "ok" {
			return fmt.Errorf("%s: %s", name, text)
		}
	}
	return errors.New(answer.Status)
}

// Livez answers 200 for as long as the process can answer.
func (h *Health) Livez(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, report{Status: "alive", Checks: map[string]string{}})
}

// Readyz answers 200 if every check passes, and otherwise 503, with all checks.
func (h *Health) Readyz(w http.ResponseWriter, r *http.Request) {
	answer, ok := h.ready(r.Context())
	status := http.StatusOK
	if !ok {
		status = http.StatusServiceUnavailable
	}
	writeJSON(w, status, answer)
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	// A client that goes away does not matter to a health check.
	_ = json.NewEncoder(w).Encode(v)
}

// Stopped returns nil if troubles is empty, or else one error for a readiness check.
// troubles holds, by name, why something is stopped.
func Stopped(troubles map[string]error) error {
	if len(troubles) == 0 {
		return nil
	}
	var texts []string
	for _, name := range slices.Sorted(maps.Keys(troubles)) {
		texts = append(texts, fmt.Sprintf("%s is stopped: %v", name, troubles[name]))
	}
	return errors.New(strings.Join(texts, "; "))
}
