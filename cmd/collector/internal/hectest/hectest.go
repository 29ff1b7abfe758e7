// Package hectest is a server for tests of the collector. It stores events as
// Logboom does, stores the body of a repeated key only once, and fails on
// request.
package hectest

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// patience bounds every wait. A sender may pause for half a minute between two
// attempts, and the machine may be busy.
const patience = 3 * time.Minute

// Event is one stored event.
type Event struct {
	Event struct {
		Line   string            `json:"line"`
		Source string            `json:"source"`
		Tag    string            `json:"tag"`
		Attrs  map[string]string `json:"attrs"`
	} `json:"event"`
	Time string `json:"time"`
	Host string `json:"host"`
}

// Request is one request, with its body decompressed.
type Request struct {
	Header http.Header
	Key    string
	Body   []byte
}

// Server is the server.
type Server struct {
	*httptest.Server
	t testing.TB

	mu     sync.Mutex
	answer func(n int, r Request) (status int, header map[string]string)
	stored map[string][]byte // the stored bodies by key
	sent   map[string][]byte // all bodies ever sent, by key
	events []Event
	count  int           // requests since Answer was called
	change chan struct{} // closed and replaced at each request
}

// New starts a server that accepts everything.
func New(t testing.TB) *Server {
	s := &Server{t: t, stored: map[string][]byte{}, sent: map[string][]byte{}, change: make(chan struct{})}
	s.Server = httptest.NewServer(http.HandlerFunc(s.serve))
	t.Cleanup(s.Server.Close)
	return s
}

// Answer sets the function that chooses the answer to the n-th request, counted
// from 0 since this call; nil always answers 200. A status of 200 stores the
// body. A status of 0 stores the body and breaks the connection.
func (s *Server) Answer(answer func(n int, r Request) (status int, header map[string]string)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answer, s.count = answer, 0
}

func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	compressed, err := io.ReadAll(r.Body)
	if err != nil {
		return // the sender was killed or left before the body was complete
	}
	body, err := decompress(r.Header.Get("Content-Encoding"), compressed)
	if err != nil {
		s.t.Errorf("body: %v", err)
		return
	}
	status, header := s.handle(Request{r.Header, r.Header.Get("Idempotency-Key"), body}, r.URL.Path)
	for name, value := range header {
		w.Header().Set(name, value)
	}
	if status == 0 {
		panic(http.ErrAbortHandler)
	}
	w.WriteHeader(status)
	_, _ = w.Write([]byte(`{"text":"chosen by the test","code":0}`)) // it fails only if the sender is gone
}

func (s *Server) handle(r Request, path string) (status int, header map[string]string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer func() { close(s.change); s.change = make(chan struct{}) }()
	status = http.StatusOK
	if s.answer != nil {
		status, header = s.answer(s.count, r)
	}
	s.count++
	if path != "/services/collector/event/1.0" || r.Key == "" || len(r.Key) > 128 {
		s.t.Errorf("path %q, key %q", path, r.Key)
	}
	if before, ok := s.sent[r.Key]; ok && !bytes.Equal(before, r.Body) {
		s.t.Errorf("key %s was repeated with another body", r.Key)
	}
	s.sent[r.Key] = r.Body
	if status != http.StatusOK && status != 0 || s.stored[r.Key] != nil {
		return status, header
	}
	s.stored[r.Key] = r.Body
	s.store(r.Body)
	return status, header
}

func (s *Server) store(body []byte) {
	decoder := json.NewDecoder(bytes.NewReader(body))
	for {
		var e Event
		err := decoder.Decode(&e)
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			s.t.Errorf("event: %v", err)
			return
		}
		s.events = append(s.events, e)
	}
}

func decompress(encoding string, body []byte) ([]byte, error) {
	switch encoding {
	case "gzip":
		reader, err := gzip.NewReader(bytes.NewReader(body))
		if err != nil {
			return nil, err
		}
		return io.ReadAll(reader)
	case "zstd":
		reader, err := zstd.NewReader(bytes.NewReader(body))
		if err != nil {
			return nil, err
		}
		defer reader.Close()
		return io.ReadAll(reader)
	}
	return body, nil
}

// Events returns the stored events in the order of their arrival.
func (s *Server) Events() []Event {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Event(nil), s.events...)
}

// Await waits until accept returns true for the stored events, and returns them.
func (s *Server) Await(what string, accept func([]Event) bool) []Event {
	s.t.Helper()
	return s.await(what, func() bool { return accept(s.events) })
}

// AwaitRequests waits until n requests have come since Answer was called.
func (s *Server) AwaitRequests(n int) {
	s.t.Helper()
	s.await("requests", func() bool { return s.count >= n })
}

func (s *Server) await(what string, accept func() bool) []Event {
	s.t.Helper()
	deadline := time.After(patience)
	for {
		s.mu.Lock()
		ok, events, change, count := accept(), append([]Event(nil), s.events...), s.change, s.count
		s.mu.Unlock()
		if ok {
			return events
		}
		select {
		case <-change:
		case <-deadline:
			s.t.Fatalf("not within %s: %s; %d events of %d requests", patience, what, len(events), count)
		}
	}
}
