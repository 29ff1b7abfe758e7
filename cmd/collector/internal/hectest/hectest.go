// Package hectest is the receiving end for tests: a server that takes events
// as Logboom does, stores a repeated key once, and can be told to fail.
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

// patience bounds every wait: a sender may pause for half a minute between two
// attempts, and many may share a busy machine.
const patience = 3 * time.Minute

// Event is one event as it was sent.
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

// Request is one request as it was sent, its body unpacked.
type Request struct {
	Header http.Header
	Key    string
	Body   []byte
}

// Server takes events.
type Server struct {
	*httptest.Server
	t testing.TB

	mu     sync.Mutex
	answer func(n int, r Request) (status int, header map[string]string)
	keys   map[string][]byte // body by key of what was stored
	first  map[string][]byte // body by key of what was ever sent
	events []Event
	seen   int
	change chan struct{} // closed and replaced with each request
}

// New starts one that takes everything.
func New(t testing.TB) *Server {
	s := &Server{t: t, keys: map[string][]byte{}, first: map[string][]byte{}, change: make(chan struct{})}
	s.Server = httptest.NewServer(http.HandlerFunc(s.serve))
	t.Cleanup(s.Server.Close)
	return s
}

// Answer makes the server answer as told, from the n-th request on, counted
// from 0; a status of 200 stores what came. nil: 200 always. A status of 0
// stores what came and breaks the connection.
func (s *Server) Answer(answer func(n int, r Request) (status int, header map[string]string)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answer, s.seen = answer, 0
}

func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	packed, err := io.ReadAll(r.Body)
	if err != nil {
		return // the sender was killed, or went, in the middle of it: nothing came
	}
	body, err := unpacked(r.Header.Get("Content-Encoding"), packed)
	if err != nil {
		s.t.Errorf("body: %v", err)
		return
	}
	status, header := s.take(Request{r.Header, r.Header.Get("Idempotency-Key"), body}, r.URL.Path)
	for name, value := range header {
		w.Header().Set(name, value)
	}
	if status == 0 {
		panic(http.ErrAbortHandler)
	}
	w.WriteHeader(status)
	_, _ = w.Write([]byte(`{"text":"told by the test","code":0}`)) // the sender may have gone
}

func (s *Server) take(r Request, path string) (status int, header map[string]string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer func() { close(s.change); s.change = make(chan struct{}) }()
	status = http.StatusOK
	if s.answer != nil {
		status, header = s.answer(s.seen, r)
	}
	s.seen++
	if path != "/services/collector/event/1.0" || r.Key == "" || len(r.Key) > 128 {
		s.t.Errorf("path %q, key %q", path, r.Key)
	}
	if before, ok := s.first[r.Key]; ok && !bytes.Equal(before, r.Body) {
		s.t.Errorf("key %s came with another body", r.Key)
	}
	s.first[r.Key] = r.Body
	if status != http.StatusOK && status != 0 || s.keys[r.Key] != nil {
		return status, header
	}
	s.keys[r.Key] = r.Body
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

func unpacked(encoding string, body []byte) ([]byte, error) {
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

// Events are what is stored, in the order in which it came.
func (s *Server) Events() []Event {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Event(nil), s.events...)
}

// Await waits until what is stored is accepted.
func (s *Server) Await(what string, accept func([]Event) bool) []Event {
	s.t.Helper()
	return s.await(what, func() bool { return accept(s.events) })
}

// AwaitRequests waits until so many requests came since Answer was called.
func (s *Server) AwaitRequests(n int) {
	s.t.Helper()
	s.await("requests", func() bool { return s.seen >= n })
}

func (s *Server) await(what string, accept func() bool) []Event {
	s.t.Helper()
	deadline := time.After(patience)
	for {
		s.mu.Lock()
		ok, events, change, seen := accept(), append([]Event(nil), s.events...), s.change, s.seen
		s.mu.Unlock()
		if ok {
			return events
		}
		select {
		case <-change:
		case <-deadline:
			s.t.Fatalf("not within %s: %s; %d events of %d requests", patience, what, len(events), seen)
		}
	}
}
