package e2e

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/logboom/logboom/pkg/clickhouse"
	"github.com/logboom/logboom/pkg/embedded/engine/enginetest"
	"github.com/logboom/logboom/pkg/record"
)

// The benchmarks of this file compare each setting against power loss with the
// engine's default, on one machine in one run. docs/performance.md has their
// figures. TMPDIR must be a folder on the disk to be measured.

// BenchmarkDurabilityPublish measures a message from its publication to its
// acknowledgement, with one sender and with 64 senders.
func BenchmarkDurabilityPublish(b *testing.B) {
	for _, bytes := range []int{1 << 10, 64 << 10, 512 << 10} {
		for _, senders := range []int{1, 64} {
			for _, always := range []bool{true, false} {
				b.Run(fmt.Sprintf("bytes=%d/senders=%d/sync=%s", bytes, senders, syncName(always)), func(b *testing.B) {
					benchPublish(b, syncedQueue(b, always), make([]byte, bytes), senders)
				})
			}
		}
	}
}

func syncName(always bool) string {
	if always {
		return "always"
	}
	return "default"
}

// syncedQueue starts a queue that syncs each write or, if synced is false, every
// two minutes as by default.
func syncedQueue(b *testing.B, always bool) jetstream.JetStream {
	b.Helper()
	srv, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: server.RANDOM_PORT, MaxPayload: 8 << 20, NoLog: true, NoSigs: true,
		JetStream: true, StoreDir: b.TempDir(), SyncAlways: always,
	})
	if err != nil {
		b.Fatal(err)
	}
	srv.Start()
	b.Cleanup(func() { srv.Shutdown(); srv.WaitForShutdown() })
	nc, err := nats.Connect(srv.ClientURL(), nats.InProcessServer(srv))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		b.Fatal(err)
	}
	return js
}

func benchPublish(b *testing.B, js jetstream.JetStream, body []byte, senders int) {
	cfg := jetstream.StreamConfig{Name: "LOGS_0", Subjects: []string{"logs.0"}, MaxMsgs: 2000}
	if _, err := js.CreateStream(b.Context(), cfg); err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(body)))
	b.SetParallelism((senders + 1) / 2)
	times := newLatencies(b)
	send := func() {
		began := time.Now()
		if _, err := js.Publish(b.Context(), cfg.Subjects[0], body); err != nil {
			b.Error(err)
		}
		times.add(time.Since(began))
	}
	if senders == 1 {
		for b.Loop() {
			send()
		}
		times.report()
		return
	}
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			send()
		}
	})
	times.report()
}

// latencies keeps the newest durations, for their median and 99th percentile.
type latencies struct {
	b    *testing.B
	next atomic.Int64
	kept [8192]atomic.Int64
}

func newLatencies(b *testing.B) *latencies { return &latencies{b: b} }

func (l *latencies) add(d time.Duration) {
	l.kept[(l.next.Add(1)-1)%int64(len(l.kept))].Store(int64(d))
}

func (l *latencies) report() {
	count := min(l.next.Load(), int64(len(l.kept)))
	if count == 0 {
		return
	}
	sorted := make([]int64, count)
	for i := range sorted {
		sorted[i] = l.kept[i].Load()
	}
	slices.Sort(sorted)
	l.b.ReportMetric(float64(sorted[count/2])/1e6, "p50-ms")
	l.b.ReportMetric(float64(sorted[count*99/100])/1e6, "p99-ms")
}

// BenchmarkDurabilitySwap measures a step of the ledger: one compare-and-swap.
func BenchmarkDurabilitySwap(b *testing.B) {
	for _, always := range []bool{true, false} {
		b.Run("sync="+syncName(always), func(b *testing.B) {
			kv, err := syncedQueue(b, always).CreateKeyValue(b.Context(), jetstream.KeyValueConfig{Bucket: "LEDGER", History: 1})
			if err != nil {
				b.Fatal(err)
			}
			value := make([]byte, 200)
			revision, err := kv.Create(b.Context(), "w.LOGS_0", value)
			if err != nil {
				b.Fatal(err)
			}
			times := newLatencies(b)
			for b.Loop() {
				began := time.Now()
				if revision, err = kv.Update(b.Context(), "w.LOGS_0", value, revision); err != nil {
					b.Fatal(err)
				}
				times.add(time.Since(began))
			}
			times.report()
		})
	}
}

// unsynced resets a table's settings against power loss to the defaults.
const unsynced = "ALTER TABLE logs MODIFY SETTING fsync_after_insert = 0, fsync_part_directory = 0, " +
	"min_rows_to_fsync_after_merge = 0, min_compressed_bytes_to_fsync_after_merge = 0"

// BenchmarkDurabilityInsert measures one insert into the table of logs while
// merges run.
func BenchmarkDurabilityInsert(b *testing.B) {
	for _, rows := range []int{100, 10_000, 100_000} {
		for _, setting := range []string{"on", "off"} {
			b.Run(fmt.Sprintf("rows=%d/fsync=%s", rows, setting), func(b *testing.B) {
				benchInsert(b, rows, setting == "off")
			})
		}
	}
}

func benchInsert(b *testing.B, rows int, careless bool) {
	address := enginetest.URL(b)
	client, err := clickhouse.Open(clickhouse.Config{URL: address})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { client.Close() })
	if err := client.Migrate(b.Context()); err != nil {
		b.Fatal(err)
	}
	if careless {
		run(b, address, unsynced)
	}
	block := logBlock(rows)
	times := newLatencies(b)
	inserts := 0
	for b.Loop() {
		inserts++
		began := time.Now()
		if err := client.InsertLogs(b.Context(), fmt.Sprintf("insert-%d", inserts), block); err != nil {
			b.Fatal(err)
		}
		times.add(time.Since(began))
	}
	times.report()
}

func logBlock(rows int) *clickhouse.LogBlock {
	block, now := new(clickhouse.LogBlock), time.Now().UnixNano()
	for i := range rows {
		block.Append(clickhouse.Row{Seq: 1, Idx: uint32(i), Received: now, Project: "bench~12345678", RetentionDays: 30}, &record.Log{
			Timestamp: now + int64(i), Application: "bench", Severity: "INFO", SeverityNumber: 9, Host: "node-1",
			Data: fmt.Sprintf("request %d of user %x took %d ms", i, uint32(i)*2654435761, i%977) + strings.Repeat(" and more", 12),
		})
	}
	return block
}

// run executes a statement in the address's database.
func run(b *testing.B, address, statement string) {
	b.Helper()
	u, err := url.Parse(address)
	if err != nil {
		b.Fatal(err)
	}
	u.RawQuery = url.Values{"database": {strings.Trim(u.Path, "/")}}.Encode()
	u.Path = "/"
	ctx, cancel := context.WithTimeout(b.Context(), time.Minute)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, u.String(), bytes.NewReader([]byte(statement)))
	if err != nil {
		b.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		b.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		b.Fatalf("%s: status %d", statement, response.StatusCode)
	}
}
