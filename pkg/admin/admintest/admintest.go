// Package admintest starts the application layer of the admin service over a
// real queue and a real ClickHouse, for tests.
package admintest

import (
	"bytes"
	"context"
	"encoding/base64"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/logboom/logboom/pkg/admin"
	"github.com/logboom/logboom/pkg/clickhouse"
	"github.com/logboom/logboom/pkg/embedded"
	"github.com/logboom/logboom/pkg/embedded/engine/enginetest"
	"github.com/logboom/logboom/pkg/ledger"
	"github.com/logboom/logboom/pkg/people"
	"github.com/logboom/logboom/pkg/project"
	"github.com/logboom/logboom/pkg/quota"
	"github.com/logboom/logboom/pkg/secret"
	"github.com/logboom/logboom/pkg/stream"
	"github.com/logboom/logboom/pkg/stream/streamtest"
	"github.com/logboom/logboom/pkg/token"
	"github.com/logboom/logboom/pkg/webhook"
)

// Timeout bounds what takes a moment, also on a machine that stops for seconds.
const Timeout = 2 * time.Minute

// Context returns the test's context with a deadline. Without one, the client
// of the queue uses its own timeout of 5 s.
func Context(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), Timeout)
	t.Cleanup(cancel)
	return ctx
}

// Installation is the engines and what the service works with.
type Installation struct {
	Deps     admin.Deps // for New
	Projects *project.Store
	Tokens   *token.Store
	People   *people.Store
	Client   *clickhouse.Client
	NATS     *embedded.NATS
	Queue    jetstream.JetStream
	Log      Log
	Logger   *slog.Logger // writes to Log
}

// Log collects what is logged.
type Log struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write implements io.Writer.
func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// String returns everything that was logged.
func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// Start starts the engines for the test.
func Start(t testing.TB) *Installation {
	t.Helper()
	ctx := Context(t)
	i := &Installation{}
	i.Logger = slog.New(slog.NewJSONHandler(&i.Log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	var err error
	check := func() {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	i.NATS, err = embedded.StartNATS(ctx, embedded.NATSConfig{DataDir: t.TempDir(), MaxStore: 1 << 30})
	check()
	t.Cleanup(func() { _ = i.NATS.Stop(context.Background()) })
	nc, js, err := stream.Connect(ctx, i.NATS.URL(), streamtest.Calm("test"))
	check()
	t.Cleanup(nc.Close)
	i.Queue = js
	i.Projects, err = project.Open(ctx, js, project.Config{Key: secret.New(base64.StdEncoding.EncodeToString(make([]byte, 32)))})
	check()
	i.Tokens, err = token.Open(ctx, js, i.Projects, 1)
	check()
	i.People, err = people.Open(ctx, js, i.Projects, 1)
	check()
	i.Client, err = clickhouse.Open(clickhouse.Config{URL: enginetest.URL(t)})
	check()
	t.Cleanup(func() { i.Client.Close() })
	err = i.Client.Migrate(ctx)
	check()
	i.Deps = admin.Deps{
		Logger: i.Logger, Projects: i.Projects, Tokens: i.Tokens, People: i.People, Gate: people.NewGate(i.People), Reader: i.Client, Eraser: i.Client,
		Counters: quota.NewMemory(quota.Config{}), Queue: js, Letters: stream.NewLetters(js, ledger.Committed(js)),
		Webhooks: webhook.NewSender(webhook.Config{}), Signatures: webhook.NewSigner("key"),
	}
	i.Deps.Sessions, err = people.OpenSessions(ctx, js, i.People, 1)
	check()
	i.Deps.Views, err = admin.OpenViews(ctx, js, 1)
	check()
	i.Deps.Deletions, err = admin.OpenDeletions(ctx, js, 1)
	check()
	i.Deps.Trail, err = admin.OpenTrail(ctx, js, i.Logger, 1)
	check()
	return i
}

// New returns a service with the Deps, as another process would have it.
func (i *Installation) New() *admin.Service { return i.NewWithin(Timeout) }

// NewWithin returns a service whose queries to ClickHouse have the timeout.
func (i *Installation) NewWithin(queries time.Duration) *admin.Service {
	deps := i.Deps
	deps.Registry = prometheus.NewRegistry()
	return admin.New(admin.Config{QueryTimeout: queries, ChangeTimeout: Timeout}, deps)
}

// Project creates a project.
func (i *Installation) Project(t testing.TB, name string) project.Project {
	t.Helper()
	p, err := i.Projects.CreateProject(Context(t), name)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// Changes returns the audit trail, the oldest change first.
func (i *Installation) Changes(t testing.TB) []admin.Change {
	t.Helper()
	list, _, err := i.New().Changes(Context(t), 0, 1000)
	if err != nil {
		t.Fatal(err)
	}
	slices.Reverse(list)
	return list
}
