package parking

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func TestParkedConnectionIsAnsweredAgain(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]string{"small": "a", "larger than the server's buffers": strings.Repeat("long ", 50_000)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := open(t, Config{Wait: soon}, &http.Server{IdleTimeout: time.Hour, ReadHeaderTimeout: patience})
			h := s.dial(t)
			for round := range 5 {
				h.ask(t, body)
				s.parks(t, 1)
				if n := s.Stats(); n.Open != 1 || n.Returned != uint64(round) {
					t.Fatalf("round %d: %+v", round, n)
				}
			}
		})
	}
}

func TestRequestSentWhileItsConnectionIsBeingParkedIsAnswered(t *testing.T) {
	t.Parallel()
	s := open(t, Config{Wait: 1}, &http.Server{IdleTimeout: time.Hour, ReadHeaderTimeout: patience})
	var senders sync.WaitGroup
	for sender := range 20 {
		h := s.dial(t)
		senders.Go(func() {
			for i := range 300 {
				body := fmt.Sprintf("%d of %d", i, sender)
				if err := h.asks(body); err != nil {
					t.Errorf("request %s: %v", body, err)
					return
				}
			}
		})
	}
	senders.Wait()
	if n := s.Stats().Returned; n < 100 {
		t.Errorf("only %d times was a connection parked between two requests", n)
	}
}

func TestBytesReadAheadAreNotLost(t *testing.T) {
	t.Parallel()
	s, now := open(t, Config{Wait: soon}, &http.Server{IdleTimeout: time.Hour, ReadHeaderTimeout: patience}), clock(t)
	next := post("second")
	for ahead := range 40 { // of the second request, along with the first
		h := s.dial(t)
		h.send(t, post("first")+next[:ahead])
		h.hears(t, "first")
		if ahead <= 4 || ahead%13 == 0 {
			now.passes(t)
		}
		h.send(t, next[ahead:])
		h.hears(t, "second")
		h.Close()
	}
	h := s.dial(t)
	h.send(t, strings.Repeat(next, 10))
	for range 10 {
		h.hears(t, "second")
	}
	h.Close()
}

func TestRequestThatComesByteByByteIsAnswered(t *testing.T) {
	t.Parallel()
	s, now := open(t, Config{Wait: soon}, &http.Server{IdleTimeout: time.Hour, ReadHeaderTimeout: patience}), clock(t)
	h := s.dial(t)
	for _, parked := range []bool{false, true} {
		h.ask(t, "first")
		if parked {
			s.parks(t, 1)
		}
		next := post("second")
		for i := range 6 {
			h.send(t, next[i:i+1])
			if i%2 == 0 {
				now.passes(t)
			}
		}
		h.send(t, next[6:])
		h.hears(t, "second")
	}
}

func TestConnectionOfARequestUnderWayIsNotParked(t *testing.T) {
	t.Parallel()
	started, release := make(chan struct{}), make(chan struct{})
	server := &http.Server{IdleTimeout: time.Hour, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			close(started)
			<-release
			if err := r.Context().Err(); err != nil {
				t.Errorf("the request was given up: %v", err)
			}
		}
		echo(w, r)
	})}
	s, now := open(t, Config{Wait: soon}, server), clock(t)
	h := s.dial(t)
	h.ask(t, "fast")
	s.parks(t, 1)
	h.send(t, strings.Replace(post("slow"), "POST /", "POST /slow", 1))
	<-started
	now.passes(t)
	close(release)
	h.hears(t, "slow")
	s.parks(t, 1)
}

func TestTooManyThatWaitAreParkedAtOnce(t *testing.T) {
	t.Parallel()
	s := open(t, Config{Wait: time.Hour, Warm: 2}, &http.Server{IdleTimeout: 2 * time.Hour})
	for range 6 {
		s.dial(t).ask(t, "hello")
	}
	s.parks(t, 4)
}

func TestParkedConnectionsCountAsOpen(t *testing.T) {
	t.Parallel()
	s := open(t, Config{Wait: soon, MaxConnections: 2}, &http.Server{IdleTimeout: time.Hour})
	first, second, third := s.dial(t), s.dial(t), s.dial(t)
	first.ask(t, "first")
	second.ask(t, "second")
	s.parks(t, 2)
	third.send(t, post("third"))
	first.ask(t, "first again")
	s.parks(t, 2)
	if n := s.Stats(); n.Open != 2 {
		t.Fatalf("%d connections are open", n.Open)
	}
	second.Close()
	third.hears(t, "third")
}

