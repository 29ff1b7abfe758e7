package ship

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/logboom/logboom/cmd/collector/internal/option"
)

const (
	// benches is how many batches of one route are under way at once, and so
	// how many bodies are in memory.
	benches   = 4
	maxFile   = 64 << 10 // a token file is a line, a CA file a few kilobytes
	idleConns = 90 * time.Second
)

// Patience is how long a route waits for what. Zero values are the defaults.
type Patience struct {
	Attempt time.Duration // for an answer: 30 s
	Least   time.Duration // after the first failure: 0.5 s, then twice as long each time
	Most    time.Duration // after many: 30 s
	Refused time.Duration // after an answer that only an operator can cure, such as 401: 30 s
	Longest time.Duration // that an answer's Retry-After is believed: 5 min
}

func (p *Patience) setDefaults() {
	for _, d := range []struct {
		value    *time.Duration
		standard time.Duration
	}{
		{&p.Attempt, 30 * time.Second}, {&p.Least, 500 * time.Millisecond}, {&p.Most, 30 * time.Second},
		{&p.Refused, 30 * time.Second}, {&p.Longest, 5 * time.Minute},
	} {
		if *d.value == 0 {
			*d.value = d.standard
		}
	}
}

// Route is the way to one destination, shared by all senders that have it.
type Route struct {
	to       option.Destination
	patience Patience
	logger   *slog.Logger
	metrics  *Metrics
	free     chan *bench // benches: one for each batch that may be under way

	mu       sync.Mutex
	client   *http.Client // nil until the CA file could be read
	until    time.Time    // no attempt before
	failures int          // in a row
	reason   string       // of the last failure, empty while all is well
}

func newRoute(to option.Destination, patience Patience, logger *slog.Logger, metrics *Metrics) *Route {
	r := &Route{to: to, patience: patience, logger: logger.With("address", to.URL), metrics: metrics, free: make(chan *bench, benches)}
	for range benches {
		r.free <- &bench{packer: newPacker(to.Compression)}
	}
	return r
}

// Check fails where the options name a file that cannot be used. It does not
// touch the network.
func (r *Route) Check() error {
	if _, err := r.token(); err != nil {
		return fmt.Errorf("log option %s: %w", option.TokenFile, err)
	}
	if _, err := r.httpClient(); err != nil {
		return fmt.Errorf("log option %s: %w", option.CA, err)
	}
	return nil
}

// token is read for every attempt, so that a new one in the file is used.
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
			return nil, fmt.Errorf("%s holds no certificate in PEM form", r.to.CA)
		}
	}
	r.client = &http.Client{
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }, // a token goes nowhere else
		Transport: &http.Transport{
			DialContext:         (&net.Dialer{Timeout: r.patience.Attempt}).DialContext,
			TLSClientConfig:     config,
			TLSHandshakeTimeout: r.patience.Attempt,
			MaxConnsPerHost:     benches,
			MaxIdleConnsPerHost: benches,
			IdleConnTimeout:     idleConns,
			DisableCompression:  true,
		},
	}
	return r.client, nil
}

// take waits until an attempt may be made and gives the bench to make it on.
func (r *Route) take(ctx context.Context) (*bench, error) {
	var b *bench
	select {
	case b = <-r.free:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	for {
		r.mu.Lock()
		wait := time.Until(r.until)
		r.mu.Unlock()
		if wait <= 0 {
			return b, nil
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			r.give(b)
			return nil, ctx.Err()
		}
	}
}

func (r *Route) give(b *bench) { r.free <- b }

// failed makes the route pause: as long as it was told, or at least least and
// longer each time. Only a change is logged.
func (r *Route) failed(reason, detail string, least, told time.Duration) {
	r.metrics.failures.WithLabelValues(reason).Inc()
	r.mu.Lock()
	defer r.mu.Unlock()
	if time.Now().Before(r.until) && r.reason == reason {
		return // attempts that were under way together are one failure
	}
	pause := told
	if pause == 0 {
		pause = max(least, min(r.patience.Most, least<<min(r.failures, 16)))
		pause -= time.Duration(rand.Int64N(int64(pause)/4 + 1)) // so that hosts do not come back together
	}
	r.failures++
	r.until = time.Now().Add(pause)
	if r.reason != reason {
		r.reason = reason
		r.logger.Warn("lines could not be delivered", "reason", reason, "err", detail, "retry", pause)
	}
}

func (r *Route) succeeded() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.reason != "" {
		r.logger.Info("lines are delivered again", "failures", r.failures)
	}
	r.until, r.failures, r.reason = time.Time{}, 0, ""
}

// State is how a route does.
type State struct {
	Address string    `json:"address"`
	Reason  string    `json:"reason,omitempty"` // of the last failure, empty while all is well
	Until   time.Time `json:"paused_until,omitzero"`
}

// State is the present one.
func (r *Route) State() State {
	r.mu.Lock()
	defer r.mu.Unlock()
	return State{r.to.URL, r.reason, r.until}
}

// close lets go of the connections.
func (r *Route) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.client != nil {
		r.client.CloseIdleConnections()
	}
}
