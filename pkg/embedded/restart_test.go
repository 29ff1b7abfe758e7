package embedded_test

import (
	"context"
	"errors"
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
	done := make(chan error, 1) // one: Watch returns once
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
	n := start(t, embedded.NATSConfig{DataDir: t.TempDir()})
	addr := n.Addr()
	for name, option := range map[string]nats.Option{"memory": n.InProcess(), "socket": nats.MaxReconnects(-1)} {
		back := make(chan struct{}, 1) // one: there is one restart
		js := connect(t, n.URL(), option, nats.ReconnectWait(10*time.Millisecond),
			nats.ReconnectHandler(func(*nats.Conn) { back <- struct{}{} }))
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
			select {
			case <-back:
			case <-testContext(t).Done():
				t.Fatalf("%s: not connected again", name)
			}
		}
	}
	if n.Addr() != addr || n.Restarts() != 2 {
		t.Errorf("at %s after %d restarts, want %s after 2", n.Addr(), n.Restarts(), addr)
	}
}

func TestRestartAfterStopIsRefused(t *testing.T) {
	t.Parallel()
	n := start(t, embedded.NATSConfig{DataDir: t.TempDir()})
	stop(t, n)
	if err := n.Restart(testContext(t)); err == nil {
		t.Error("a stopped server was started again")
	}
}

func TestRestartThatFailsMayBeTriedAgain(t *testing.T) {
	t.Parallel()
	n := start(t, embedded.NATSConfig{DataDir: t.TempDir()})
	ended, cancel := context.WithCancel(testContext(t))
	cancel()
	if err := n.Restart(ended); err != nil && !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want the context's error", err)
	}
	watch(t, n, embedded.CanaryConfig{Every: 20 * time.Millisecond})
	nc, err := nats.Connect(n.URL(), nats.RetryOnFailedConnect(true), nats.ReconnectWait(10*time.Millisecond), nats.MaxReconnects(-1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	for !nc.IsConnected() {
		select {
		case <-nc.StatusChanged(nats.CONNECTED):
		case <-testContext(t).Done():
			t.Fatal("the server did not come back")
		}
	}
}

func TestWatchSpacesRestartsThatDoNotHelp(t *testing.T) {
	t.Parallel()
	n := start(t, embedded.NATSConfig{DataDir: t.TempDir()})
	back := make(chan time.Time, 100) // more than there are restarts
	js := connect(t, n.URL(), n.InProcess(), nats.MaxReconnects(-1), nats.ReconnectWait(time.Millisecond),
		nats.ReconnectHandler(func(*nats.Conn) { back <- time.Now() }))
	inTheWay := jetstream.StreamConfig{Name: "OTHER", Subjects: []string{"canary"}, NoAck: true}
	if _, err := js.CreateStream(testContext(t), inTheWay); err != nil {
		t.Fatal(err)
	}
	watch(t, n, embedded.CanaryConfig{Every: 20 * time.Millisecond})
	var times []time.Time
	for len(times) < 5 {
		select {
		case at := <-back:
			times = append(times, at)
		case <-testContext(t).Done():
			t.Fatalf("%d restarts", len(times))
		}
	}
	if wait := times[4].Sub(times[3]); wait < 80*time.Millisecond {
		t.Errorf("the fifth restart came %v after the fourth", wait)
	}
}

func TestWatchLeavesAHealthyServerAlone(t *testing.T) {
	t.Parallel()
	n := start(t, embedded.NATSConfig{DataDir: t.TempDir()})
	js := connect(t, n.URL())
	watch(t, n, embedded.CanaryConfig{Every: 10 * time.Millisecond})
	for last := uint64(0); last < 10; {
		if s, err := js.Stream(testContext(t), "CANARY"); err == nil {
			last = s.CachedInfo().State.LastSeq
			if kept := s.CachedInfo().State.Msgs; kept > 1 {
				t.Errorf("%d canaries are kept", kept)
			}
		} else if !errors.Is(err, jetstream.ErrStreamNotFound) {
			t.Fatal(err)
		}
	}
	if n.Restarts() != 0 {
		t.Errorf("%d restarts", n.Restarts())
	}
}
