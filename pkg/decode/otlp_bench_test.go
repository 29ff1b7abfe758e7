package decode

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	commonv1 "go.opentelemetry.io/proto/otlp/common/v1"
	logsv1 "go.opentelemetry.io/proto/otlp/logs/v1"
	resourcev1 "go.opentelemetry.io/proto/otlp/resource/v1"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/logboom/logboom/pkg/record"
)

// benchRequest is what a Collector in a cluster sends: ten attributes of the
// resource, three of each record, ids of a trace.
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
