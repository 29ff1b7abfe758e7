package embedded_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/logboom/logboom/pkg/embedded"
)

// watch runs Watch until the test ends.
func watch(t *testing.T, n *embedded.NATS, cfg embedded.CanaryConfig) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1) // capacity 1: Watch returns once
	go func() { done <- n.Watch(ctx, cfg) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func TestRestartKeepsPortMessagesAndConnections(t *testing.T) {
	t.Parallel()
	n := start(t, fixedPort(t))
	addr := n.Addr()
	for name, options := range map[string][]nats.Option{"memory": {n.InProcess()}, "socket": nil} {
		js, reconnected := reconnecting(t, n, options...)
		if _, err := js.CreateOrUpdateStream(testContext(t), jetstream.StreamConfig{Name: name, Subjects: []string{name}}); err != nil {
			t.Fatal(err)
		}
		for _, want := range []uint64{1, 2} {
			ack, err := js.Publish(testContext(t), name, []byte("kept"))
			if err != nil || ack.Sequence != want {
				t.Fatalf("%s: got %+v, %v; want sequence %d", name, ack, err, want)
			}
			if want == 2 {
				break
			}
			if err := n.Restart(testContext(t)); err != nil {
				t.Fatal(err)
			}
			receive(t, reconnected, "the connection by "+name+" is restored")
		}
	}
	if n.Addr() != addr || n.Restarts() != 2 {
		t.Errorf("the server is at %s after %d restarts, want %s after 2", n.Addr(), n.Restarts(), addr)
	}
}

// reconnecting returns a connection that reconnects however long that takes, and
// a channel that receives a value after it has reconnected.
func reconnecting(t *testing.T, n *embedded.NATS, options ...nats.Option) (jetstream.JetStream, <-chan struct{}) {
	t.Helper()
	reconnected := make(chan struct{}, 1) // capacity 1: whether it reconnected, not how often
	options = append(options, nats.Timeout(attempt), nats.MaxReconnects(-1), nats.ReconnectWait(10*time.Millisecond), nats.ReconnectHandler(func(*nats.Conn) {
		select {
		case reconnected <- struct{}{}:
		default:
		}
	}))
	return connect(t, n.URL(), options...), reconnected
}

func TestRestartAfterStopIsRefused(t *testing.T) {
	t.Parallel()
	n := start(t, embedded.NATSConfig{DataDir: t.TempDir()})
	stop(t, n)
	if err := n.Restart(testContext(t)); err == nil {
		t.Error("Restart started a stopped server")
	}
}

func TestWatchRetriesAFailedRestart(t *testing.T) {
	t.Parallel()
	n := start(t, fixedPort(t))
	ended, cancel := context.WithCancel(testContext(t))
	cancel()
	if err := n.Restart(ended); err != nil && !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want the context's error", err)
	}
	watch(t, n, embedded.CanaryConfig{Every: 20 * time.Millisecond, Timeout: attempt})
	connected := make(chan struct{}, 1) // capacity 1: the first connection happens once
	nc, err := nats.Connect(n.URL(), nats.RetryOnFailedConnect(true), nats.ReconnectWait(10*time.Millisecond), nats.MaxReconnects(-1),
		nats.Timeout(attempt), nats.ConnectHandler(func(*nats.Conn) { connected <- struct{}{} }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	receive(t, connected, "the server accepts connections again")
}

// restartLog receives what Watch logs about restarts: when each began and how
// long it took, which is 0 if it failed.
type restartLog struct {
	t     *testing.T
	began chan time.Time
	took  chan time.Duration
}

func (l restartLog) Enabled(context.Context, slog.Level) bool { return true }
func (l restartLog) WithAttrs([]slog.Attr) slog.Handler       { return l }
func (l restartLog) WithGroup(string) slog.Handler            { return l }

func (l restartLog) Handle(_ context.Context, r slog.Record) error {
	switch r.Message {
	case "embedded queue was stuck; restarting it":
		l.began <- r.Time
	case "embedded queue restarted":
		r.Attrs(func(a slog.Attr) bool {
			l.took <- a.Value.Duration()
			return true
		})
	default:
		l.took <- 0
		r.Attrs(func(a slog.Attr) bool {
			l.t.Log(r.Message, a)
			return true
		})
	}
	return nil
}

func TestWatchDoublesThePauseBetweenUselessRestarts(t *testing.T) {
	t.Parallel()
	const every, restarts = 20 * time.Millisecond, 5
	n := start(t, fixedPort(t))
	js := connect(t, n.URL(), n.InProcess(), nats.MaxReconnects(-1))
	// This stream owns the canary's subject, so that every canary fails.
	blocking := jetstream.StreamConfig{Name: "OTHER", Subjects: []string{"canary"}, NoAck: true}
	if _, err := js.CreateStream(testContext(t), blocking); err != nil {
		t.Fatal(err)
	}
	log := restartLog{t: t, began: make(chan time.Time, 100), took: make(chan time.Duration, 100)} // capacity 100: more than the number of restarts
	watch(t, n, embedded.CanaryConfig{Every: every, Timeout: attempt, Logger: slog.New(log)})
	last := receive(t, log.began, "a first restart has begun")
	for wait := every; wait < every<<restarts; wait *= 2 {
		ended := last.Add(receive(t, log.took, "a restart has ended"))
		last = receive(t, log.began, "another restart has begun")
		if pause := last.Sub(ended); pause < wait {
			t.Errorf("a restart began %v after the end of the last one, want at least %v", pause, wait)
		}
	}
}

func TestWatchDoesNotRestartAHealthyServer(t *testing.T) {
	t.Parallel()
	n := start(t, embedded.NATSConfig{DataDir: t.TempDir()})
	js, ctx := connect(t, n.URL()), testContext(t)
	watch(t, n, embedded.CanaryConfig{Every: 10 * time.Millisecond, Timeout: patience})
	eventually(t, "ten canaries were published", func() bool {
		s, err := js.Stream(ctx, "CANARY")
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			return false
		}
		if err != nil {
			t.Fatal(err)
		}
		if kept := s.CachedInfo().State.Msgs; kept > 1 {
			t.Errorf("the stream keeps %d canaries, want at most 1", kept)
		}
		return s.CachedInfo().State.LastSeq >= 10
	})
	if n.Restarts() != 0 {
		t.Errorf("%d restarts, want none", n.Restarts())
	}
}
