package decode

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/logboom/logboom/pkg/record"
)

// benchLines makes JSON logs with data of about size bytes: bare ones, and
// ones with all that a usual sender gives.
func benchLines(rows, size int, full bool) []string {
	rng := rand.New(rand.NewPCG(1, 2))
	lines := make([]string, rows)
	for i := range lines {
		data := fmt.Sprintf("%016x GET /v2/servers/%d status: %d len: %d %s", rng.Uint64(), rng.IntN(1000), 200+rng.IntN(3), rng.IntN(9000),
			strings.Repeat("request handled by worker ", size/20))[:size]
		lines[i] = fmt.Sprintf(`{"data":"%s"}`, data)
		if full {
			lines[i] = fmt.Sprintf(`{"timestamp":"2026-01-02T03:04:%02d.%06dZ","severity":"info","application":"api","data":"%s","metadata":{"env":"prod","user":{"id":%d}}}`,
				rng.IntN(5), rng.IntN(1e6), data, rng.IntN(1e6))
		}
	}
	return lines
}

// grid runs a benchmark over entries × bytes of data × shape.
func grid(b *testing.B, bench func(b *testing.B, rows int, body []byte)) {
	for _, rows := range []int{1, 1000} {
		for _, size := range []int{50, 150, 1000} {
			for _, full := range []bool{false, true} {
				lines := benchLines(rows, size, full)
				name := fmt.Sprintf("rows=%d/bytes=%d/full=%v", rows, size, full)
				b.Run(name+"/lines", func(b *testing.B) { bench(b, rows, []byte(strings.Join(lines, "\n"))) })
				b.Run(name+"/array", func(b *testing.B) { bench(b, rows, []byte("["+strings.Join(lines, ",")+"]")) })
			}
		}
	}
}

func BenchmarkLogs(b *testing.B) {
	grid(b, func(b *testing.B, rows int, body []byte) {
		d, emit := NewDecoder(DefaultLimits()), func(*record.Log) {}
		b.SetBytes(int64(len(body)))
		b.ReportAllocs()
		for b.Loop() {
			if r := d.Logs(body, defaults(), emit); r.Accepted != rows {
				b.Fatalf("%+v", r)
			}
		}
		perRow(b, rows)
	})
}

// BenchmarkReadAndDecode is all of it, from the bytes sent to the last record.
func BenchmarkReadAndDecode(b *testing.B) {
	text := []byte(strings.Join(benchLines(1000, 150, false), "\n"))
	for name, body := range compressed(b, text) {
		b.Run("encoding="+name, func(b *testing.B) {
			d, emit, r := NewDecoder(DefaultLimits()), func(*record.Log) {}, bytes.NewReader(nil)
			var dst []byte
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			for b.Loop() {
				r.Reset(body)
				var err error
				if dst, err = d.ReadBody(dst[:0], r, encoding(name)); err != nil {
					b.Fatal(err)
				}
				d.Logs(dst, defaults(), emit)
			}
			perRow(b, 1000)
		})
	}
}

func BenchmarkTime(b *testing.B) {
	for _, text := range []string{"2026-01-02T03:04:05.123456Z", "1700000000", "1700000000.123457"} {
		b.Run(text, func(b *testing.B) {
			for b.Loop() {
				if _, ok := ParseTimestamp(text); !ok {
					b.Fatal("not read")
				}
			}
		})
	}
}

func BenchmarkSeverity(b *testing.B) {
	for b.Loop() {
		if record.SeverityNumber(severityWord("[Warning]")) != 13 {
			b.Fatal("not known")
		}
	}
}

func perRow(b *testing.B, rows int) {
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(rows), "ns/row")
}
