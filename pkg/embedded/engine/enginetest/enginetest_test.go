package enginetest_test

import (
	"context"
	"testing"

	"github.com/ClickHouse/clickhouse-go/v2"

	"github.com/logboom/logboom/pkg/embedded/engine/enginetest"
)

func TestMain(m *testing.M) { enginetest.Main(m) }

func TestEveryCallReturnsItsOwnDatabase(t *testing.T) {
	t.Parallel()
	first, second := connect(t), connect(t)
	ctx := context.Background()
	for _, conn := range []clickhouse.Conn{first, second} {
		if err := conn.Exec(ctx, "CREATE TABLE t (a UInt8) ENGINE = MergeTree ORDER BY a"); err != nil {
			t.Fatal(err)
		}
	}
	if err := first.Exec(ctx, "INSERT INTO t VALUES (1)"); err != nil {
		t.Fatal(err)
	}
	var n uint64
	if err := second.QueryRow(ctx, "SELECT count() FROM t").Scan(&n); err != nil {
		t.Fatal(err)
	}
	if n != 0 {
		t.Errorf("the second database sees %d rows of the first", n)
	}
}

func connect(t *testing.T) clickhouse.Conn {
	t.Helper()
	options, err := clickhouse.ParseDSN(enginetest.URL(t))
	if err != nil {
		t.Fatal(err)
	}
	conn, err := clickhouse.Open(options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}
