package parking

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/logboom/logboom/pkg/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// patience is how long a test waits for what has to happen.
const patience = 60 * time.Second

// soon is a Wait of tests that want connections parked.
const soon = 10 * time.Millisecond

// site is a server behind a lot. Its handler gives bodies back.
type site struct {
	*Lot
	server *http.Server
	ended  chan error // two: of both listeners
}

// open serves a port of its own until the test ends.
func open(t testing.TB, cfg Config, server *http.Server) *site {
	t.Helper()
	port, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if cfg.MaxConnections == 0 {
		cfg.MaxConnections = 5000
	}
	lot, err := New(port, cfg)
	if err != nil {
		t.Fatal(err)
	}
	if server.Handler == nil {
		server.Handler = http.HandlerFunc(echo)
	}
	server.ConnState = lot.Observe
	s := &site{Lot: lot, server: server, ended: make(chan error, 2)}
	go func() { s.ended <- server.Serve(lot.Arrivals()) }()
	go func() { s.ended <- server.Serve(lot.Returns()) }()
	t.Cleanup(func() { s.shutDown(t) })
	return s
}

// shutDown ends the server; a second time does nothing.
func (s *site) shutDown(t testing.TB) {
	t.Helper()
	if s.ended == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := s.server.Shutdown(ctx); err != nil {
		t.Errorf("shut down: %v", err)
	}
	for range cap(s.ended) {
		if err := <-s.ended; !errors.Is(err, http.ErrServerClosed) {
			t.Errorf("the server ended with %v", err)
		}
	}
	s.ended = nil
	eventually(t, "all are closed after the end", func() bool { n := s.Stats(); return n.Open == 0 && n.Parked == 0 })
}

func echo(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil || r.Method != http.MethodPost { // a head that lost its first bytes has another method
		http.Error(w, fmt.Sprintf("%s: %v", r.Method, err), http.StatusBadRequest)
		return
	}
	_, _ = w.Write(body) // a sender that is gone is no matter here
}

// eventually waits until it holds.
func eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience) // of its own: clean-up waits too
	defer cancel()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("never: %s", what)
		}
	}
}

// parks waits until so many connections are parked.
func (s *site) parks(t testing.TB, n int) {
	t.Helper()
	eventually(t, fmt.Sprintf("%d connections are parked", n), func() bool { return s.Stats().Parked == n })
}

// clock is a site of its own, by which a test lets time pass.
func clock(t testing.TB) *site {
	t.Helper()
	return open(t, Config{Wait: 2 * soon}, &http.Server{IdleTimeout: time.Hour})
}

// passes lets more time pass than the Wait of tests: until a connection that
// is idle from now on is parked.
func (s *site) passes(t testing.TB) {
	t.Helper()
	h := s.dial(t)
	h.ask(t, "what time is it?")
	s.parks(t, 1)
	h.Close()
	s.parks(t, 0)
}

// host is a sender with one connection.
type host struct {
	*net.TCPConn
	answers *bufio.Reader
}

func (s *site) dial(t testing.TB) *host {
	t.Helper()
	c, err := net.Dial("tcp", s.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return &host{TCPConn: c.(*net.TCPConn), answers: bufio.NewReader(c)}
}

// post is a request, as sent.
func post(body string, header ...string) string {
	head := "POST / HTTP/1.1\r\nHost: x\r\n"
	for _, h := range header {
		head += h + "\r\n"
	}
	return fmt.Sprintf("%sContent-Length: %d\r\n\r\n%s", head, len(body), body)
}

func (h *host) send(t testing.TB, text string) {
	t.Helper()
	if err := h.writes(text); err != nil {
		t.Fatal(err)
	}
}

func (h *host) writes(text string) error {
	if err := h.SetDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	_, err := io.WriteString(h, text)
	return err
}

// hears reads the answer to a request with the body.
func (h *host) hears(t testing.TB, body string) {
	t.Helper()
	if err := h.answered(body); err != nil {
		t.Fatal(err)
	}
}

func (h *host) answered(body string) error {
	if err := h.SetDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	answer, err := http.ReadResponse(h.answers, nil)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	got, err := io.ReadAll(answer.Body)
	if err != nil || string(got) != body {
		return fmt.Errorf("answer of %d bytes, not %q: %w", len(got), body[:min(len(body), 20)], err)
	}
	return nil
}

func (h *host) ask(t testing.TB, body string) {
	t.Helper()
	if err := h.asks(body); err != nil {
		t.Fatal(err)
	}
}

func (h *host) asks(body string) error {
	if err := h.writes(post(body)); err != nil {
		return err
	}
	return h.answered(body)
}

// hangsUp waits until the server has closed the connection, and gives when.
func (h *host) hangsUp(t testing.TB) time.Time {
	t.Helper()
	if err := h.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	rest, err := io.ReadAll(h.answers)
	if err != nil && !strings.Contains(err.Error(), "reset by peer") || len(rest) > 0 {
		t.Fatalf("the server did not hang up: %q, %v", rest, err)
	}
	return time.Now()
}