func TestSlowHeadIsCutOffAfterParking(t *testing.T) {
	t.Parallel()
	s := open(t, Config{Wait: soon}, &http.Server{IdleTimeout: time.Hour, ReadHeaderTimeout: 100 * time.Millisecond})
	var h *host
	eventually(t, "a first head comes in time", func() bool {
		h = s.dial(t)
		return h.asks("hello") == nil
	})
	s.parks(t, 1)
	h.send(t, "POST / HTTP/1.1\r\n")
	h.hangsUp(t)
	eventually(t, "it is closed here", func() bool { return s.Stats().Open == 0 })
}

func TestIdleTimeoutClosesParkedConnections(t *testing.T) {
	t.Parallel()
	const timeout = 500 * time.Millisecond
	s := open(t, Config{Wait: soon}, &http.Server{IdleTimeout: timeout})
	hosts, idleFrom := make([]*host, 5), make([]time.Time, 5)
	for i := range hosts {
		hosts[i] = s.dial(t)
		idleFrom[i] = time.Now()
		hosts[i].ask(t, "hello")
	}
	for i, h := range hosts {
		if lived := h.hangsUp(t).Sub(idleFrom[i]); lived < timeout {
			t.Errorf("connection %d was closed after %s", i, lived)
		}
	}
	eventually(t, "all are closed here", func() bool { return s.Stats().Open == 0 })
}

func TestShortIdleTimeoutIsKept(t *testing.T) {
	t.Parallel()
	s := open(t, Config{Wait: time.Hour}, &http.Server{IdleTimeout: 50 * time.Millisecond})
	h := s.dial(t)
	h.ask(t, "hello")
	h.hangsUp(t)
}

func TestConnectionThatItsSenderLeavesIsClosed(t *testing.T) {
	t.Parallel()
	for name, leave := range map[string]func(h *host) error{
		"closed":      func(h *host) error { return h.Close() },
		"half-closed": func(h *host) error { return h.CloseWrite() },
		"reset": func(h *host) error {
			if err := h.SetLinger(0); err != nil {
				return err
			}
			return h.Close()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := open(t, Config{Wait: soon}, &http.Server{IdleTimeout: time.Hour})
			h := s.dial(t)
			h.ask(t, "hello")
			s.parks(t, 1)
			if err := leave(h); err != nil {
				t.Fatal(err)
			}
			eventually(t, "it is closed here", func() bool { return s.Stats() == Stats{} })
		})
	}
}

func TestLastRequestOfAHalfClosedConnectionIsAnswered(t *testing.T) {
	t.Parallel()
	s := open(t, Config{Wait: soon}, &http.Server{IdleTimeout: time.Hour})
	h := s.dial(t)
	h.ask(t, "hello")
	s.parks(t, 1)
	h.send(t, post("good-bye"))
	if err := h.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	h.hears(t, "good-bye")
	h.hangsUp(t)
}

func TestConnectionCloseIsHonoured(t *testing.T) {
	t.Parallel()
	s := open(t, Config{Wait: soon}, &http.Server{IdleTimeout: time.Hour})
	h := s.dial(t)
	h.ask(t, "hello")
	s.parks(t, 1)
	h.send(t, post("good-bye", "Connection: close"))
	h.hears(t, "good-bye")
	h.hangsUp(t)
}

func TestHijackedConnectionIsNotParked(t *testing.T) {
	t.Parallel()
	taken := make(chan net.Conn, 1)
	server := &http.Server{IdleTimeout: time.Hour, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/mine" {
			echo(w, r)
			return
		}
		c, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
		}
		taken <- c
	})}
	s, now := open(t, Config{Wait: soon}, server), clock(t)
	h := s.dial(t)
	h.ask(t, "hello")
	s.parks(t, 1)
	h.send(t, "GET /mine HTTP/1.1\r\nHost: x\r\n\r\n")
	c := <-taken
	defer c.Close()
	now.passes(t)
	h.send(t, "raw")
	got := make([]byte, 3)
	if _, err := io.ReadFull(c, got); err != nil || string(got) != "raw" {
		t.Fatalf("read %q, %v", got, err)
	}
}

