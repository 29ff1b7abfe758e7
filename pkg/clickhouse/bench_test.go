package clickhouse

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/logboom/logboom/pkg/record"
)

// typicalLogs returns logs like those of containers: few distinct words, three
// pairs of metadata.
func typicalLogs(dataBytes int) []record.Log {
	logs := make([]record.Log, 64)
	for i := range logs {
		severity, number := "INFO", uint8(9)
		if i%7 == 0 {
			severity, number = "ERROR", 17
		}
		logs[i] = record.Log{
			Timestamp: noon + int64(i), Application: fmt.Sprintf("app-%d", i/16), Severity: severity, SeverityNumber: number,
			Data: strings.Repeat("x", dataBytes), Host: fmt.Sprintf("node-%d", i/32), Source: "docker",
			Metadata: []record.Pair{
				{Key: "container_id", Value: "4f5aa3e3b17c"},
				{Key: "image", Value: "registry.example/app:1.2.3"},
				{Key: "stream", Value: "stdout"},
			},
		}
	}
	return logs
}

func BenchmarkAppend(b *testing.B) {
	for _, dataBytes := range []int{100, 1000} {
		b.Run(fmt.Sprintf("data=%d", dataBytes), func(b *testing.B) {
			logs := typicalLogs(dataBytes)
			var block LogBlock
			row := Row{Received: noon, Project: project, RetentionDays: 30}
			b.SetBytes(int64(logs[0].Size()))
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if block.Rows() >= 100_000 {
					block.Reset()
				}
				row.Seq++
				block.Append(row, &logs[i%len(logs)])
			}
		})
	}
}

// BenchmarkInsert makes whole inserts, plain and compressed. It reports the processor
// time of this process, without the engine's, as client-ns/row.
func BenchmarkInsert(b *testing.B) {
	logs := typicalLogs(150)
	for name, parameters := range encodings {
		client := migrated(b, parameters)
		for _, rows := range []int{1000, 10_000, 100_000} {
			b.Run(fmt.Sprintf("way=%s/rows=%d", name, rows), func(b *testing.B) {
				var block LogBlock
				for i := range rows {
					block.Append(Row{Seq: 1, Idx: uint32(i), Received: noon, Project: project}, &logs[i%len(logs)])
				}
				b.SetBytes(int64(columnBytes(&block)))
				b.ReportAllocs()
				before := processorTime(b)
				n := 0
				for b.Loop() {
					n++
					if err := client.InsertLogs(b.Context(), fmt.Sprint(name, rows, n), &block); err != nil {
						b.Fatal(err)
					}
				}
				spent := processorTime(b) - before
				b.ReportMetric(float64(spent.Nanoseconds())/float64(n*rows), "client-ns/row")
			})
		}
	}
}

// BenchmarkLogs reads pages of a project with many rows: the first, one in the
// middle, and one with a rare text.
func BenchmarkLogs(b *testing.B) {
	for _, rows := range []int{100_000, 1_000_000} {
		client := migrated(b, "")
		fillProject(b, client, rows)
		middle := time.Unix(0, noon+int64(rows)/2)
		queries := map[string]LogQuery{
			"first":  {},
			"middle": {To: middle},
			"rare":   {Filter: quoted(b, "uixoti")},
		}
		for name, q := range queries {
			q.Project = project
			b.Run(fmt.Sprintf("page=%s/rows=%d", name, rows), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if _, err := client.Logs(b.Context(), q); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// fillProject inserts rows in messages of 500, one in 50,000 with a rare word.
func fillProject(b *testing.B, client *Client, rows int) {
	b.Helper()
	logs := typicalLogs(100)
	var block LogBlock
	for i := range rows {
		l := logs[i%len(logs)]
		l.Timestamp = noon + int64(i)
		l.Data = fmt.Sprintf("GET /orders/%d took %d ms", i*7919%1_000_003, i%977)
		if i%50_000 == 0 {
			l.Data += " quixotic"
		}
		block.Append(Row{Shard: uint8(i / 500 % 4), Seq: uint64(i / 2000), Idx: uint32(i % 500), Received: l.Timestamp, Project: project}, &l)
		if block.Rows() == 100_000 || i == rows-1 {
			if err := client.InsertLogs(b.Context(), fmt.Sprint(i), &block); err != nil {
				b.Fatal(err)
			}
			block.Reset()
		}
	}
}

// processorTime returns the processor time that this process has used so far.
func processorTime(tb testing.TB) time.Duration {
	tb.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		tb.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
