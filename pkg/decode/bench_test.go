package decode

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	commonv1 "go.opentelemetry.io/proto/otlp/common/v1"
	logsv1 "go.opentelemetry.io/proto/otlp/logs/v1"
	resourcev1 "go.opentelemetry.io/proto/otlp/resource/v1"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/logboom/logboom/pkg/record"
)

// benchLines returns JSON logs with data of about size bytes: bare logs, or logs with
// all usual fields.
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

// corpusLines returns lines as programs write them: those of the *.log files in the
// folder LOGBOOM_CORPUS, or generated ones.
func corpusLines(tb testing.TB, n int) []string {
	tb.Helper()
	folder := os.Getenv("LOGBOOM_CORPUS")
	if folder == "" {
		return benchLines(n, 150, false)
	}
	files, err := filepath.Glob(filepath.Join(folder, "*.log"))
	if err != nil || len(files) == 0 {
		tb.Fatalf("LOGBOOM_CORPUS: no *.log in %q (%v)", folder, err)
	}
	var lines []string
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			tb.Fatal(err)
		}
		lines = append(lines, strings.Split(strings.TrimSpace(string(content)), "\n")...)
	}
	rand.New(rand.NewPCG(1, 2)).Shuffle(len(lines), func(i, j int) { lines[i], lines[j] = lines[j], lines[i] })
	for len(lines) < n {
		lines = append(lines, lines...)
	}
	return lines[:n]
}

// dockerBody returns lines as Docker sends them.
func dockerBody(tb testing.TB, lines []string) []byte {
	tb.Helper()
	var body bytes.Buffer
	for i, line := range lines {
		text, err := json.Marshal(strings.TrimRight(line, "\r"))
		if err != nil {
			tb.Fatal(err)
		}
		fmt.Fprintf(&body, `{"event":{"line":%s,"source":"stdout","tag":"api"},"time":"1767319445.%06d","host":"node-1"}`, text, i)
	}
	return body.Bytes()
}

// BenchmarkHEC decodes a body of Docker's that was read.
func BenchmarkHEC(b *testing.B) {
	const rows = 1000
	body := dockerBody(b, corpusLines(b, rows))
	d, emit := NewDecoder(DefaultLimits()), func(*record.Log) {}
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		if r := d.HEC(body, defaults(), emit); r.Accepted != rows {
			b.Fatalf("%+v", r)
		}
	}
	perRow(b, rows)
}

// BenchmarkHECRead reads and decodes such a body, plain and compressed.
func BenchmarkHECRead(b *testing.B) {
	const rows = 1000
	body := dockerBody(b, corpusLines(b, rows))
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	if _, err := w.Write(body); err != nil {
		b.Fatal(err)
	}
	if err := w.Close(); err != nil {
		b.Fatal(err)
	}
	for encoding, sent := range map[string][]byte{"identity": body, "gzip": packed.Bytes()} {
		b.Run("encoding="+encoding, func(b *testing.B) {
			d, emit, r := NewDecoder(DefaultLimits()), func(*record.Log) {}, bytes.NewReader(nil)
			var dst []byte
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				r.Reset(sent)
				var err error
				if dst, err = d.ReadBody(dst[:0], r, encoding); err != nil {
					b.Fatal(err)
				}
				d.HEC(dst, defaults(), emit)
			}
			perRow(b, rows)
		})
	}
}

func BenchmarkRaw(b *testing.B) {
	const rows = 1000
	body := []byte(strings.Join(corpusLines(b, rows), "\n"))
	d, emit := NewDecoder(DefaultLimits()), func(*record.Log) {}
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		d.Raw(body, defaults(), Origin{Host: "h"}, emit)
	}
	perRow(b, rows)
}

func BenchmarkLineSeverity(b *testing.B) {
	finder := levelFinder{scan: scanner{depth: 64, textLimit: jsonWithin}}
	for name, line := range map[string]string{
		"json":   `{"ts":1767319445,"caller":"main.go:7","level":"info","msg":"started","port":8080}`,
		"logfmt": `ts=2026-01-02T03:04:05Z caller=main.go:7 level=info msg=started port=8080`,
		"word":   "2026-01-02 03:04:05,678 INFO  [main] com.example.App: started on port 8080",
		"none":   "connection from 10.0.0.1 port 22 closed after 30 s by the other side, 17 packets",
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				finder.severity(line)
			}
		})
	}
}

// benchRequest returns what a Collector in a cluster sends: ten attributes of the
// resource, three of each record, and ids of a trace.
func benchRequest(records, size int) *logsv1.LogsData {
	rng := rand.New(rand.NewPCG(1, 2))
	pair := func(key, value string) *commonv1.KeyValue { return &commonv1.KeyValue{Key: key, Value: text(value)} }
	var resource []*commonv1.KeyValue
	for _, key := range []string{
		"service.name", "service.version", "host.name", "k8s.pod.name", "k8s.namespace.name",
		"k8s.node.name", "k8s.deployment.name", "telemetry.sdk.name", "telemetry.sdk.language", "deployment.environment.name",
	} {
		resource = append(resource, pair(key, "the value of "+key))
	}
	entries := make([]*logsv1.LogRecord, records)
	for i := range entries {
		id := fmt.Appendf(nil, "%016x%08x", rng.Uint64(), rng.Uint32())
		entries[i] = &logsv1.LogRecord{
			TimeUnixNano: uint64(now.UnixNano()) + uint64(i), ObservedTimeUnixNano: uint64(now.UnixNano()), SeverityNumber: 9, SeverityText: "INFO",
			Body:       text((fmt.Sprintf("GET /v2/servers/%d ", rng.IntN(1000)) + strings.Repeat("request handled by worker ", size/20))[:size]),
			Attributes: []*commonv1.KeyValue{pair("http.request.method", "GET"), pair("code.function.name", "handle"), {Key: "http.response.status_code", Value: &commonv1.AnyValue{Value: &commonv1.AnyValue_IntValue{IntValue: 200}}}},
			TraceId:    id[:16], SpanId: id[16:], Flags: 1,
		}
	}
	return &logsv1.LogsData{ResourceLogs: []*logsv1.ResourceLogs{{
		Resource:  &resourcev1.Resource{Attributes: resource},
		ScopeLogs: []*logsv1.ScopeLogs{{Scope: &commonv1.InstrumentationScope{Name: "http", Version: "1.2.3"}, LogRecords: entries}},
	}}}
}

func BenchmarkOTLP(b *testing.B) {
	for _, rows := range []int{1, 1000} {
		for _, size := range []int{50, 150, 1000} {
			request := benchRequest(rows, size)
			d := NewDecoder(DefaultLimits())
			run := func(form string, body []byte, decode func([]byte, Defaults, func(*record.Log)) Result) {
				b.Run(fmt.Sprintf("rows=%d/bytes=%d/%s", rows, size, form), func(b *testing.B) {
					b.SetBytes(int64(len(body)))
					b.ReportAllocs()
					for b.Loop() {
						if r := decode(body, defaults(), func(*record.Log) {}); r.Accepted != rows {
							b.Fatalf("%+v", r)
						}
					}
					perRow(b, rows)
				})
			}
			run("protobuf", protoBody(b, request), d.OTLPProto)
			run("json", jsonBody(b, protojson.MarshalOptions{}, request), d.OTLPJSON)
		}
	}
}
