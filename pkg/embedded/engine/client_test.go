package engine_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/google/uuid"

	"github.com/logboom/logboom/pkg/embedded/engine/enginetest"
)

// compressions returns the compressions that the engine supports over HTTP:
// ClickHouse's own compressed frames.
func compressions() map[string]*clickhouse.Compression {
	return map[string]*clickhouse.Compression{
		"none": nil,
		"lz4":  {Method: clickhouse.CompressionLZ4},
		"zstd": {Method: clickhouse.CompressionZSTD},
	}
}

func compressed(c *clickhouse.Compression) func(*clickhouse.Options) {
	return func(o *clickhouse.Options) {
		o.Compression = c
		o.Settings = clickhouse.Settings{"enable_http_compression": 1}
	}
}

// everyType is a row with every type that the tables of logs use.
type everyType struct {
	Time    time.Time         `ch:"time"`
	Day     time.Time         `ch:"day"`
	Project string            `ch:"project"`
	Message string            `ch:"message"`
	Attrs   map[string]string `ch:"attrs"`
	Shard   uint8             `ch:"shard"`
	Port    uint16            `ch:"port"`
	Idx     uint32            `ch:"idx"`
	Seq     uint64            `ch:"seq"`
	Signed  int64             `ch:"signed"`
	Ratio   float64           `ch:"ratio"`
	Flag    bool              `ch:"flag"`
	Level   string            `ch:"level"`
	ID      uuid.UUID         `ch:"id"`
	Tags    []string          `ch:"tags"`
	Maybe   *string           `ch:"maybe"`
}

const everyTypeTable = `CREATE TABLE t (
	time DateTime64(9, 'UTC'), day Date, project LowCardinality(String), message String,
	attrs Map(LowCardinality(String), String), shard UInt8, port UInt16, idx UInt32, seq UInt64,
	signed Int64, ratio Float64, flag Bool, level Enum8('info' = 9, 'error' = 17), id UUID,
	tags Array(LowCardinality(String)), maybe Nullable(String)
) ENGINE = MergeTree ORDER BY seq`

func everyTypeRow(i int) everyType {
	row := everyType{
		Time: time.Date(2026, 5, 1, 2, 3, 4, i, time.UTC), Day: time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC),
		Project: fmt.Sprint("p", i%3), Message: "тест \x00\xff\r\n" + strings.Repeat("x", i%50),
		Attrs: map[string]string{"host": fmt.Sprint(i % 7), "": "empty"},
		Shard: uint8(i), Port: uint16(i), Idx: uint32(i), Seq: uint64(i), Signed: -int64(i), Ratio: float64(i) / 3,
		Flag: i%2 == 0, Level: "error", ID: uuid.NewSHA1(uuid.Nil, []byte{byte(i)}), Tags: []string{"a", fmt.Sprint(i % 2)},
	}
	if i%2 == 0 {
		text := fmt.Sprint(i)
		row.Maybe = &text
	}
	return row
}

func TestClientReadsBackWhatItInserted(t *testing.T) {
	t.Parallel()
	const n = 1000
	for name, compression := range compressions() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx := context.Background()
			conn := dial(t, enginetest.URL(t), compressed(compression))
			exec(t, conn, everyTypeTable)
			batch, err := conn.PrepareBatch(ctx, "INSERT INTO t")
			if err != nil {
				t.Fatal(err)
			}
			for i := range n {
				row := everyTypeRow(i)
				if err := batch.AppendStruct(&row); err != nil {
					t.Fatal(err)
				}
			}
			if err := batch.Send(); err != nil {
				t.Fatal(err)
			}
			var got []everyType
			if err := conn.Select(ctx, &got, "SELECT * FROM t ORDER BY seq"); err != nil {
				t.Fatal(err)
			}
			if len(got) != n {
				t.Fatalf("read %d rows, want %d", len(got), n)
			}
			for i, row := range got {
				if want := everyTypeRow(i); !reflect.DeepEqual(row, want) {
					t.Fatalf("row %d:\n%+v, want\n%+v", i, row, want)
				}
			}
		})
	}
}

