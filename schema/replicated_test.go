package schema

import (
	"bytes"
	"context"
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	ch "github.com/ClickHouse/clickhouse-go/v2"
	"github.com/pressly/goose/v3"

	"github.com/logboom/logboom/pkg/embedded/engine/enginetest"
)

var update = flag.Bool("update", false, "write the golden files")

// forms returns the statements for a cluster by the names of their golden files.
func forms(t *testing.T) map[string][]byte {
	t.Helper()
	cluster := replicated{cluster: "main", files: files}
	all := map[string][]byte{"schema_version.sql": onCluster([]byte(createVersions+"\n"), "main")}
	for _, name := range names() {
		text, err := fs.ReadFile(cluster, name)
		if err != nil {
			t.Fatal(err)
		}
		all[name] = text
	}
	return all
}

func TestClusterStatementsMatchTheGoldenFiles(t *testing.T) {
	t.Parallel()
	for name, got := range forms(t) {
		path := filepath.Join("testdata", "replicated", name)
		if *update {
			if err := os.WriteFile(path, got, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if want, err := os.ReadFile(path); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s differs from testdata/replicated (%v); go test ./schema -update writes it:\n%s", name, err, got)
		}
	}
}

// What only the form for one server has.
var plain = regexp.MustCompile(`(?m)^(CREATE|ALTER|DROP) TABLE (IF (NOT )?EXISTS )?\w+( \(|$)|ENGINE = (\w*?)MergeTree|non_replicated`)

func TestClusterStatementsRunOnAllServers(t *testing.T) {
	t.Parallel()
	for name, text := range forms(t) {
		for _, found := range plain.FindAllString(string(text), -1) {
			if !strings.Contains(found, "Replicated") {
				t.Errorf("%s keeps %q", name, found)
			}
		}
		if !bytes.Contains(text, []byte("ON CLUSTER 'main'")) {
			t.Errorf("%s runs on one server only", name)
		}
	}
}

func TestGooseFindsTheMigrationsOfACluster(t *testing.T) {
	t.Parallel()
	db := ch.OpenDB(&ch.Options{}) // it never connects
	defer db.Close()
	migrations, err := goose.NewProvider(goose.DialectCustom, db, replicated{cluster: "main", files: files},
		goose.WithStore(versions{cluster: "main"}), goose.WithDisableGlobalRegistry(true))
	if err != nil {
		t.Fatal(err)
	}
	if found := migrations.ListSources(); int64(len(found)) != Latest() {
		t.Errorf("%d migrations found, want %d", len(found), Latest())
	}
}

func TestClickHouseParsesTheStatementsOfACluster(t *testing.T) {
	t.Parallel()
	options, err := ch.ParseDSN(enginetest.URL(t))
	if err != nil {
		t.Fatal(err)
	}
	db := ch.OpenDB(options)
	t.Cleanup(func() { _ = db.Close() })
	for name, text := range forms(t) {
		var parsed string
		statement := strings.TrimSuffix(strings.TrimSpace(string(text)), ";")
		if err := db.QueryRowContext(t.Context(), "SELECT formatQuery({text:String})", ch.Named("text", statement)).Scan(&parsed); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestInvalidClusterNameIsRefused(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"", "a'b", "a b", strings.Repeat("x", 65)} {
		if err := ApplyReplicated(context.Background(), nil, name); err == nil || !strings.Contains(err.Error(), "cluster") {
			t.Errorf("%q: got %v", name, err)
		}
	}
}
