package embedded_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/logboom/logboom/pkg/embedded"
	"github.com/logboom/logboom/pkg/freeport"
	"github.com/logboom/logboom/pkg/leaktest"
)

const (
	// patience limits how long a test waits for an expected result.
	patience = 60 * time.Second
	// attempt limits one attempt to connect, when more attempts follow.
	attempt = 10 * time.Second
	// childDir is the environment variable that makes the test binary the server
	// process which a test kills. Its value is the data folder.
	childDir = "LOGBOOM_TEST_CRASH_DIR"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(childDir); dir != "" {
		os.Exit(publishUntilKilled(dir))
	}
	leaktest.Main(m)
}

func testContext(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

// eventually waits until holds returns true. The condition is for the failure's
// message.
func eventually(t *testing.T, condition string, holds func() bool) {
	t.Helper()
	ctx := testContext(t)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("not true after %s: %s", patience, condition)
		}
	}
}

// receive waits for a value from the channel and returns it. The condition is
// for the failure's message.
func receive[T any](t *testing.T, from <-chan T, condition string) T {
	t.Helper()
	var value T
	select {
	case value = <-from:
	case <-testContext(t).Done():
		t.Fatalf("not true after %s: %s", patience, condition)
	}
	return value
}

func start(t *testing.T, cfg embedded.NATSConfig) *embedded.NATS {
	t.Helper()
	n, err := embedded.StartNATS(testContext(t), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(t, n) })
	return n
}

func stop(t *testing.T, n *embedded.NATS) {
	t.Helper()
	if err := n.Stop(testContext(t)); err != nil {
		t.Error(err)
	}
}

// fixedPort returns a server's config with a port that is still free when the
// server restarts. The kernel may give a port of its own choice to another
// connection in between.
func fixedPort(t *testing.T) embedded.NATSConfig {
	t.Helper()
	port, err := freeport.Port()
	if err != nil {
		t.Fatal(err)
	}
	return embedded.NATSConfig{DataDir: t.TempDir(), Port: port}
}

