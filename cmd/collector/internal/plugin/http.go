package plugin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/logboom/logboom/cmd/collector/internal/delivery"
	"github.com/logboom/logboom/pkg/telemetry"
)

const (
	// maxRequest bounds a request of dockerd, in bytes. A request holds a
	// container's whole environment and all its labels.
	maxRequest = 16 << 20

	headerTimeout = 5 * time.Second
	bodyTimeout   = time.Minute
)

// Handler returns the handler of dockerd's requests, and of GET /status and
// GET /metrics for people.
func (s *Service) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /Plugin.Activate", func(w http.ResponseWriter, _ *http.Request) {
		respond(w, map[string][]string{"Implements": {"LogDriver"}})
	})
	mux.HandleFunc("POST /LogDriver.Capabilities", func(w http.ResponseWriter, _ *http.Request) {
		respond(w, map[string]any{"Cap": map[string]bool{"ReadLogs": false}}) // dockerd answers "docker logs" from its own cache
	})
	mux.HandleFunc("POST /LogDriver.StartLogging", s.startLogging)
	mux.HandleFunc("POST /LogDriver.StopLogging", s.stopLogging)
	mux.HandleFunc("GET /status", func(w http.ResponseWriter, _ *http.Request) { respond(w, s.Status()) })
	mux.Handle("GET /metrics", promhttp.HandlerFor(s.registry, promhttp.HandlerOpts{}))
	return mux
}

func (s *Service) startLogging(w http.ResponseWriter, r *http.Request) {
	var request struct {
		File string
		Info Info
	}
	err := decode(w, r, &request)
	if err == nil {
		err = s.Start(request.File, request.Info)
	}
	if err != nil {
		s.logger.Warn("log not opened", "container", request.Info.ContainerID, "err", err)
	}
	respondError(w, err)
}

func (s *Service) stopLogging(w http.ResponseWriter, r *http.Request) {
	var request struct{ File string }
	err := decode(w, r, &request)
	if err == nil {
		s.Stop(request.File)
	}
	respondError(w, err)
}

// decode decodes a request. Its error shows nothing of the body, which holds the
// container's environment.
func decode(w http.ResponseWriter, r *http.Request, into any) error {
	err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxRequest)).Decode(into)
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return fmt.Errorf("%s: the request is larger than %d bytes", r.URL.Path, maxRequest)
	case err != nil:
		return fmt.Errorf("%s: the request is not JSON of the expected form", r.URL.Path)
	}
	return nil
}

// respondError sends the protocol's answer: always 200, with the error in the
// body.
func respondError(w http.ResponseWriter, err error) {
	var answer struct{ Err string }
	if err != nil {
		answer.Err = err.Error()
	}
	respond(w, answer)
}

func respond(w http.ResponseWriter, value any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(value) // it fails only if the client is gone
}

// Listen opens the socket. It first removes a socket that a killed process left
// behind.
func Listen(socket string) (net.Listener, error) {
	if err := os.MkdirAll(filepath.Dir(socket), 0o755); err != nil {
		return nil, fmt.Errorf("socket: %w", err)
	}
	if conn, err := net.Dial("unix", socket); err == nil {
		conn.Close() // it was only a test
		return nil, fmt.Errorf("socket %s: another process is listening", socket)
	}
	if err := os.Remove(socket); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("socket: %w", err)
	}
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return nil, fmt.Errorf("socket: %w", err)
	}
	if err := os.Chmod(socket, 0o600); err != nil {
		return nil, errors.Join(fmt.Errorf("socket: %w", err), listener.Close())
	}
	return listener, nil
}

// Serve serves requests on the socket until ctx ends.
func (s *Service) Serve(ctx context.Context, listener net.Listener) error {
	server := &http.Server{Handler: s.Handler(), ReadHeaderTimeout: headerTimeout, ReadTimeout: bodyTimeout, IdleTimeout: 2 * bodyTimeout}
	return telemetry.Serve(ctx, server, listener, time.Second)
}

// Status is the body of GET /status. It contains no token.
type Status struct {
	Version  string           `json:"version"`
	Spool    SpoolStatus      `json:"spool"`
	Routes   []delivery.State `json:"routes"`
	Sessions []SessionStatus  `json:"sessions"`
}

// SpoolStatus says how full the spool is.
type SpoolStatus struct {
	Bytes    int64 `json:"bytes"`
	MaxBytes int64 `json:"max_bytes"`
}

// SessionStatus is the state of a container's log.
type SessionStatus struct {
	Container string `json:"container"`
	Name      string `json:"name"`
	Tag       string `json:"tag"`
	Address   string `json:"address"`
	Ended     bool   `json:"over"`          // the container has ended; the rest is being delivered
	Read      int64  `json:"read_bytes"`    // from the FIFO, in total
	Pending   int64  `json:"waiting_bytes"` // in the spool, not delivered
}

// Status returns the current state.
func (s *Service) Status() Status {
	status := Status{
		Version: telemetry.Version(), Spool: SpoolStatus{s.spool.Bytes(), s.spool.MaxBytes()},
		Routes: s.routes.States(), Sessions: []SessionStatus{},
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, session := range s.sessions {
		pending, ended := session.stream.Pending()
		a := session.about
		status.Sessions = append(status.Sessions, SessionStatus{a.shortID(), a.Name, a.Origin.Tag, a.Destination.URL, ended, session.stream.End(), pending})
	}
	slices.SortFunc(status.Sessions, func(a, b SessionStatus) int { return strings.Compare(a.Container, b.Container) })
	return status
}
