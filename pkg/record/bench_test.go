package record

import (
	"fmt"
	"strings"
	"testing"
)

// grid runs a benchmark over rows × bytes a row. Lines look like real ones; longer
// ones are several joined.
func grid(b *testing.B, bench func(b *testing.B, logs []Log)) {
	for _, rows := range []int{1, 100, 1000} {
		for _, size := range []int{50, 150, 1000} {
			lines := realisticLines(rows * (1 + size/100))
			logs := make([]Log, rows)
			for i := range logs {
				text := strings.Join(lines[i*(1+size/100):(i+1)*(1+size/100)], " ")
				logs[i] = Log{Timestamp: 1767323045123456789 + int64(i)*1e6, Application: "api", SeverityNumber: 9, Severity: "INFO",
					Data: text[:size], Host: "node-1", Metadata: []Pair{{"env", "prod"}, {"line", fmt.Sprint(i)}}}
			}
			b.Run(fmt.Sprintf("rows=%d/bytes=%d", rows, size), func(b *testing.B) { bench(b, logs) })
		}
	}
}

func BenchmarkEncode(b *testing.B) {
	grid(b, func(b *testing.B, logs []Log) { benchmarkEncode(b, logs) })
}

func BenchmarkRead(b *testing.B) {
	grid(b, func(b *testing.B, logs []Log) { benchmarkRead(b, logs) })
}

// BenchmarkCorpus measures bodies of 1000 lines of each file in the folder
// that LOGBOOM_CORPUS names.
func BenchmarkCorpus(b *testing.B) {
	for name, lines := range corpus(b) {
		logs := make([]Log, 1000)
		for i := range logs {
			logs[i] = Log{Timestamp: 1767323045123456789, Application: name, SeverityNumber: 9, Severity: "INFO", Data: lines[i]}
		}
		b.Run("encode/"+name, func(b *testing.B) { benchmarkEncode(b, logs) })
		b.Run("read/"+name, func(b *testing.B) { benchmarkRead(b, logs) })
	}
}

func benchmarkEncode(b *testing.B, logs []Log) {
	batch, dst := new(Batch), []byte(nil)
	b.SetBytes(textOf(logs))
	b.ReportAllocs()
	for b.Loop() {
		batch.Reset(KindLog, "01JPROJECT", 30)
		for i := range logs {
			batch.AppendLog(&logs[i])
		}
		dst = AppendBatch(dst[:0], batch)
	}
	perRow(b, len(logs))
	b.ReportMetric(float64(len(dst))/float64(len(logs)), "B/row")
}

func benchmarkRead(b *testing.B, logs []Log) {
	message := AppendBatch(nil, logBatch(logs...))
	var r Reader
	var l Log
	b.SetBytes(textOf(logs))
	b.ReportAllocs()
	for b.Loop() {
		r.Reset(message)
		s, err := r.NextSection()
		if err != nil {
			b.Fatal(err)
		}
		for ok := true; ok; {
			if ok, err = s.NextLog(&l); err != nil {
				b.Fatal(err)
			}
		}
	}
	perRow(b, len(logs))
}

func textOf(logs []Log) int64 {
	n := 0
	for i := range logs {
		n += logs[i].Size()
	}
	return int64(n)
}

func perRow(b *testing.B, rows int) {
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(rows), "ns/row")
}
