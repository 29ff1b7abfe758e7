package token

import (
	"context"
	"io"
	"log/slog"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/logboom/logboom/pkg/embedded"
	"github.com/logboom/logboom/pkg/embedded/natstest"
	"github.com/logboom/logboom/pkg/leaktest"
	"github.com/logboom/logboom/pkg/project"
	"github.com/logboom/logboom/pkg/secret"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// patience bounds what has to happen, on machines that are busy or suspended for
// seconds.
const patience = time.Minute

// The project store under a name that can be embedded beside this package's.
type projectStore = project.Store

// stores joins the stores of projects and of tokens.
type stores struct {
	*projectStore
	*Store
}

// DeleteProject deletes a project and its tokens.
func (s stores) DeleteProject(ctx context.Context, name string) (project.Project, error) {
	deleted, err := s.projectStore.DeleteProject(ctx, name)
	if err == nil {
		err = s.DeleteTokens(ctx, deleted.ID)
	}
	return deleted, err
}

// identify looks a token up in the record.
func (s stores) identify(ctx context.Context, digest secret.Digest) (Identity, error) {
	g, err := s.find(ctx, digest)
	if err != nil {
		return Identity{}, err
	}
	return g.identity(s.Defaults()), nil
}

// openStores opens the stores of a queue.
func openStores(t testing.TB, js jetstream.JetStream, config project.Config) stores {
	t.Helper()
	projects, err := project.Open(t.Context(), js, config)
	if err != nil {
		t.Fatal(err)
	}
	tokens, err := Open(t.Context(), js, projects, 1)
	if err != nil {
		t.Fatal(err)
	}
	return stores{projects, tokens}
}

// connect opens the stores of the server at the address, over a connection of
// its own.
func connect(t testing.TB, address string) stores {
	t.Helper()
	return connectWith(t, address, project.Config{})
}

func connectWith(t testing.TB, address string, config project.Config) stores {
	t.Helper()
	return openStores(t, patientStream(t, address), config)
}

// patientStream returns a connection that waits for a slow server. It reconnects
// even after another server has answered on the port.
func patientStream(t testing.TB, address string) jetstream.JetStream {
	t.Helper()
	conn, err := nats.Connect(address, nats.Timeout(patience), nats.MaxReconnects(-1), nats.ReconnectWait(20*time.Millisecond),
		nats.ReconnectBufSize(-1), nats.IgnoreAuthErrorAbort())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	js, err := jetstream.New(conn, jetstream.WithDefaultTimeout(patience))
	if err != nil {
		t.Fatal(err)
	}
	return js
}

// newStore opens an empty store of its own.
func newStore(t testing.TB) stores {
	t.Helper()
	return connect(t, natstest.Start(t, embedded.NATSConfig{DataDir: t.TempDir()}).URL())
}

// newToken creates a project with a token.
func newToken(t testing.TB, store stores, name string) (Token, string) {
	t.Helper()
	if _, err := store.CreateProject(t.Context(), name); err != nil {
		t.Fatal(err)
	}
	token, secret, err := store.CreateToken(t.Context(), name, "shop")
	if err != nil {
		t.Fatal(err)
	}
	return token, secret.Reveal()
}

// follow runs the cache until the test ends and waits until its watch is
// complete.
func follow(t testing.TB, cache *Cache) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1) // Run's answer, so that it never waits for the test
	go func() { done <- cache.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	eventually(t, func() bool { return cache.Stats().Watching })
}

// undisturbed returns a function that reports whether nothing disturbed the
// cache since: no change, and not so much time that a cached token has to be
// looked up again, as on a machine that is suspended for a second.
func undisturbed(cache *Cache) func() bool {
	began, changes := cache.now(), cache.changes.Load()
	return func() bool {
		now := cache.now()
		return now-began < lookupTrust && cache.isComplete(now) && cache.changes.Load() == changes
	}
}

// stopClock stops the clock of a cache that is not running: what it has looked
// up stays cached.
func stopClock(cache *Cache) {
	at := cache.now()
	cache.now = func() time.Duration { return at }
}

func newCache(t testing.TB, store stores, shared Shared) *Cache {
	t.Helper()
	return NewCache(store.Store, shared, slog.New(slog.DiscardHandler))
}

// eventually waits until the condition holds.
func eventually(t testing.TB, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	late := time.NewTimer(patience)
	defer late.Stop()
	for !holds() {
		select {
		case <-tick.C:
		case <-late.C:
			t.Fatalf("not within %s", patience)
		}
	}
}

// proxy stands between a client and a server. It can stop carrying data in both
// directions without closing a connection, like a network that drops packets.
type proxy struct {
	listener net.Listener
	done     sync.WaitGroup

	mu     sync.Mutex
	target string
	open   *sync.Cond
	cut    bool
	ended  bool
	conns  []net.Conn
}

func startProxy(t testing.TB, target string) *proxy {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{listener: listener, target: target}
	p.open = sync.NewCond(&p.mu)
	p.done.Go(p.accept)
	t.Cleanup(p.stop)
	return p
}

func (p *proxy) addr() string { return p.listener.Addr().String() }

// set stops the proxy from carrying anything, or starts it again.
func (p *proxy) set(cut bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut = cut
	p.open.Broadcast()
}

// retarget makes later connections go to another server, or nowhere.
func (p *proxy) retarget(target string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.target = target
}

func (p *proxy) currentTarget() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.target
}

func (p *proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", p.currentTarget()) // fails where there is none
		if err != nil {
			_ = client.Close()
			continue
		}
		p.mu.Lock()
		p.conns = append(p.conns, client, server)
		p.mu.Unlock()
		p.done.Go(func() { p.carry(client, server) })
		p.done.Go(func() { p.carry(server, client) })
	}
}

func (p *proxy) carry(from, to net.Conn) {
	defer func() { _, _ = from.Close(), to.Close() }()
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if err != nil || !p.wait() {
			return
		}
		if _, err := to.Write(buf[:n]); err != nil {
			return
		}
	}
}

// wait waits while the connection is cut.
func (p *proxy) wait() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.cut && !p.ended {
		p.open.Wait()
	}
	return !p.ended
}

func (p *proxy) stop() {
	_ = p.listener.Close()
	p.mu.Lock()
	p.ended = true
	p.open.Broadcast()
	for _, conn := range p.conns {
		_ = conn.Close()
	}
	p.mu.Unlock()
	p.done.Wait()
}

var _ io.Writer = (*sink)(nil)

// sink collects what many goroutines write.
type sink struct {
	mu   sync.Mutex
	text []byte
}

func (s *sink) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.text = append(s.text, p...)
	return len(p), nil
}

func (s *sink) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return string(s.text)
}
