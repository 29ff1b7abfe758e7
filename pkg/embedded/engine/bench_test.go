package engine_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"

	"github.com/logboom/logboom/pkg/embedded/engine/enginetest"
)

func BenchmarkInsert(b *testing.B) {
	for _, n := range []int{1_000, 100_000} {
		for _, bytes := range []int{50, 500} {
			for _, name := range []string{"none", "lz4"} {
				b.Run(fmt.Sprintf("rows=%d/bytes=%d/%s", n, bytes, name), func(b *testing.B) {
					benchmarkInsert(b, n, bytes, compressions()[name])
				})
			}
		}
	}
}

func benchmarkInsert(b *testing.B, n, bytes int, compression *clickhouse.Compression) {
	ctx := context.Background()
	conn := dial(b, enginetest.URL(b), compressed(compression))
	exec(b, conn, `CREATE TABLE t (time DateTime64(9), project LowCardinality(String), message String,
		attrs Map(LowCardinality(String), String), seq UInt64) ENGINE = MergeTree ORDER BY (project, time)`+durable)
	attrs := map[string]string{"host": "h1", "level": "info"}
	b.SetBytes(int64(n * bytes))
	b.ReportAllocs()
	for b.Loop() {
		b.StopTimer()
		batch, err := conn.PrepareBatch(ctx, "INSERT INTO t")
		if err != nil {
			b.Fatal(err)
		}
		for i := range n {
			message := fmt.Sprintf("%d %s", i, strings.Repeat("request ", bytes/8+1))[:bytes]
			if err := batch.Append(time.Unix(0, int64(i)), "p", message, attrs, uint64(i)); err != nil {
				b.Fatal(err)
			}
		}
		b.StartTimer()
		if err := batch.Send(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkQuery(b *testing.B) {
	for _, n := range []int{1, 1_000_000} {
		for _, name := range []string{"none", "lz4"} {
			b.Run(fmt.Sprintf("rows=%d/%s", n, name), func(b *testing.B) {
				conn := dial(b, enginetest.URL(b), compressed(compressions()[name]))
				b.ReportAllocs()
				for b.Loop() {
					result, err := conn.Query(context.Background(), fmt.Sprintf("SELECT number, toString(number) FROM numbers(%d)", n))
					if err != nil {
						b.Fatal(err)
					}
					for result.Next() {
					}
					if err := result.Err(); err != nil {
						b.Fatal(err)
					}
					result.Close()
				}
			})
		}
	}
}