func TestTLSConnectionIsNotParked(t *testing.T) {
	t.Parallel()
	var handled atomic.Int32
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		handled.Add(1)
		echo(w, r)
	}))
	lot, err := New(server.Listener, Config{MaxConnections: 10, Wait: soon})
	if err != nil {
		t.Fatal(err)
	}
	server.Listener, server.Config.ConnState = lot.Arrivals(), lot.Observe
	server.StartTLS()
	defer server.Close()
	now := clock(t)
	for range 3 {
		answer, err := server.Client().Post(server.URL, "text/plain", strings.NewReader("hello"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, answer.Body); err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		now.passes(t)
	}
	if n := lot.Stats(); n.Open != 1 || n.Parked != 0 || handled.Load() != 3 {
		t.Errorf("after %d requests: %+v", handled.Load(), n)
	}
}

func TestShutdownClosesParkedConnectionsAtOnce(t *testing.T) {
	t.Parallel()
	s := open(t, Config{Wait: soon}, &http.Server{IdleTimeout: time.Hour})
	hosts := make([]*host, 10)
	for i := range hosts {
		hosts[i] = s.dial(t)
		hosts[i].ask(t, "hello")
	}
	s.parks(t, len(hosts))
	s.shutDown(t)
	for _, h := range hosts {
		h.hangsUp(t)
	}
}

func TestFullPortStopsAcceptingAtOnce(t *testing.T) {
	t.Parallel()
	started, release := make(chan struct{}), make(chan struct{})
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		close(started)
		<-release
		echo(w, r)
	})}
	s := open(t, Config{MaxConnections: 1}, server)
	h := s.dial(t)
	h.send(t, post("slow"))
	<-started
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	for range cap(s.ended) {
		if err := <-s.ended; !errors.Is(err, net.ErrClosed) {
			t.Errorf("ended with %v", err)
		}
	}
	close(release)
	h.hears(t, "slow")
	for range cap(s.ended) {
		s.ended <- http.ErrServerClosed // as the end of the test expects
	}
}

func TestShutdownAnswersOrClosesWhatComesMeanwhile(t *testing.T) {
	t.Parallel()
	var handled atomic.Int32
	server := &http.Server{IdleTimeout: time.Hour, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		handled.Add(1)
		echo(w, r)
	})}
	s := open(t, Config{Wait: 1}, server)
	var senders sync.WaitGroup
	var answered atomic.Int32
	busy := make(chan struct{}, 20) // one of each sender
	for range cap(busy) {
		h := s.dial(t)
		senders.Go(func() {
			for i := 0; ; i++ {
				if err := h.asks("more"); err != nil {
					return
				}
				answered.Add(1)
				if i == 50 {
					busy <- struct{}{}
				}
			}
		})
	}
	for range cap(busy) {
		<-busy
	}
	s.shutDown(t)
	senders.Wait()
	if handled.Load() != answered.Load() {
		t.Errorf("%d requests were handled, %d answered", handled.Load(), answered.Load())
	}
}

func TestThousandConnectionsComeAndGo(t *testing.T) {
	before := openFiles(t)
	s := open(t, Config{Wait: soon, Warm: 100}, &http.Server{IdleTimeout: time.Hour, ReadHeaderTimeout: patience})
	const count, workers = 1000, 20
	hosts := make([]*host, count)
	all := func(work func(i int)) {
		var group sync.WaitGroup
		for worker := range workers {
			group.Go(func() {
				for i := worker; i < count; i += workers {
					work(i)
				}
			})
		}
		group.Wait()
	}
	for i := range hosts {
		hosts[i] = s.dial(t)
	}
	for range 3 {
		all(func(i int) {
			body := fmt.Sprint("I am ", i)
			if err := hosts[i].asks(body); err != nil {
				t.Error(err)
			}
		})
		s.parks(t, count)
	}
	for _, h := range hosts[:count/2] {
		h.Close()
	}
	s.parks(t, count/2)
	s.shutDown(t)
	for _, h := range hosts[count/2:] {
		h.Close()
	}
	eventually(t, "no file is left open", func() bool { return openFiles(t) <= before })
}

// openFiles is how many this process has. Tests that run beside would change
// it, so its callers are not parallel.
func openFiles(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

func TestOnlyTCPPortsHaveALot(t *testing.T) {
	t.Parallel()
	port, err := (&net.ListenConfig{}).Listen(context.Background(), "unix", filepath.Join(t.TempDir(), "port"))
	if err != nil {
		t.Fatal(err)
	}
	defer port.Close()
	if _, err := New(port, Config{MaxConnections: 1}); err == nil || !strings.Contains(err.Error(), "not a TCP port") {
		t.Fatalf("got %v", err)
	}
}
