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

// site is a set of engines, empty at first: a queue, Redis and ClickHouse.
type site struct {
	queue  string
	redis  *redistest.Server
	tables *engine.Engine
	folder string // ClickHouse's data folder
}

func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{queue: queue(t), redis: redistest.Start(t)}
	s.newTables(t)
	return s
}

// newTables starts an empty ClickHouse for the site.
func (s *site) newTables(t *testing.T) {
	t.Helper()
	s.folder = t.TempDir()
	tables, err := engine.Start(t.Context(), engine.Config{
		Library: os.Getenv("LOGBOOM_CLICKHOUSE_ENGINE"), Digest: os.Getenv("LOGBOOM_CLICKHOUSE_ENGINE_SHA256"),
		DataDir: s.folder, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatalf("start the embedded ClickHouse (run `make engine` to download it): %v", err)
	}
	s.tables = tables
	t.Cleanup(func() { stop(t, tables) })
}

// stop stops ClickHouse, if it still runs.
func stop(t *testing.T, tables *engine.Engine) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := tables.Stop(ctx); err != nil {
		t.Error(err)
	}
}

// backUpTables runs the backup statement of docs/operations.md.
func (s *site) backUpTables(t *testing.T) {
	t.Helper()
	s.sql(t, "BACKUP DATABASE logboom TO File('drill')")
}

// restoreTables copies the backup out of another ClickHouse's data folder and
// runs the restore statement of docs/operations.md.
func (s *site) restoreTables(t *testing.T, from string) {
	t.Helper()
	if err := os.CopyFS(filepath.Join(s.folder, "backups"), os.DirFS(filepath.Join(from, "backups"))); err != nil {
		t.Fatal(err)
	}
	s.sql(t, "RESTORE DATABASE logboom FROM File('drill')")
}

// address returns ClickHouse's URL with the database.
func (s *site) address(t *testing.T, database string) string {
	t.Helper()
	u, err := url.Parse(s.tables.URL())
	if err != nil {
		t.Fatal(err)
	}
	u.Path = "/" + database
	return u.String()
}

// sql runs a statement in ClickHouse and returns the answer.
func (s *site) sql(t *testing.T, statement string) string {
	t.Helper()
	answer, err := http.Post(s.address(t, ""), "text/plain", strings.NewReader(statement))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusOK {
		t.Fatalf("%s: status %d: %s %v", statement, answer.StatusCode, text, err)
	}
	return strings.TrimSpace(string(text))
}

// operator connects as the user that backs up and restores streams.
func (s *site) operator(t *testing.T) *nats.Conn {
	t.Helper()
	nc, _, err := stream.Connect(t.Context(), fmt.Sprintf("nats://admin:%s@%s", secret, s.queue), streamtest.Calm("admin"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc
}

// settings returns the settings with which processes use the site.
func (s *site) settings(t *testing.T) []string {
	t.Helper()
	return []string{
		"LOGBOOM_REDIS_URL=" + s.redis.URL(), "LOGBOOM_CLICKHOUSE_URL=" + s.address(t, "logboom"), "LOGBOOM_STREAM_BYTES=64MiB",
		"LOGBOOM_SECRET_KEY=MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=",
	}
}

// migrate runs the migrate command and returns what it prints.
func (s *site) migrate(t *testing.T, arguments ...string) string {
	t.Helper()
	p := spawn(t, "admin", append(s.settings(t), (&installation{queue: s.queue}).natsURL("admin")), append([]string{"migrate"}, arguments...)...)
	p.awaitExit()
	return p.printed()
}

// open starts the processes on a migrated site, with more variables added to
// the site's settings.
func (s *site) open(t *testing.T, chat *webhooktest.Chat, variables ...string) *installation {
	t.Helper()
	i := &installation{t: t, queue: s.queue, project: "shop", browser: newBrowser(t)}
	env := append(s.settings(t), "LOGBOOM_WEBHOOK_ALLOW="+chat.HostPort(), "SSL_CERT_FILE="+certificateFile(t, chat),
		"LOGBOOM_OPS_ADDR=127.0.0.1:0", "LOGBOOM_LOG_FORMAT=json", "LOGBOOM_INGEST_ADDR=127.0.0.1:0", "LOGBOOM_ADMIN_ADDR=127.0.0.1:0")
	i.start(append(env, variables...))
	return i
}
