package delivery

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/logboom/logboom/cmd/collector/internal/option"
)

const (
	// maxConcurrent is how many batches of one route are sent at once, and so
	// how many bodies are in memory.
	maxConcurrent = 4
	maxFile       = 64 << 10 // a token file is one line, a CA file a few kilobytes
	idleConns     = 90 * time.Second
)

// Timing holds the timeouts and pauses of a route. Zero values mean the
// defaults.
type Timing struct {
	Timeout       time.Duration // of an attempt. Default 30 s
	MinPause      time.Duration // after the first failure; it doubles with each further one. Default 0.5 s
	MaxPause      time.Duration // the longest such pause. Default 30 s
	RefusedPause  time.Duration // the least pause after an answer that only an operator can remedy, such as 401. Default 30 s
	MaxRetryAfter time.Duration // the longest Retry-After that is obeyed. Default 5 min
}

func (t *Timing) setDefaults() {
	for _, d := range []struct {
		value    *time.Duration
		standard time.Duration
	}{
		{&t.Timeout, 30 * time.Second}, {&t.MinPause, 500 * time.Millisecond}, {&t.MaxPause, 30 * time.Second},
		{&t.RefusedPause, 30 * time.Second}, {&t.MaxRetryAfter, 5 * time.Minute},
	} {
		if *d.value == 0 {
			*d.value = d.standard
		}
	}
}

// Routes holds one route for each destination that is in use.
type Routes struct {
	timing  Timing
	logger  *slog.Logger
	metrics *Metrics

	mu     sync.Mutex
	routes map[option.Destination]*Route
}

// NewRoutes returns an empty set of routes.
func NewRoutes(timing Timing, logger *slog.Logger, metrics *Metrics) *Routes {
	timing.setDefaults()
	return &Routes{timing: timing, logger: logger, metrics: metrics, routes: map[option.Destination]*Route{}}
}

// Acquire returns the route to a destination. The caller releases it.
func (rs *Routes) Acquire(to option.Destination) *Route {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	r := rs.routes[to]
	if r == nil {
		r = newRoute(to, rs.timing, rs.logger, rs.metrics)
		rs.routes[to] = r
	}
	r.users++
	return r
}

// Release ends one use of a route. The last release closes its connections.
func (rs *Routes) Release(r *Route) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if r.users--; r.users > 0 {
		return
	}
	delete(rs.routes, r.to)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.client != nil {
		r.client.CloseIdleConnections()
	}
}

// States returns the states of all routes.
func (rs *Routes) States() []State {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	states := make([]State, 0, len(rs.routes))
	for _, r := range rs.routes {
		r.mu.Lock()
		states = append(states, State{r.to.URL, r.reason, r.pausedUntil})
		r.mu.Unlock()
	}
	return states
}

// State is the state of a route, as the status page shows it.
type State struct {
	Address     string    `json:"address"`
	Reason      string    `json:"reason,omitempty"` // of the last failure; empty if the last attempt succeeded
	PausedUntil time.Time `json:"paused_until,omitzero"`
}

// Route sends batches to one destination. All senders with that destination
// share it.
type Route struct {
	to      option.Destination
	timing  Timing
	logger  *slog.Logger
	metrics *Metrics
	free    chan *builder // one builder for each batch that may be sent at once
	users   int           // guarded by Routes.mu

	mu          sync.Mutex
	client      *http.Client // nil until the CA file was read
	pausedUntil time.Time
	backoff     *backoff.ExponentialBackOff
	failures    int    // since the last success
	reason      string // of the last failure; empty after a success
}

func newRoute(to option.Destination, timing Timing, logger *slog.Logger, metrics *Metrics) *Route {
	r := &Route{
		to: to, timing: timing, logger: logger.With("address", to.URL), metrics: metrics, free: make(chan *builder, maxConcurrent),
		backoff: &backoff.ExponentialBackOff{InitialInterval: timing.MinPause, Multiplier: 2, RandomizationFactor: 0.25, MaxInterval: timing.MaxPause},
	}
	for range maxConcurrent {
		r.free <- &builder{compress: newCompressor(to.Compression)}
	}
	return r
}

// Check returns an error if an option names a file that cannot be used. It does
// not use the network.
func (r *Route) Check() error {
	if _, err := r.token(); err != nil {
		return fmt.Errorf("log option %s: %w", option.TokenFile, err)
	}
	if _, err := r.httpClient(); err != nil {
		return fmt.Errorf("log option %s: %w", option.CA, err)
	}
	return nil
}

// token returns the token. It reads a token file each time, so that a new token
// in the file is used at once.
func (r *Route) token() (string, error) {
	if r.to.TokenFile == "" {
		return r.to.Token, nil
	}
	text, err := readFile(r.to.TokenFile)
	if err != nil {
		return "", err
	}
	token := strings.TrimSpace(string(text))
	return token, option.CheckToken(token)
}

func readFile(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	if err == nil && len(text) > maxFile {
		err = fmt.Errorf("%s is larger than %d bytes", path, maxFile)
	}
	return text, err
}

func (r *Route) httpClient() (*http.Client, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.client != nil {
		return r.client, nil
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: r.to.Insecure}
	if r.to.CA != "" {
		text, err := readFile(r.to.CA)
		if err != nil {
			return nil, err
		}
		if config.RootCAs = x509.NewCertPool(); !config.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("%s contains no certificate in PEM form", r.to.CA)
		}
	}
	r.client = &http.Client{
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }, // a token is sent to no other address
		Transport: &http.Transport{
			DialContext:         (&net.Dialer{Timeout: r.timing.Timeout}).DialContext,
			TLSClientConfig:     config,
			TLSHandshakeTimeout: r.timing.Timeout,
			MaxConnsPerHost:     maxConcurrent,
			MaxIdleConnsPerHost: maxConcurrent,
			IdleConnTimeout:     idleConns,
			DisableCompression:  true,
		},
	}
	return r.client, nil
}

// acquire waits until a batch may be sent and returns the builder to build it
// with. The caller releases the builder.
func (r *Route) acquire(ctx context.Context) (*builder, error) {
	var b *builder
	select {
	case b = <-r.free:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	for {
		r.mu.Lock()
		wait := time.Until(r.pausedUntil)
		r.mu.Unlock()
		if wait <= 0 {
			return b, nil
		}
		if err := sleep(ctx, wait); err != nil {
			r.release(b)
			return nil, err
		}
	}
}

func (r *Route) release(b *builder) { r.free <- b }

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// fail pauses the route after a failed attempt: for retryAfter if the server
// asked for it, else for the next backoff, at least minPause. It logs only the
// first of several failures with the same reason.
func (r *Route) fail(reason, detail string, minPause, retryAfter time.Duration) {
	r.metrics.failures.WithLabelValues(reason).Inc()
	r.mu.Lock()
	defer r.mu.Unlock()
	if time.Now().Before(r.pausedUntil) && r.reason == reason {
		return // attempts that were made at once count as one failure
	}
	pause := retryAfter
	if pause == 0 {
		pause = max(minPause, r.backoff.NextBackOff())
	}
	r.failures++
	r.pausedUntil = time.Now().Add(pause)
	if r.reason != reason {
		r.reason = reason
		r.logger.Warn("lines not delivered", "reason", reason, "err", detail, "retry", pause)
	}
}

func (r *Route) succeed() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.reason != "" {
		r.logger.Info("lines delivered again", "failures", r.failures)
	}
	r.pausedUntil, r.failures, r.reason = time.Time{}, 0, ""
	r.backoff.Reset()
}