func connect(t *testing.T, url string, options ...nats.Option) jetstream.JetStream {
	t.Helper()
	nc, err := nats.Connect(url, append([]nats.Option{nats.Timeout(patience)}, options...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	return js
}

func TestServerKeepsMessagesAndPortAfterAStop(t *testing.T) {
	t.Parallel()
	cfg := fixedPort(t)
	n := start(t, cfg)
	js := connect(t, n.URL())
	if _, err := js.CreateStream(testContext(t), jetstream.StreamConfig{Name: "S", Subjects: []string{"s"}}); err != nil {
		t.Fatal(err)
	}
	if _, err := js.Publish(testContext(t), "s", []byte("kept")); err != nil {
		t.Fatal(err)
	}
	stop(t, n)
	stop(t, n) // a second Stop does nothing

	n = start(t, cfg)
	if n.Port() != cfg.Port {
		t.Errorf("port %d, want %d", n.Port(), cfg.Port)
	}
	s, err := connect(t, n.URL()).Stream(testContext(t), "S")
	if err != nil {
		t.Fatal(err)
	}
	if m, err := s.GetMsg(testContext(t), 1); err != nil || string(m.Data) != "kept" {
		t.Errorf("message 1 is %v, error %v, want \"kept\"", m, err)
	}
}

func TestServerAcceptsLargeMessagesInProcessAndRefusesWrongTokens(t *testing.T) {
	t.Parallel()
	n := start(t, embedded.NATSConfig{DataDir: t.TempDir()})
	js := connect(t, n.URL(), n.InProcess())
	if got := js.Conn().MaxPayload(); got != 8<<20 {
		t.Errorf("MaxPayload is %d, want 8 MiB", got)
	}
	if _, err := js.AccountInfo(testContext(t)); err != nil {
		t.Errorf("account info in process: %v", err)
	}
	for _, url := range []string{"nats://" + n.Addr(), "nats://wrong@" + n.Addr()} {
		if nc, err := nats.Connect(url, nats.Timeout(patience)); !errors.Is(err, nats.ErrAuthorization) {
			if err == nil {
				nc.Close()
			}
			t.Errorf("connect to %s: error %v, want %v", url, err, nats.ErrAuthorization)
		}
	}
	if host, _, err := net.SplitHostPort(n.Addr()); err != nil || host != "127.0.0.1" {
		t.Errorf("the server listens on %s, want 127.0.0.1", n.Addr())
	}
}

func TestStartNATSNamesTheCauseOfAnError(t *testing.T) {
	t.Parallel()
	used := embedded.NATSConfig{DataDir: t.TempDir()}
	running := start(t, used)
	file := t.TempDir() + "/file"
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for want, cfg := range map[string]embedded.NATSConfig{
		"is in use by process ":  used,
		"DataDir is empty":       {},
		"Port is 70000":          {DataDir: t.TempDir(), Port: 70000},
		"MaxPayload is -1":       {DataDir: t.TempDir(), MaxPayload: -1},
		"MaxStore is 5":          {DataDir: t.TempDir(), MaxStore: 5},
		"address already in use": {DataDir: t.TempDir(), Port: running.Port()},
		"not a directory":        {DataDir: file},
	} {
		n, err := embedded.StartNATS(testContext(t), cfg)
		if err == nil {
			stop(t, n)
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want an error with %q", err, want)
		}
	}
}

func TestStartNATSReleasesTheFolderWhenItsContextEnds(t *testing.T) {
	t.Parallel()
	cfg := embedded.NATSConfig{DataDir: t.TempDir()}
	ctx, cancel := context.WithCancel(testContext(t))
	cancel()
	if n, err := embedded.StartNATS(ctx, cfg); err == nil {
		stop(t, n) // it was ready before it checked the context
	} else if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want the context's error", err)
	}
	stop(t, start(t, cfg))
}

func TestServerKeepsItsStreamsWithASmallerStore(t *testing.T) {
	t.Parallel()
	cfg := embedded.NATSConfig{DataDir: t.TempDir(), MaxStore: 1 << 30}
	n := start(t, cfg)
	wide := jetstream.StreamConfig{Name: "S", Subjects: []string{"s"}, MaxBytes: 900 << 20}
	if _, err := connect(t, n.URL()).CreateStream(testContext(t), wide); err != nil {
		t.Fatal(err)
	}
	stop(t, n)
	cfg.MaxStore = 64 << 20
	n = start(t, cfg)
	if n.MaxStore() != cfg.MaxStore {
		t.Errorf("MaxStore is %d, want %d", n.MaxStore(), cfg.MaxStore)
	}
	if _, err := connect(t, n.URL()).Stream(testContext(t), "S"); err != nil {
		t.Error(err)
	}
}

func TestServerLogsToSlogWithoutItsToken(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var out bytes.Buffer
	log := slog.New(slog.NewTextHandler(writerFunc(func(p []byte) (int, error) {
		mu.Lock()
		defer mu.Unlock()
		return out.Write(p)
	}), &slog.HandlerOptions{Level: slog.LevelDebug}))
	n := start(t, embedded.NATSConfig{DataDir: t.TempDir(), Token: "canary-of-the-token", Logger: log})
	connect(t, n.URL())
	if nc, err := nats.Connect("nats://another-canary@"+n.Addr(), nats.Timeout(patience)); err == nil {
		nc.Close()
	}
	stop(t, n)
	mu.Lock()
	defer mu.Unlock()
	if lines := out.String(); !strings.Contains(lines, "Server is ready") || strings.Contains(lines, "canary") {
		t.Errorf("the log lacks \"Server is ready\" or contains a token: %s", lines)
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// Not parallel: while a process starts, it briefly has copies of this process's
// open files. They keep ports and locks in use that another test releases and
// acquires again.
func TestKilledServerHasEveryAcknowledgedMessage(t *testing.T) {
	dir := t.TempDir()
	for round := range 3 {
		acknowledged := killWhilePublishing(t, dir)
		n := start(t, embedded.NATSConfig{DataDir: dir})
		s, err := connect(t, n.URL()).Stream(testContext(t), "S")
		if err != nil {
			t.Fatal(err)
		}
		if last := s.CachedInfo().State.LastSeq; last < acknowledged {
			t.Errorf("round %d: the stream ends at %d, but %d was acknowledged", round, last, acknowledged)
		}
		if m, err := s.GetMsg(testContext(t), acknowledged); err != nil || string(m.Data) != "body" {
			t.Errorf("round %d: message %d is %v, error %v, want \"body\"", round, acknowledged, m, err)
		}
		stop(t, n)
	}
}

// killWhilePublishing runs this test binary as a server that publishes to
// itself, kills it, and returns the last sequence that it acknowledged.
func killWhilePublishing(t *testing.T, dir string) uint64 {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	child := exec.CommandContext(testContext(t), exe)
	child.Env = append(os.Environ(), childDir+"="+dir)
	child.Stderr = os.Stderr
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	var last, count uint64
	for lines := bufio.NewScanner(out); lines.Scan(); count++ {
		if last, err = strconv.ParseUint(lines.Text(), 10, 64); err != nil {
			t.Fatalf("the child wrote %q", lines.Text())
		}
		if count == 100 {
			if err := child.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := child.Wait(); err == nil || count < 100 {
		t.Fatalf("the child was not killed, but exited after %d messages: %v", count, err)
	}
	return last
}

// publishUntilKilled runs in the child process. It prints the sequence of each
// message after the message is acknowledged.
func publishUntilKilled(dir string) int {
	ctx, cancel := context.WithTimeout(context.Background(), patience) // without a deadline, Publish waits only 5 s
	defer cancel()
	fail := func(err error) int {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	n, err := embedded.StartNATS(ctx, embedded.NATSConfig{DataDir: dir})
	if err != nil {
		return fail(err)
	}
	nc, err := nats.Connect(n.URL(), n.InProcess(), nats.Timeout(patience))
	if err != nil {
		return fail(err)
	}
	js, err := jetstream.New(nc)
	if err != nil {
		return fail(err)
	}
	if _, err := js.CreateOrUpdateStream(ctx, jetstream.StreamConfig{Name: "S", Subjects: []string{"s"}}); err != nil {
		return fail(err)
	}
	for {
		ack, err := js.Publish(ctx, "s", []byte("body"))
		if err != nil {
			return fail(err)
		}
		fmt.Println(ack.Sequence)
	}
}