func TestClientReadsUnusualTypes(t *testing.T) {
	t.Parallel()
	conn := dial(t, enginetest.URL(t))
	for _, expression := range []string{
		"NULL", "tuple(1, 'a')", "CAST((1, 'a'), 'Tuple(x UInt8, y String)')", "toDecimal64(1.5, 2)", "toDecimal256(1.5, 20)",
		"toIPv4('127.0.0.1')", "toIPv6('::1')", "toFixedString('ab', 3)", "INTERVAL 1 DAY", "toDate32('1950-01-01')",
		"toDateTime(1)", "toDateTime64(1, 3, 'UTC')", "[]", "[[1], []]", "map()", "map('a', [1])",
		"toLowCardinality(toNullable('a'))", "true", "toInt128(-1)", "toUInt256(1)", "inf", "CAST('a', 'Enum16(''a'' = 300)')",
		"CAST([(1, 'a')], 'Nested(x UInt8, y String)')", "arrayMap(x -> toLowCardinality(toString(x)), range(3))",
	} {
		rows, err := conn.Query(context.Background(), "SELECT "+expression+" AS v, 42 AS n")
		if err != nil {
			t.Errorf("%s: %v", expression, err)
			continue
		}
		value := reflect.New(rows.ColumnTypes()[0].ScanType())
		var n uint8
		if !rows.Next() {
			t.Errorf("%s: no row: %v", expression, rows.Err())
		} else if err := rows.Scan(value.Interface(), &n); err != nil || n != 42 {
			t.Errorf("%s: n is %d, error %v, want 42", expression, n, err)
		}
		rows.Close()
	}
}

func TestClientReadsLargeResults(t *testing.T) {
	t.Parallel()
	for name, compression := range compressions() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn := dial(t, enginetest.URL(t), compressed(compression))
			rows, err := conn.Query(context.Background(), "SELECT number, toString(number) FROM numbers(1000000)")
			if err != nil {
				t.Fatal(err)
			}
			defer rows.Close()
			var n, sum uint64
			for rows.Next() {
				var number uint64
				var text string
				if err := rows.Scan(&number, &text); err != nil {
					t.Fatal(err)
				}
				n, sum = n+1, sum+number
			}
			if err := rows.Err(); err != nil || n != 1_000_000 || sum != 499_999_500_000 {
				t.Errorf("%d rows, sum %d, error %v", n, sum, err)
			}
		})
	}
}

func TestEmptyResultHasNoRowsAndNoError(t *testing.T) {
	t.Parallel()
	for name, compression := range compressions() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn := dial(t, enginetest.URL(t), compressed(compression))
			rows, err := conn.Query(context.Background(), "SELECT number FROM numbers(10) WHERE number > 10")
			if err != nil {
				t.Fatal(err)
			}
			defer rows.Close()
			if rows.Next() || rows.Err() != nil {
				t.Errorf("got a row or an error: %v", rows.Err())
			}
		})
	}
}

func TestParametersAreBoundAndNotInterpolated(t *testing.T) {
	t.Parallel()
	conn := dial(t, enginetest.URL(t))
	hostile := "it's \\ a\ttab, a\nline, {b:String}, '; DROP TABLE t; --"
	var text, list string
	var n uint64
	err := conn.QueryRow(context.Background(), "SELECT {a:String}, {b:UInt64} + 1, arrayStringConcat({c:Array(String)}, '|')",
		clickhouse.Named("a", hostile), clickhouse.Named("b", 41), clickhouse.Named("c", []string{"x'y", "z"})).Scan(&text, &n, &list)
	if err != nil {
		t.Fatal(err)
	}
	if text != hostile || n != 42 || list != "x'y|z" {
		t.Errorf("got %q, %d, %q; want %q, 42, \"x'y|z\"", text, n, list, hostile)
	}
}

func TestParametersWorkInTheValuesOfAnInsert(t *testing.T) {
	t.Parallel()
	conn := dial(t, enginetest.URL(t))
	exec(t, conn, "CREATE TABLE t (a String, b UInt8) ENGINE = Memory")
	exec(t, conn, "INSERT INTO t VALUES ({a:String}, 1)", clickhouse.Named("a", "q'uote"))
	exec(t, conn, "INSERT INTO t VALUES (?, ?)", "plain", 2)
	if n := number(t, conn, "SELECT count() FROM t WHERE (a, b) IN (('q''uote', 1), ('plain', 2))"); n != 2 {
		t.Errorf("found %d rows", n)
	}
}

