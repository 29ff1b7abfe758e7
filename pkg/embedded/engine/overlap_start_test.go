package engine_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/logboom/logboom/pkg/embedded/engine"
)

func TestEngineStartsWithOverlappingParts(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first := start(t, engine.Config{DataDir: dir})
	conn := dial(t, first.URL())
	exec(t, conn, "CREATE TABLE t (a UInt64) ENGINE = MergeTree ORDER BY a")
	exec(t, conn, "INSERT INTO t SELECT number FROM numbers(1000)")
	stop(t, first)
	found, err := filepath.Glob(filepath.Join(dir, "clickhouse", "store", "*", "*", "all_1_1_0"))
	if err != nil || len(found) != 1 {
		t.Fatalf("found parts %v, error %v, want one part", found, err)
	}
	table := filepath.Dir(found[0])
	for _, name := range []string{"all_2_4_1", "all_3_5_1"} {
		if err := os.CopyFS(filepath.Join(table, name), os.DirFS(found[0])); err != nil {
			t.Fatal(err)
		}
	}
	second := start(t, engine.Config{DataDir: dir})
	if n := number(t, dial(t, second.URL()), "SELECT count() FROM t"); n != 2000 {
		t.Errorf("the table has %d rows, want 2000", n)
	}
	if n := number(t, dial(t, second.URL()), "SELECT count() FROM system.detached_parts WHERE startsWith(reason, 'broken')"); n != 1 {
		t.Errorf("%d parts are detached, want 1", n)
	}
}
