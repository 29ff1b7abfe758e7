package e2e

import (
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"testing"
	"time"

	commonv1 "go.opentelemetry.io/proto/otlp/common/v1"
	logsv1 "go.opentelemetry.io/proto/otlp/logs/v1"
	resourcev1 "go.opentelemetry.io/proto/otlp/resource/v1"
	"google.golang.org/protobuf/proto"
)

func attribute(key, value string) *commonv1.KeyValue {
	return &commonv1.KeyValue{Key: key, Value: textValue(value)}
}

func textValue(value string) *commonv1.AnyValue {
	return &commonv1.AnyValue{Value: &commonv1.AnyValue_StringValue{StringValue: value}}
}

// otlpLog is a request with one log, as an SDK sends it. LogsData has the same
// fields as ExportLogsServiceRequest.
func otlpLog(t *testing.T, at time.Time) []byte {
	t.Helper()
	user := &commonv1.AnyValue{Value: &commonv1.AnyValue_KvlistValue{KvlistValue: &commonv1.KeyValueList{Values: []*commonv1.KeyValue{attribute("id", "42")}}}}
	body, err := proto.Marshal(&logsv1.LogsData{ResourceLogs: []*logsv1.ResourceLogs{{
		Resource: &resourcev1.Resource{Attributes: []*commonv1.KeyValue{attribute("service.name", "billing"), attribute("host.name", "web-1"), attribute("env", "prod")}},
		ScopeLogs: []*logsv1.ScopeLogs{{
			Scope: &commonv1.InstrumentationScope{Name: "payments", Version: "1.2.3"},
			LogRecords: []*logsv1.LogRecord{{
				TimeUnixNano: uint64(at.UnixNano()), SeverityNumber: logsv1.SeverityNumber_SEVERITY_NUMBER_WARN3, Body: textValue("from protobuf"), EventName: "payment.failed",
				Attributes: []*commonv1.KeyValue{{Key: "user", Value: user}}, Flags: 1, TraceId: []byte("0123456789abcdef"), SpanId: []byte("01234567"),
			}},
		}},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	return body
}

func TestOpenTelemetryLogComesBackAsItWasSent(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *system) {
		at := time.Now().UTC().Truncate(time.Microsecond)
		s.export(t, "application/x-protobuf", "gzip", otlpLog(t, at), "")
		inJSON := fmt.Sprintf(`{"resourceLogs":[{"scopeLogs":[{"logRecords":[
			{"timeUnixNano":"%d","severityText":"err","traceId":"5B8EFFF798038103D269B633813FC60C","spanId":"EEE19B7EC3C1B174","body":{"kvlistValue":{"values":[{"key":"n","value":{"intValue":"7"}}]}}}
		]}]}]}`, at.UnixNano())
		s.export(t, "application/json", "zstd", []byte(inJSON), "{}")
		got := s.until(t, "logs", url.Values{}, func(p page) bool { return len(p.Logs) == 2 }).Logs
		for _, l := range got {
			if l.Data == "from protobuf" {
				checkLog(t, l, log{
					Timestamp: at, Application: "billing", Severity: "WARN3", SeverityNumber: 15, Data: "from protobuf", Host: "web-1", Metadata: map[string]string{
						"env": "prod", "scope.name": "payments", "scope.version": "1.2.3", "user.id": "42", "event.name": "payment.failed",
						"trace_id": "30313233343536373839616263646566", "span_id": "3031323334353637", "trace_flags": "01",
					},
				})
				continue
			}
			checkLog(t, l, log{
				Timestamp: at, Application: l.Application, Severity: "err", SeverityNumber: 17, Data: `{"n":7}`,
				Metadata: map[string]string{"trace_id": "5b8efff798038103d269b633813fc60c", "span_id": "eee19b7ec3c1b174"},
			})
		}
	})
}

// export posts a body as an exporter does, and fails the test unless all of it is accepted.
func (s *system) export(t *testing.T, media, encoding string, body []byte, want string) {
	t.Helper()
	header := keyed(bearer(s.token))
	header["Content-Type"], header["Content-Encoding"] = media, encoding
	a, _ := insist(t, http.MethodPost, s.ingest+"/v1/logs", header, compress(t, encoding, body))
	if a.status != http.StatusOK || a.header.Get("Content-Type") != media || string(a.body) != want {
		t.Fatalf("answer %d %q: %v", a.status, a.body, a.header)
	}
}

// checkLog compares all but the id.
func checkLog(t *testing.T, got, want log) {
	t.Helper()
	want.ID = got.ID
	if !got.Timestamp.Equal(want.Timestamp) || !maps.Equal(got.Metadata, want.Metadata) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	got.Timestamp, got.Metadata, want.Timestamp, want.Metadata = time.Time{}, nil, time.Time{}, nil
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestOpenTelemetryLogWithAnUnknownTokenIsRefused(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *system) {
		for media, answered := range map[string]string{"application/x-protobuf": "application/x-protobuf", "application/json": "application/problem+json"} {
			header := bearer(newToken(t))
			header["Content-Type"] = media
			a, _ := insist(t, http.MethodPost, s.ingest+"/v1/logs", header, otlpLog(t, time.Now()))
			if a.status != http.StatusUnauthorized || a.header.Get("Content-Type") != answered || a.header.Get("X-Request-Id") == "" {
				t.Errorf("answer %d %q: %v", a.status, a.body, a.header)
			}
		}
		if p := s.page(t, "logs", url.Values{}); len(p.Logs) != 0 {
			t.Errorf("%d logs are stored", len(p.Logs))
		}
	})
}
