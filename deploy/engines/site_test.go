package engines

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/logboom/logboom/pkg/embedded/engine"
	"github.com/logboom/logboom/pkg/redis/redistest"
	"github.com/logboom/logboom/pkg/stream"
	"github.com/logboom/logboom/pkg/stream/streamtest"
	"github.com/logboom/logboom/pkg/webhook/webhooktest"
)

// site is a set of engines, each its own and empty at first.
type site struct {
	queue  string
	redis  *redistest.Server
	tables *engine.Engine
	folder string // of tables
}

func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{queue: queue(t), redis: redistest.Start(t)}
	s.newTables(t)
	return s
}

// newTables gives the site an empty ClickHouse.
func (s *site) newTables(t *testing.T) {
	t.Helper()
	s.folder = t.TempDir()
	tables, err := engine.Start(t.Context(), engine.Config{
		Library: os.Getenv("LOGBOOM_CLICKHOUSE_ENGINE"), Digest: os.Getenv("LOGBOOM_CLICKHOUSE_ENGINE_SHA256"),
		DataDir: s.folder, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatalf("no ClickHouse to test with (is it fetched? `make engine`): %v", err)
	}
	s.tables = tables
	t.Cleanup(func() { end(t, tables) })
}

// end ends ClickHouse. It may have ended already.
func end(t *testing.T, tables *engine.Engine) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := tables.Stop(ctx); err != nil {
		t.Error(err)
	}
}

// backUpTables and restoreTables are the document's statements; the backup is
// carried from one machine to the other.
func (s *site) backUpTables(t *testing.T) {
	t.Helper()
	s.sql(t, "BACKUP DATABASE logboom TO File('drill')")
}

func (s *site) restoreTables(t *testing.T, from string) {
	t.Helper()
	if err := os.CopyFS(filepath.Join(s.folder, "backups"), os.DirFS(filepath.Join(from, "backups"))); err != nil {
		t.Fatal(err)
	}
	s.sql(t, "RESTORE DATABASE logboom FROM File('drill')")
}

// address is ClickHouse's, with the database.
func (s *site) address(t *testing.T, database string) string {
	t.Helper()
	u, err := url.Parse(s.tables.URL())
	if err != nil {
		t.Fatal(err)
	}
	u.Path = "/" + database
	return u.String()
}

// sql has ClickHouse carry out a statement and is its answer.
func (s *site) sql(t *testing.T, statement string) string {
	t.Helper()
	answer, err := http.Post(s.address(t, ""), "text/plain", strings.NewReader(statement))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusOK {
		t.Fatalf("%s: %d %s %v", statement, answer.StatusCode, text, err)
	}
	return strings.TrimSpace(string(text))
}

// operator is a connection with the rights of whoever backs up and restores.
func (s *site) operator(t *testing.T) *nats.Conn {
	t.Helper()
	nc, _, err := stream.Connect(t.Context(), fmt.Sprintf("nats://admin:%s@%s", secret, s.queue), streamtest.Calm("admin"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc
}

// needs are the settings of processes over the site.
func (s *site) needs(t *testing.T) []string {
	t.Helper()
	return []string{
		"LOGBOOM_REDIS_URL=" + s.redis.URL(), "LOGBOOM_CLICKHOUSE_URL=" + s.address(t, "logboom"), "LOGBOOM_STREAM_BYTES=64MiB",
		"LOGBOOM_SECRET_KEY=MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=",
	}
}

// migrate is the command, and what it prints.
func (s *site) migrate(t *testing.T, arguments ...string) string {
	t.Helper()
	p := spawn(t, "admin", append(s.needs(t), (&installation{queue: s.queue}).as("admin")), append([]string{"migrate"}, arguments...)...)
	p.end()
	return p.printed()
}

// open starts the processes over a site that was migrated. The variables are
// added to what they need.
func (s *site) open(t *testing.T, chat *webhooktest.Chat, variables ...string) *installation {
	t.Helper()
	i := &installation{t: t, queue: s.queue, project: "shop", browser: newBrowser(t)}
	env := append(s.needs(t), "LOGBOOM_WEBHOOK_ALLOW="+chat.HostPort(), "SSL_CERT_FILE="+certificateOf(t, chat),
		"LOGBOOM_OPS_ADDR=127.0.0.1:0", "LOGBOOM_LOG_FORMAT=json", "LOGBOOM_INGEST_ADDR=127.0.0.1:0", "LOGBOOM_ADMIN_ADDR=127.0.0.1:0")
	i.start(append(env, variables...))
	return i
}