func TestErrorsHaveTheEnginesCode(t *testing.T) {
	t.Parallel()
	for name, compression := range compressions() {
		conn := dial(t, enginetest.URL(t), compressed(compression))
		for sql, code := range map[string]int32{
			"SELECT * FROM nowhere":                    60,
			"SELECT nothing":                           47,
			"SELEC 1":                                  62,
			"SELECT 1; SELECT 2":                       62,
			"SELECT throwIf(1, 'oh')":                  395,
			"SELECT 1 SETTINGS nonsense = 1":           115,
			"SELECT * FROM url('http://x/')":           497,
			"SELECT * FROM file('/x', 'CSV')":          497,
			"SELECT 1 INTO OUTFILE '/tmp/x'":           48,
			"INSERT INTO t FROM INFILE '/x'":           48,
			"SELECT * FROM remote('127.0.0.1', 'a.b')": 497,
			"SYSTEM SHUTDOWN":                          497,
		} {
			var problem *clickhouse.Exception
			if err := conn.Exec(context.Background(), sql); !errors.As(err, &problem) || problem.Code != code {
				t.Errorf("%s: %s: %v, want code %d", name, sql, err, code)
			}
		}
	}
}

func TestErrorInTheMiddleOfAResultReachesTheClient(t *testing.T) {
	t.Parallel()
	for name, compression := range compressions() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn := dial(t, enginetest.URL(t), compressed(compression))
			rows, err := conn.Query(context.Background(), "SELECT throwIf(number = 900000, 'in the middle') FROM numbers(1000000) SETTINGS max_block_size = 65536")
			if err == nil {
				defer rows.Close()
				for rows.Next() {
				}
				err = rows.Err()
			}
			var problem *clickhouse.Exception
			if !errors.As(err, &problem) || problem.Code != 395 || !strings.Contains(problem.Message, "in the middle") {
				t.Errorf("error is %v, want code 395", err)
			}
		})
	}
}

func TestSettingsApplyToTheirStatementOnly(t *testing.T) {
	t.Parallel()
	conn := dial(t, enginetest.URL(t), func(o *clickhouse.Options) { o.MaxOpenConns = 1 })
	ctx := clickhouse.Context(context.Background(), clickhouse.WithSettings(clickhouse.Settings{"max_block_size": 7}))
	var block uint64
	if err := conn.QueryRow(ctx, "SELECT toUInt64(getSetting('max_block_size'))").Scan(&block); err != nil || block != 7 {
		t.Errorf("max_block_size is %d, error %v, want 7", block, err)
	}
	exec(t, conn, "SET max_block_size = 8")
	if block := number(t, conn, "SELECT toUInt64(getSetting('max_block_size'))"); block == 7 || block == 8 {
		t.Errorf("max_block_size is %d, the setting of another statement", block)
	}
}

func TestUnknownSettingIsRefused(t *testing.T) {
	t.Parallel()
	conn := dial(t, enginetest.URL(t))
	ctx := clickhouse.Context(context.Background(), clickhouse.WithSettings(clickhouse.Settings{"nonsense": 1}))
	var problem *clickhouse.Exception
	if err := conn.Exec(ctx, "SELECT 1"); !errors.As(err, &problem) || problem.Code != 115 {
		t.Errorf("error is %v, want code 115", err)
	}
}

func TestSettingsApplyToInserts(t *testing.T) {
	t.Parallel()
	conn := dial(t, enginetest.URL(t))
	exec(t, conn, "CREATE TABLE t (a UInt64) ENGINE = MergeTree ORDER BY a SETTINGS non_replicated_deduplication_window = 100")
	send := func(settings clickhouse.Settings, rows ...uint64) error {
		ctx := clickhouse.Context(context.Background(), clickhouse.WithSettings(settings))
		batch, err := conn.PrepareBatch(ctx, "INSERT INTO t")
		if err != nil {
			return err
		}
		for _, row := range rows {
			if err := batch.Append(row); err != nil {
				return err
			}
		}
		return batch.Send()
	}
	for _, row := range []uint64{1, 2} { // different rows, same token
		if err := send(clickhouse.Settings{"insert_deduplication_token": "same", "async_insert": 0}, row); err != nil {
			t.Fatal(err)
		}
	}
	if n := number(t, conn, "SELECT sum(a) FROM t"); n != 1 {
		t.Errorf("an insert with a repeated token stored rows: sum is %d, want 1", n)
	}
	var problem *clickhouse.Exception
	if err := send(clickhouse.Settings{"max_partitions_per_insert_block": "x"}, 3); !errors.As(err, &problem) {
		t.Errorf("an invalid setting was accepted: %v", err)
	}
}

