package ingest

import (
	"compress/gzip"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"time"

	commonv1 "go.opentelemetry.io/proto/otlp/common/v1"
	logsv1 "go.opentelemetry.io/proto/otlp/logs/v1"

	"github.com/logboom/logboom/pkg/stream"
)

// benchOTLP returns what a Collector in a cluster sends: ten attributes of the
// resource, two of each record, and ids of a trace.
func benchOTLP(lines []string) *logsv1.LogsData {
	random := rand.New(rand.NewPCG(3, 4))
	request := otlpRequest(lines...)
	group := request.GetResourceLogs()[0]
	for _, key := range []string{
		"service.version", "host.name", "k8s.pod.name", "k8s.namespace.name", "k8s.node.name",
		"k8s.deployment.name", "telemetry.sdk.name", "telemetry.sdk.language", "deployment.environment.name",
	} {
		group.Resource.Attributes = append(group.Resource.Attributes, &commonv1.KeyValue{Key: key, Value: otlpText("the value of " + key)})
	}
	group.ScopeLogs[0].Scope = &commonv1.InstrumentationScope{Name: "http", Version: "1.2.3"}
	now := uint64(time.Now().UnixNano())
	for i, record := range group.ScopeLogs[0].LogRecords {
		id := fmt.Appendf(nil, "%016x%08x", random.Uint64(), random.Uint32())
		record.TimeUnixNano, record.ObservedTimeUnixNano = now+uint64(i)*1e3, now
		record.SeverityNumber, record.SeverityText, record.Flags = logsv1.SeverityNumber_SEVERITY_NUMBER_INFO, "INFO", 1
		record.TraceId, record.SpanId = id[:16], id[16:]
		record.Attributes = []*commonv1.KeyValue{{Key: "code.function.name", Value: otlpText("handle")}, {Key: "http.request.method", Value: otlpText("GET")}}
	}
	return request
}

// BenchmarkOTLPIntake is BenchmarkIntake for OpenTelemetry.
func BenchmarkOTLPIntake(b *testing.B) {
	const rows = 1000
	for media, write := range otlpForms() {
		for _, encoding := range []string{"", "gzip"} {
			b.Run(strings.TrimPrefix(media, "application/")+"/"+encoding, func(b *testing.B) {
				bench := newBench(b, stream.Config{MaxBytes: 512 << 20})
				body := written(b, write, benchOTLP(benchLines(b, rows)))
				if encoding != "" {
					body = string(packed(b, gzip.NewWriter(nil), []byte(body)))
				}
				began, i := cpuTime(b), 0
				b.SetBytes(int64(len(body)))
				b.ReportAllocs()
				for b.Loop() {
					i++
					if answer := bench.post(otlpPath, body, "Content-Type", media, "Content-Encoding", encoding); answer.Code != http.StatusOK {
						b.Fatalf("answer %d: %s", answer.Code, answer.Body)
					}
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(i)/rows, "ns/line")
				b.ReportMetric(float64(cpuTime(b)-began)/float64(i)/rows, "cpu-ns/line")
			})
		}
	}
}
