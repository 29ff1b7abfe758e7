package main

import (
	"context"
	"strings"
	"testing"

	ch "github.com/ClickHouse/clickhouse-go/v2"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/logboom/logboom/pkg/config"
	"github.com/logboom/logboom/pkg/embedded"
	"github.com/logboom/logboom/pkg/embedded/engine/enginetest"
	"github.com/logboom/logboom/pkg/stream"
	"github.com/logboom/logboom/pkg/stream/streamtest"
	"github.com/logboom/logboom/schema"
)

func TestMain(m *testing.M) { enginetest.Main(m) }

func TestMigrateMakesStreamsBucketsAndTablesAndMayRunAgain(t *testing.T) {
	t.Parallel()
	server, err := embedded.StartNATS(t.Context(), embedded.NATSConfig{DataDir: t.TempDir(), MaxStore: 4 << 30})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Stop(context.Background()) })
	tables := enginetest.URL(t)
	for range 2 {
		if code := migrateCommand(t, "--nats-url="+server.URL(), "--clickhouse-url="+tables, "--shards=1", "--stream-bytes=16MiB", "--wait=3m").run(); code != 0 {
			t.Fatalf("ended with code %d", code)
		}
	}
	_, js, err := stream.Connect(t.Context(), server.URL(), streamtest.Calm("test"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(js.Conn().Close)
	checkStreams(t, js, "LOGS_0", "EVENTS_0", "DEAD", "KV_LEDGER", "KV_PROJECTS", "KV_USERS", "KV_ALERTS", "KV_USES", "KV_GRAVES",
		"KV_PROCESSES", "KV_SESSIONS", "KV_MEMBERS", "KV_SAVED_VIEWS", "AUDIT", "NOTIFY", "NOTIFIED", "KV_NOTIFIER")
	options, err := ch.ParseDSN(tables)
	if err != nil {
		t.Fatal(err)
	}
	db := ch.OpenDB(options)
	t.Cleanup(func() { _ = db.Close() })
	if version, err := schema.Version(t.Context(), db); err != nil || version != schema.Latest() {
		t.Errorf("the tables are of version %d (%v), want %d", version, err, schema.Latest())
	}
}

func checkStreams(t *testing.T, js jetstream.JetStream, names ...string) {
	t.Helper()
	for _, name := range names {
		if _, err := js.Stream(t.Context(), name); err != nil {
			t.Errorf("stream %s: %v", name, err)
		}
	}
}

func TestMigrateEndsWithAnErrorWhereAnEngineStaysAway(t *testing.T) {
	t.Parallel()
	if code := migrateCommand(t, "--nats-url=nats://127.0.0.1:1", "--clickhouse-url=http://127.0.0.1:1/logboom", "--wait=1s").run(); code != 1 {
		t.Errorf("ended with code %d, want 1", code)
	}
}

// migrateCommand is the command as the settings make it.
func migrateCommand(t *testing.T, args ...string) *migrate {
	t.Helper()
	var cfg settings
	var help strings.Builder
	read, err := config.Parse("admin", "", &cfg, append([]string{"migrate"}, args...), &help)
	if err != nil || read.Command != "migrate" {
		t.Fatalf("%v: %v", args, err)
	}
	return &cfg.Migrate
}