func TestDefinitionsChangeTables(t *testing.T) {
	t.Parallel()
	conn := dial(t, enginetest.URL(t))
	exec(t, conn, "CREATE TABLE t (a UInt64) ENGINE = MergeTree ORDER BY a")
	exec(t, conn, "INSERT INTO t SELECT number FROM numbers(100)")
	exec(t, conn, "ALTER TABLE t ADD COLUMN b String DEFAULT toString(a)")
	exec(t, conn, "CREATE MATERIALIZED VIEW v ENGINE = MergeTree ORDER BY a POPULATE AS SELECT a, b FROM t WHERE a < 10")
	exec(t, conn, "ALTER TABLE t ADD INDEX i b TYPE text(tokenizer = 'splitByNonAlpha')")
	exec(t, conn, "RENAME TABLE t TO u")
	if n := number(t, conn, "SELECT count() FROM u WHERE hasToken(b, '7')"); n != 1 {
		t.Errorf("found %d rows", n)
	}
	if n := number(t, conn, "SELECT count() FROM v"); n != 10 {
		t.Errorf("%d rows in the view, want 10", n)
	}
	exec(t, conn, "DROP TABLE v")
	exec(t, conn, "TRUNCATE TABLE u")
	if n := number(t, conn, "SELECT count() FROM u"); n != 0 {
		t.Errorf("%d rows after TRUNCATE, want none", n)
	}
}

