package schema_test

import (
	"database/sql"
	"io/fs"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"

	ch "github.com/ClickHouse/clickhouse-go/v2"

	"github.com/logboom/logboom/pkg/embedded/engine/enginetest"
	"github.com/logboom/logboom/schema"
)

func TestMain(m *testing.M) { enginetest.Main(m) }

// database returns an empty database.
func database(t *testing.T) *sql.DB {
	t.Helper()
	return open(t, enginetest.URL(t))
}

func open(t *testing.T, url string) *sql.DB {
	t.Helper()
	options, err := ch.ParseDSN(url)
	if err != nil {
		t.Fatal(err)
	}
	db := ch.OpenDB(options)
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

func apply(t *testing.T, db *sql.DB) {
	t.Helper()
	if err := schema.Apply(t.Context(), db); err != nil {
		t.Fatal(err)
	}
}

func checkVersion(t *testing.T, db *sql.DB, want int64) {
	t.Helper()
	got, err := schema.Version(t.Context(), db)
	if err != nil || got != want {
		t.Errorf("version %d, error %v, want %d", got, err, want)
	}
}

// tables returns the definitions of the database's tables by name.
func tables(t *testing.T, db *sql.DB) map[string]string {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), "SELECT name, create_table_query FROM system.tables WHERE database = currentDatabase()")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	found := map[string]string{}
	for rows.Next() {
		var name, definition string
		if err := rows.Scan(&name, &definition); err != nil {
			t.Fatal(err)
		}
		found[name] = definition
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return found
}

func TestApplyCreatesEveryTableAndMayRunAgain(t *testing.T) {
	t.Parallel()
	db := database(t)
	checkVersion(t, db, 0)
	for range 2 {
		apply(t, db)
		checkVersion(t, db, schema.Latest())
	}
	found := tables(t, db)
	for _, name := range []string{"logs", "events", "usage", "deliveries"} {
		if found[name] == "" {
			t.Errorf("table %s is missing", name)
		}
	}
}

func TestSeveralProcessesMayApplyAtOnce(t *testing.T) {
	t.Parallel()
	url := enginetest.URL(t)
	var processes sync.WaitGroup
	for range 4 {
		db := open(t, url)
		processes.Go(func() {
			if err := schema.Apply(t.Context(), db); err != nil {
				t.Error(err)
			}
		})
	}
	processes.Wait()
	checkVersion(t, open(t, url), schema.Latest())
}

// A crash between a statement and its version row runs the statement again.
func TestApplyContinuesWhereACrashStoppedIt(t *testing.T) {
	t.Parallel()
	db := database(t)
	apply(t, db)
	if _, err := db.ExecContext(t.Context(), "TRUNCATE TABLE schema_version"); err != nil {
		t.Fatal(err)
	}
	apply(t, db)
	checkVersion(t, db, schema.Latest())
}

func TestAnOlderProcessLeavesANewerSchemaAlone(t *testing.T) {
	t.Parallel()
	db := database(t)
	apply(t, db)
	newer := schema.Latest() + 1
	if _, err := db.ExecContext(t.Context(), "INSERT INTO schema_version (version) SELECT toInt64(?)", newer); err != nil {
		t.Fatal(err)
	}
	before := tables(t, db)
	apply(t, db)
	checkVersion(t, db, newer)
	if after := tables(t, db); len(after) != len(before) {
		t.Errorf("%d tables became %d", len(before), len(after))
	}
}

func TestEveryTableSurvivesAPowerLossByItsSettings(t *testing.T) {
	t.Parallel()
	db := database(t)
	apply(t, db)
	settings := []string{
		"fsync_after_insert = 1", "fsync_part_directory = 1", "min_rows_to_fsync_after_merge = 1",
		"min_compressed_bytes_to_fsync_after_merge = 1", "max_suspicious_broken_parts = 1000",
	}
	for name, definition := range tables(t, db) {
		want := settings
		if name != "schema_version" {
			want = append(want[:len(want):len(want)], "non_replicated_deduplication_window = 10000")
		}
		for _, setting := range want {
			if !strings.Contains(definition, setting) {
				t.Errorf("table %s lacks %s:\n%s", name, setting, definition)
			}
		}
	}
}

