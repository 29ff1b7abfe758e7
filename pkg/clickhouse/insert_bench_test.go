package clickhouse

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/logboom/logboom/pkg/embedded/engine/enginetest"
	"github.com/logboom/logboom/pkg/record"
)

// benchShards is how many blocks are inserted at once.
const benchShards = 4

// BenchmarkStore measures what a line costs the engine in all: inserts of so many
// rows, four at once, and the merges that follow. merged/row is how often a row was
// rewritten, and bytes/row is its size on disk afterwards. An iteration is half a
// million lines: run it with -benchtime 1x.
func BenchmarkStore(b *testing.B) {
	const total = 500_000
	logs := madeLogs()
	for _, rows := range []int{10_000, 40_000, 120_000} {
		b.Run(fmt.Sprintf("rows=%d", rows), func(b *testing.B) {
			client := migrated(b, "")
			merged, used := ask(b, client, mergedRows), engineTime(b)
			stored := 0
			for b.Loop() {
				for end := stored + total; stored < end; stored += benchShards * rows {
					insertAtOnce(b, client, logs, stored, rows)
				}
				awaitMerges(b, client)
			}
			per := func(n float64) float64 { return n / float64(stored) }
			b.ReportMetric(per(float64((engineTime(b) - used).Microseconds())), "engine-us/row")
			b.ReportMetric(per(float64(ask(b, client, mergedRows)-merged)), "merged/row")
			b.ReportMetric(per(float64(ask(b, client, "SELECT sum(bytes_on_disk) FROM system.parts WHERE active AND database = currentDatabase() AND table = 'logs'"))), "bytes/row")
		})
	}
}

// mergedRows counts the rows that all merges of the server have read so far.
const mergedRows = "SELECT sum(value) FROM system.events WHERE event = 'MergedRows'"

// madeLogs returns logs like those of containers, with many different numbers.
func madeLogs() []record.Log {
	random := rand.New(rand.NewPCG(1, 2))
	words := []string{"accepted", "refused", "timeout", "retrying", "closed", "opened", "committed", "evicted"}
	logs := make([]record.Log, 50_000)
	for i := range logs {
		logs[i] = record.Log{
			Application: "gateway", Severity: "INFO", SeverityNumber: 9, Host: "node-1", Source: "stdout",
			Data: fmt.Sprintf("[pool-%d-thread-%d] com.example.Handler: request %08x %s in %d ms from 10.%d.%d.%d",
				random.IntN(4), random.IntN(32), random.Uint32(), words[random.IntN(len(words))], random.IntN(5000), random.IntN(256), random.IntN(256), random.IntN(256)),
		}
	}
	return logs
}

// insertAtOnce inserts a block of each shard, with messages of 1000 rows and
// times that rise with the rows stored so far.
func insertAtOnce(b *testing.B, client *Client, logs []record.Log, stored, rows int) {
	b.Helper()
	var inserts sync.WaitGroup
	for shard := range benchShards {
		inserts.Go(func() {
			var block LogBlock
			for i := range rows {
				at := stored + i*benchShards + shard
				l := logs[at%len(logs)]
				l.Timestamp = noon + int64(at)*int64(time.Microsecond)
				seq := uint64(stored/benchShards+i)/1000 + 1
				block.Append(Row{Shard: uint8(shard), Seq: seq, Idx: uint32(i % 1000), Received: noon, Project: project, RetentionDays: 30}, &l)
			}
			if err := client.InsertLogs(b.Context(), fmt.Sprint(shard, "-", stored), &block); err != nil {
				b.Error(err)
			}
		})
	}
	inserts.Wait()
}

// awaitMerges returns when no merge has run for two seconds.
func awaitMerges(b *testing.B, client *Client) {
	b.Helper()
	for quiet := 0; quiet < 4; quiet++ {
		<-time.After(500 * time.Millisecond)
		if ask(b, client, "SELECT count() FROM system.merges") > 0 {
			quiet = 0
		}
	}
}

func ask(b *testing.B, client *Client, query string) (number uint64) {
	b.Helper()
	if err := client.conn.QueryRow(b.Context(), query).Scan(&number); err != nil {
		b.Fatal(err)
	}
	return number
}

// engineTime returns the processor time that the engine has used so far. The unit of
// /proc is a hundredth of a second on every Linux.
func engineTime(b *testing.B) time.Duration {
	b.Helper()
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", enginetest.Engine(b).PID()))
	if err != nil {
		b.Fatal(err)
	}
	// The second field is the name in parentheses, which may hold anything.
	var skipped string
	var user, system int64
	fields := bytes.Fields(content[bytes.LastIndexByte(content, ')')+1:])
	if _, err := fmt.Sscan(string(bytes.Join(fields[10:13], []byte(" "))), &skipped, &user, &system); err != nil {
		b.Fatal(err)
	}
	return time.Duration(user+system) * 10 * time.Millisecond
}