func TestConcurrentStatementsDoNotMix(t *testing.T) {
	t.Parallel()
	address := enginetest.URL(t)
	conn := dial(t, address, func(o *clickhouse.Options) { o.MaxOpenConns = 32; o.MaxIdleConns = 32 })
	exec(t, conn, "CREATE TABLE t (worker UInt64, a UInt64) ENGINE = MergeTree ORDER BY a")
	var workers sync.WaitGroup
	for worker := range uint64(16) {
		workers.Go(func() {
			ctx := clickhouse.Context(context.Background(), clickhouse.WithSettings(clickhouse.Settings{"max_result_rows": 100_000 + worker}))
			for i := range uint64(10) {
				var w, n, setting uint64
				err := conn.QueryRow(ctx, "SELECT {w:UInt64}, count(), toUInt64(getSetting('max_result_rows')) FROM numbers({n:UInt64})",
					clickhouse.Named("w", worker), clickhouse.Named("n", worker*1000+i)).Scan(&w, &n, &setting)
				if err != nil || w != worker || n != worker*1000+i || setting != 100_000+worker {
					t.Errorf("worker %d: got worker %d, count %d, setting %d, error %v", worker, w, n, setting, err)
				}
				if err := conn.Exec(ctx, "INSERT INTO t SELECT {w:UInt64}, number FROM numbers(10)", clickhouse.Named("w", worker)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	workers.Wait()
	if n := number(t, conn, "SELECT countIf(c = 100) FROM (SELECT count() AS c FROM t GROUP BY worker)"); n != 16 {
		t.Errorf("%d of 16 workers have all their rows", n)
	}
}

func TestCancelledContextEndsTheQueryInTheEngine(t *testing.T) {
	t.Parallel()
	conn := dial(t, enginetest.URL(t))
	mark := "mark" + uuid.NewString()
	running := "SELECT count() FROM system.processes WHERE Settings['log_comment'] LIKE '" + mark + "%'"
	for _, slow := range []string{
		"SELECT count() FROM numbers(1000000000000) WHERE NOT ignore(sipHash64(number))", // sends nothing and never ends
		"SELECT sipHash64(number) FROM numbers(1000000000000)",                           // sends rows and never ends
	} {
		ctx, cancel := context.WithCancel(context.Background())
		ctx = clickhouse.Context(ctx, clickhouse.WithSettings(clickhouse.Settings{"log_comment": mark}))
		ended := make(chan error, 1)
		go func() {
			rows, err := conn.Query(ctx, slow)
			if err == nil {
				for rows.Next() {
				}
				err = rows.Err()
			}
			ended <- err
		}()
		eventually(t, "the query runs", func() bool { return number(t, conn, running) == 1 })
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("%s: error is %v, want %v", slow, err, context.Canceled)
		}
		eventually(t, "the query has ended", func() bool { return number(t, conn, running) == 0 })
	}
}

func TestDeadlinesApplyToQueriesAndInserts(t *testing.T) {
	t.Parallel()
	conn := dial(t, enginetest.URL(t))
	exec(t, conn, "CREATE TABLE t (a UInt64) ENGINE = MergeTree ORDER BY a")
	ctx := clickhouse.Context(context.Background(), clickhouse.WithSettings(clickhouse.Settings{"max_execution_time": 0.2}))
	for _, slow := range []string{
		"SELECT count() FROM numbers(1000000000000) WHERE NOT ignore(sipHash64(number))",
		"INSERT INTO t SELECT number FROM numbers(1000000000000)",
	} {
		var problem *clickhouse.Exception
		if err := conn.Exec(ctx, slow); !errors.As(err, &problem) || problem.Code != 159 {
			t.Errorf("%s: error is %v, want code 159", slow, err)
		}
	}
}

func TestEngineMergesMutatesAndExpiresInTheBackground(t *testing.T) {
	t.Parallel()
	conn := dial(t, enginetest.URL(t))
	exec(t, conn, `CREATE TABLE t (at DateTime, a UInt64) ENGINE = MergeTree ORDER BY a TTL at + INTERVAL 1 SECOND
		SETTINGS merge_with_ttl_timeout = 0, old_parts_lifetime = 0`)
	for range 20 {
		exec(t, conn, "INSERT INTO t SELECT now() + INTERVAL 1 DAY, number FROM numbers(10)")
	}
	eventually(t, "parts are merged", func() bool {
		return number(t, conn, "SELECT count() FROM system.parts WHERE active AND table = 't' AND database = currentDatabase()") < 20
	})
	exec(t, conn, "ALTER TABLE t DELETE WHERE a >= 5") // runs in the background by default
	eventually(t, "the mutation is done", func() bool {
		return number(t, conn, "SELECT count() FROM t") == 100
	})
	exec(t, conn, "INSERT INTO t SELECT now() - INTERVAL 1 DAY, 1000 + number FROM numbers(10)")
	eventually(t, "the expired rows are deleted", func() bool {
		return number(t, conn, "SELECT count() FROM t") == 100
	})
}

func TestDatabaseSQLInterfaceWorks(t *testing.T) {
	t.Parallel()
	options, err := clickhouse.ParseDSN(enginetest.URL(t))
	if err != nil {
		t.Fatal(err)
	}
	db := clickhouse.OpenDB(options)
	defer db.Close()
	if _, err := db.Exec("CREATE TABLE t (a UInt64, b String) ENGINE = MergeTree ORDER BY a"); err != nil {
		t.Fatal(err)
	}
	batch, err := db.Begin()
	if err != nil {
		t.Fatal(err)
	}
	insert, err := batch.Prepare("INSERT INTO t")
	if err != nil {
		t.Fatal(err)
	}
	for i := range uint64(10) {
		if _, err := insert.Exec(i, fmt.Sprint(i)); err != nil {
			t.Fatal(err)
		}
	}
	if err := batch.Commit(); err != nil {
		t.Fatal(err)
	}
	var n uint64
	if err := db.QueryRow("SELECT sum(a) FROM t WHERE b != ?", "9").Scan(&n); err != nil || n != 36 {
		t.Errorf("sum is %d, error %v, want 36", n, err)
	}
}

func TestBackupsAreWrittenOnlyToTheirFolder(t *testing.T) {
	t.Parallel()
	address := enginetest.URL(t)
	conn := dial(t, address)
	exec(t, conn, "CREATE TABLE t (a UInt64) ENGINE = MergeTree ORDER BY a")
	exec(t, conn, "INSERT INTO t VALUES (1)")
	name := uuid.NewString()
	exec(t, conn, "BACKUP TABLE t TO File('"+name+"')")
	exec(t, conn, "RESTORE TABLE t AS u FROM File('"+name+"')")
	if n := number(t, conn, "SELECT sum(a) FROM u"); n != 1 {
		t.Errorf("sum of the restored table is %d, want 1", n)
	}
	if err := conn.Exec(context.Background(), "BACKUP TABLE t TO File('/tmp/"+name+"')"); err == nil {
		t.Error("a backup was written outside the data folder")
	}
}