// A retention beyond what DateTime can add must keep rows, not drop them.
func TestRowsLiveAsLongAsTheirRetention(t *testing.T) {
	t.Parallel()
	db := database(t)
	apply(t, db)
	insert := `INSERT INTO logs SELECT 'p', now64(9), '', '', 0, toString(number), map(), '', '', [1, 7, 30, 0, 65535][number + 1],
		0, 1, number, now64(9) - toIntervalDay(8) FROM numbers(5)`
	if _, err := db.ExecContext(t.Context(), insert); err != nil {
		t.Fatal(err)
	}
	if _, err := db.ExecContext(t.Context(), "OPTIMIZE TABLE logs FINAL"); err != nil {
		t.Fatal(err)
	}
	var kept string
	query := "SELECT arrayStringConcat(groupArray(toString(retention_days)), ' ') FROM (SELECT retention_days FROM logs ORDER BY retention_days)"
	if err := db.QueryRowContext(t.Context(), query).Scan(&kept); err != nil {
		t.Fatal(err)
	}
	if kept != "0 30 65535" {
		t.Errorf("kept rows with retention %q, want those of 0 30 65535", kept)
	}
}

// The queries are in other packages. This test fixes the forms that the indexes
// serve, because ClickHouse ignores an index silently.
func TestIndexesServeTheirQueries(t *testing.T) {
	t.Parallel()
	db := database(t)
	apply(t, db)
	insert := "INSERT INTO logs SELECT 'p', now64(9), '', '', 0, 'some words', map(), '', '', 0, 0, number, 0, now64(9) FROM numbers(100)"
	if _, err := db.ExecContext(t.Context(), insert); err != nil {
		t.Fatal(err)
	}
	conditions := map[string]string{
		"seq_range":       "_shard = 1 AND _seq BETWEEN 1000 AND 2000",
		"data_words":      "project = 'p' AND hasToken(lower(data), 'rare')",
		"metadata_values": "project = 'p' AND has(arrayMap(v -> lower(v), mapValues(metadata)), '4bf92f35') AND lower(metadata['trace_id']) = '4bf92f35'",
	}
	for index, condition := range conditions {
		if plan := explain(t, db, condition); !strings.Contains(plan, index) {
			t.Errorf("index %s does not serve %s:\n%s", index, condition, plan)
		}
	}
}

func explain(t *testing.T, db *sql.DB, condition string) string {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), "EXPLAIN indexes = 1 SELECT count() FROM logs WHERE "+condition)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var plan strings.Builder
	for rows.Next() {
		var line string
		if err := rows.Scan(&line); err != nil {
			t.Fatal(err)
		}
		plan.WriteString(line + "\n")
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return plan.String()
}

func TestAFileHoldsOneObjectAndMayRunTwice(t *testing.T) {
	t.Parallel()
	names, err := fs.Glob(os.DirFS("."), "*.sql")
	if err != nil || int64(len(names)) != schema.Latest() {
		t.Fatalf("%d files, the newest is number %d: numbers must have no gaps (%v)", len(names), schema.Latest(), err)
	}
	statement := regexp.MustCompile(`(?mi)^(CREATE|ALTER|DROP|INSERT|RENAME)\b`)
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if n := len(statement.FindAll(text, -1)); n != 1 {
			t.Errorf("%s has %d statements, want 1", name, n)
		}
		if !strings.Contains(string(text), "IF NOT EXISTS") {
			t.Errorf("%s may not run twice", name)
		}
		if !strings.Contains(string(text), "+goose NO TRANSACTION") {
			t.Errorf("%s asks for a transaction, which ClickHouse has not", name)
		}
	}
}
