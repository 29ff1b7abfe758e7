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
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/logboom/logboom/pkg/telemetry"
)

const (
	// maxRequest bounds what dockerd may say: a container's whole environment
	// and all its labels are in it.
	maxRequest = 16 << 20

	headerTimeout = 5 * time.Second
	bodyTimeout   = time.Minute
)

// Handler answers dockerd, and GET /status and /metrics for people.
func (s *Service) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /Plugin.Activate", func(w http.ResponseWriter, _ *http.Request) {
		respond(w, map[string][]string{"Implements": {"LogDriver"}})
	})
	mux.HandleFunc("POST /LogDriver.Capabilities", func(w http.ResponseWriter, _ *http.Request) {
		respond(w, map[string]any{"Cap": map[string]bool{"ReadLogs": false}}) // docker logs is answered from dockerd's own cache
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
	err := read(w, r, &request)
	if err == nil {
		err = s.Start(request.File, request.Info)
	}
	if err != nil {
		s.logger.Warn("log not opened", "container", request.Info.ContainerID, "err", err)
	}
	result(w, err)
}

func (s *Service) stopLogging(w http.ResponseWriter, r *http.Request) {
	var request struct{ File string }
	err := read(w, r, &request)
	if err == nil {
		s.Stop(request.File)
	}
	result(w, err)
}

// read decodes a request. Its error shows nothing of the body, which holds the
// container's variables.
func read(w http.ResponseWriter, r *http.Request, into any) error {
	err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxRequest)).Decode(into)
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return fmt.Errorf("%s: the request is larger than %d bytes", r.URL.Path, maxRequest)
	case err != nil:
		return fmt.Errorf("%s: the request is no JSON of the right form", r.URL.Path)
	}
	return nil
}

// result is the protocol's answer: 200 always, the error in the body.
func result(w http.ResponseWriter, err error) {
	var answer struct{ Err string }
	if err != nil {
		answer.Err = err.Error()
	}
	respond(w, answer)
}

func respond(w http.ResponseWriter, value any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(value) // the other side has gone: nobody to tell
}

// Listen opens the socket, and removes what a killed process has left there.
func Listen(socket string) (net.Listener, error) {
	if err := os.MkdirAll(filepath.Dir(socket), 0o755); err != nil {
		return nil, fmt.Errorf("socket: %w", err)
	}
	if conn, err := net.Dial("unix", socket); err == nil {
		conn.Close() // only tried
		return nil, fmt.Errorf("socket %s: another process answers there", socket)
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

// Serve answers on the socket until ctx ends.
func (s *Service) Serve(ctx context.Context, listener net.Listener) error {
	server := &http.Server{Handler: s.Handler(), ReadHeaderTimeout: headerTimeout, ReadTimeout: bodyTimeout, IdleTimeout: 2 * bodyTimeout}
	return telemetry.Serve(ctx, server, listener, time.Second)
}
