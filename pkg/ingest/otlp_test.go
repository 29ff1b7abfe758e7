package ingest

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	commonv1 "go.opentelemetry.io/proto/otlp/common/v1"
	logsv1 "go.opentelemetry.io/proto/otlp/logs/v1"
	resourcev1 "go.opentelemetry.io/proto/otlp/resource/v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/logboom/logboom/pkg/problem"
	"github.com/logboom/logboom/pkg/project"
	"github.com/logboom/logboom/pkg/stream"
	"github.com/logboom/logboom/pkg/token"
)

const otlpPath = "/v1/logs"

// otlpForms are the Content-Types, with the encoding of a request in each.
func otlpForms() map[string]func(proto.Message) ([]byte, error) {
	return map[string]func(proto.Message) ([]byte, error){"application/x-protobuf": proto.Marshal, "application/json": protojson.Marshal}
}

// otlpRequest returns a request with a log for each text. LogsData has the same
// fields as ExportLogsServiceRequest, whose package depends on all of gRPC.
func otlpRequest(texts ...string) *logsv1.LogsData {
	var records []*logsv1.LogRecord
	for _, text := range texts {
		records = append(records, &logsv1.LogRecord{Body: otlpText(text)})
	}
	return &logsv1.LogsData{ResourceLogs: []*logsv1.ResourceLogs{{
		Resource:  &resourcev1.Resource{Attributes: []*commonv1.KeyValue{{Key: "service.name", Value: otlpText("api")}}},
		ScopeLogs: []*logsv1.ScopeLogs{{LogRecords: records}},
	}}}
}

func otlpText(text string) *commonv1.AnyValue {
	return &commonv1.AnyValue{Value: &commonv1.AnyValue_StringValue{StringValue: text}}
}

func written(t testing.TB, write func(proto.Message) ([]byte, error), request proto.Message) string {
	t.Helper()
	body, err := write(request)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

// otlpMessages returns the two messages of answers, as in their .proto files.
func otlpMessages(t *testing.T) (status, response protoreflect.MessageDescriptor) {
	t.Helper()
	field := func(name string, number int32, kind descriptorpb.FieldDescriptorProto_Type, of string) *descriptorpb.FieldDescriptorProto {
		f := &descriptorpb.FieldDescriptorProto{Name: &name, Number: &number, Type: &kind, Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum()}
		if of != "" {
			f.TypeName = &of
		}
		return f
	}
	message := func(name string, fields ...*descriptorpb.FieldDescriptorProto) *descriptorpb.DescriptorProto {
		return &descriptorpb.DescriptorProto{Name: &name, Field: fields}
	}
	file, err := protodesc.NewFile(&descriptorpb.FileDescriptorProto{
		Name: proto.String("answers.proto"), Syntax: proto.String("proto3"),
		MessageType: []*descriptorpb.DescriptorProto{
			message("Status", field("code", 1, descriptorpb.FieldDescriptorProto_TYPE_INT32, ""), field("message", 2, descriptorpb.FieldDescriptorProto_TYPE_STRING, "")),
			message("Response", field("partial_success", 1, descriptorpb.FieldDescriptorProto_TYPE_MESSAGE, ".Partial")),
			message("Partial", field("rejected_log_records", 1, descriptorpb.FieldDescriptorProto_TYPE_INT64, ""), field("error_message", 2, descriptorpb.FieldDescriptorProto_TYPE_STRING, "")),
		},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return file.Messages().ByName("Status"), file.Messages().ByName("Response")
}

// otlpAnswer decodes an answer's body, which must have the media type.
func otlpAnswer(t *testing.T, answer *httptest.ResponseRecorder, media string, kind protoreflect.MessageDescriptor) protoreflect.Message {
	t.Helper()
	if got := answer.Header().Get("Content-Type"); got != media || answer.Header().Get("X-Request-Id") == "" {
		t.Fatalf("answer %d of type %q, not %q: %v", answer.Code, got, media, answer.Header())
	}
	message := dynamicpb.NewMessage(kind)
	read := protojson.Unmarshal
	if media == "application/x-protobuf" {
		read = proto.Unmarshal
	}
	if err := read(answer.Body.Bytes(), message); err != nil {
		t.Fatalf("answer %d %q: %v", answer.Code, answer.Body, err)
	}
	if len(message.GetUnknown()) > 0 {
		t.Fatalf("answer %d %q has unknown fields", answer.Code, answer.Body)
	}
	return message
}

func named(message protoreflect.Message, field protoreflect.Name) protoreflect.Value {
	return message.Get(message.Descriptor().Fields().ByName(field))
}

// checkAccepted checks for a 200 and the number of rejected records.
func checkAccepted(t *testing.T, answer *httptest.ResponseRecorder, media string, rejected int64) {
	t.Helper()
	if answer.Code != http.StatusOK {
		t.Fatalf("answer %d: %q", answer.Code, answer.Body)
	}
	_, response := otlpMessages(t)
	message := otlpAnswer(t, answer, media, response)
	if there := message.Has(response.Fields().ByName("partial_success")); there != (rejected > 0) {
		t.Fatalf("answer %q", answer.Body)
	}
	partial := named(message, "partial_success").Message()
	if named(partial, "rejected_log_records").Int() != rejected || (named(partial, "error_message").String() == "") != (rejected == 0) {
		t.Errorf("answer %q", answer.Body)
	}
}

// checkStatus checks an error, which is a Status in protobuf and a problem in JSON,
// and returns its message.
func checkStatus(t *testing.T, answer *httptest.ResponseRecorder, media string, status int, rpc int64, code string) string {
	t.Helper()
	var text string
	if media == mediaProtobuf {
		kind, _ := otlpMessages(t)
		message := otlpAnswer(t, answer, media, kind)
		text = named(message, "message").String()
		if got := named(message, "code").Int(); got != rpc {
			t.Errorf("answer %d with code %d, not %d", answer.Code, got, rpc)
		}
	} else {
		text = problemMessage(t, answer)
	}
	if answer.Code != status || !strings.HasPrefix(text, code+": ") {
		t.Errorf("answer %d %q, not %d %s", answer.Code, text, status, code)
	}
	if seconds, err := strconv.Atoi(answer.Header().Get("Retry-After")); (status == http.StatusServiceUnavailable || status == http.StatusTooManyRequests) != (err == nil && seconds > 0) {
		t.Errorf("answer %d with Retry-After %q", answer.Code, answer.Header().Get("Retry-After"))
	}
	return text
}

// problemMessage returns an answer's problem as the message of a Status.
func problemMessage(t *testing.T, answer *httptest.ResponseRecorder) string {
	t.Helper()
	var p problem.Problem
	if err := json.Unmarshal(answer.Body.Bytes(), &p); err != nil || answer.Header().Get("Content-Type") != "application/problem+json" {
		t.Fatalf("answer %d %q of type %q: %v", answer.Code, answer.Body, answer.Header().Get("Content-Type"), err)
	}
	return statusMessage(p)
}

func TestOTLPIsAcceptedInEachFormAndAnsweredInIt(t *testing.T) {
	t.Parallel()
	b := newBench(t, stream.Config{MaxBytes: 64 << 20})
	var want []string
	for media, write := range otlpForms() {
		for _, parameter := range []string{"", "; charset=utf-8", ";="} {
			body := written(t, write, otlpRequest("one", "two"))
			checkAccepted(t, b.post(otlpPath, body, "Content-Type", strings.ToUpper(media)+parameter), media, 0)
			want = append(want, "one", "two")
		}
	}
	if got := lines(t, b.queued(t, "LOGS_0")); !slices.Equal(got, want) {
		t.Errorf("on the queue: %q", got)
	}
}

func TestOTLPOfAnUnknownTypeIsRecognizedByItsFirstByte(t *testing.T) {
	t.Parallel()
	b := newBench(t, stream.Config{MaxBytes: 64 << 20})
	inJSON, binary := written(t, protojson.Marshal, otlpRequest("x")), written(t, proto.Marshal, otlpRequest("x"))
	for _, media := range []string{"", "text/plain", "application/x-www-form-urlencoded", "/"} {
		checkAccepted(t, b.post(otlpPath, inJSON, "Content-Type", media), "application/json", 0)
		checkAccepted(t, b.post(otlpPath, binary, "Content-Type", media), "application/json", 0)
	}
	checkAccepted(t, b.post(otlpPath, inJSON, "Content-Type", "application/protobuf"), "application/x-protobuf", 0)
	checkAccepted(t, b.post(otlpPath, "\n "+inJSON, "Content-Type", "application/json"), "application/json", 0)
	if got := lines(t, b.queued(t, "LOGS_0")); len(got) != 10 {
		t.Errorf("%d records are on the queue", len(got))
	}
}

func TestOTLPIsAcceptedInEachEncoding(t *testing.T) {
	t.Parallel()
	b := newBench(t, stream.Config{MaxBytes: 64 << 20})
	packers := map[string]func(io.Writer) (io.WriteCloser, error){
		"gzip":    func(w io.Writer) (io.WriteCloser, error) { return gzip.NewWriter(w), nil },
		"deflate": func(w io.Writer) (io.WriteCloser, error) { return zlib.NewWriter(w), nil },
		"zstd":    func(w io.Writer) (io.WriteCloser, error) { return zstd.NewWriter(w) },
	}
	for media, write := range otlpForms() {
		body := written(t, write, otlpRequest("x"))
		for encoding, pack := range packers {
			checkAccepted(t, b.post(otlpPath, otlpPacked(t, pack, body), "Content-Type", media, "Content-Encoding", encoding), media, 0)
		}
	}
	if got := lines(t, b.queued(t, "LOGS_0")); len(got) != 6 {
		t.Errorf("%d records are on the queue", len(got))
	}
}

func otlpPacked(t testing.TB, pack func(io.Writer) (io.WriteCloser, error), text string) string {
	t.Helper()
	var out bytes.Buffer
	w, err := pack(&out)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(w, text); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestOTLPBadRecordIsAPartialSuccess(t *testing.T) {
	t.Parallel()
	b := newBench(t, stream.Config{MaxBytes: 64 << 20})
	for media, write := range otlpForms() {
		body := written(t, write, otlpRequest("good", strings.Repeat("x", 1<<20), "fine"))
		checkAccepted(t, b.post(otlpPath, body, "Content-Type", media), media, 1)
		none := written(t, write, otlpRequest(strings.Repeat("x", 1<<20)))
		checkStatus(t, b.post(otlpPath, none, "Content-Type", media), media, http.StatusRequestEntityTooLarge, rpcInvalidArgument, "body_too_large")
	}
	if got := fmt.Sprint(lines(t, b.queued(t, "LOGS_0"))); got != "[good fine good fine]" {
		t.Errorf("on the queue: %s", got)
	}
}

func TestOTLPRequestWithoutRecordsIsASuccess(t *testing.T) {
	t.Parallel()
	b := newBench(t, stream.Config{MaxBytes: 64 << 20})
	for media, body := range map[string]string{"application/x-protobuf": "", "application/json": "{}"} {
		checkAccepted(t, b.post(otlpPath, body, "Content-Type", media), media, 0)
	}
	if got := b.queued(t, "LOGS_0"); len(got) != 0 {
		t.Errorf("%d messages are on the queue", len(got))
	}
}

func TestOTLPErrorIsAStatusToProtobufAndAProblemToJSON(t *testing.T) {
	t.Parallel()
	b := newBench(t, stream.Config{MaxBytes: 64 << 20})
	for media, write := range otlpForms() {
		body := written(t, write, otlpRequest("taken only whole"))
		bad := map[string]string{"application/x-protobuf": "invalid_protobuf", "application/json": "invalid_json"}[media]
		post := func(body string, header ...string) *httptest.ResponseRecorder {
			return b.post(otlpPath, body, append([]string{"Content-Type", media}, header...)...)
		}
		checkStatus(t, post(body, "Authorization", ""), media, http.StatusUnauthorized, rpcUnauthenticated, "missing_token")
		checkStatus(t, post(body, "Authorization", "Bearer "+token.New().Reveal()), media, http.StatusUnauthorized, rpcUnauthenticated, "invalid_token")
		checkStatus(t, post(body[:len(body)-1]), media, http.StatusBadRequest, rpcInvalidArgument, bad)
		checkStatus(t, post(body, "Content-Encoding", "br"), media, http.StatusUnsupportedMediaType, rpcInvalidArgument, "unsupported_encoding")
		checkStatus(t, post(body, "Idempotency-Key", strings.Repeat("k", 129)), media, http.StatusBadRequest, rpcInvalidArgument, "invalid_field")
		checkStatus(t, post(strings.Repeat(" ", 10<<20+1)), media, http.StatusRequestEntityTooLarge, rpcInvalidArgument, "body_too_large")
	}
	if got := b.queued(t, "LOGS_0"); len(got) != 0 {
		t.Errorf("%d messages are on the queue", len(got))
	}
	b.health.Drain()
	for media := range otlpForms() {
		checkStatus(t, b.post(otlpPath, "", "Content-Type", media), media, http.StatusServiceUnavailable, rpcUnavailable, "draining")
	}
}

func TestOTLPBeyondTheQuotaIsAnsweredWithRetryAfter(t *testing.T) {
	t.Parallel()
	for media, write := range otlpForms() {
		b := newBench(t, stream.Config{MaxBytes: 64 << 20})
		b.limit(t, func(s *project.Settings) { s.DailyRecords = number(2) })
		body := written(t, write, otlpRequest("a", "b", "c"))
		checkAccepted(t, b.post(otlpPath, body, "Content-Type", media), media, 0)
		answer := b.post(otlpPath, body, "Content-Type", media)
		text := checkStatus(t, answer, media, http.StatusTooManyRequests, rpcResourceExhausted, "quota_exceeded")
		if !strings.Contains(text, "daily_records is used up until 2") || answer.Header().Get("RateLimit-Limit") != "2" || answer.Header().Get("RateLimit-Remaining") != "0" {
			t.Errorf("%q: %v", text, answer.Header())
		}
		if got := b.dropped(); got["daily_records"].Records != 1 {
			t.Errorf("counted as dropped: %v", got)
		}
	}
}

func TestOTLPIdempotencyKeyIsHonoured(t *testing.T) {
	t.Parallel()
	b := newBench(t, stream.Config{MaxBytes: 64 << 20})
	body := written(t, proto.Marshal, otlpRequest("once"))
	for i := range 2 {
		answer := b.post(otlpPath, body, "Content-Type", "application/x-protobuf", "Idempotency-Key", "k")
		checkAccepted(t, answer, "application/x-protobuf", 0)
		if replayed := answer.Header().Get("Idempotency-Replayed"); (replayed == "true") != (i == 1) {
			t.Errorf("request %d: Idempotency-Replayed is %q", i, replayed)
		}
	}
	if got := lines(t, b.queued(t, "LOGS_0")); len(got) != 1 {
		t.Errorf("%d records are on the queue", len(got))
	}
}

// Many small records with large shared attributes are refused as a whole once they
// would take more memory than the server has.
func TestOTLPSharedAttributesCountAsMemory(t *testing.T) {
	t.Parallel()
	b := newBench(t, stream.Config{MaxBytes: 64 << 20})
	b.server.budget.limit = 4 << 20
	request := otlpRequest(slices.Repeat([]string{""}, 1000)...)
	resource := request.GetResourceLogs()[0].GetResource()
	resource.Attributes = append(resource.Attributes, &commonv1.KeyValue{Key: "k", Value: otlpText(strings.Repeat("v", 8<<10))})
	answer := b.post(otlpPath, written(t, proto.Marshal, request), "Content-Type", "application/x-protobuf")
	checkStatus(t, answer, "application/x-protobuf", http.StatusServiceUnavailable, rpcUnavailable, "queue_full")
	if held := b.server.budget.held.Load(); held != 0 {
		t.Errorf("%d bytes are still held", held)
	}
	if got := b.queued(t, "LOGS_0"); len(got) != 0 {
		t.Errorf("%d messages are on the queue", len(got))
	}
}

func TestOTLPAnswersOptions(t *testing.T) {
	t.Parallel()
	b := newBench(t, stream.Config{MaxBytes: 64 << 20})
	if answer := b.ask(http.MethodOptions, otlpPath, ""); answer.Code != http.StatusOK || answer.Header().Get("Allow") != "OPTIONS, POST" {
		t.Errorf("answer %d: %v", answer.Code, answer.Header())
	}
}
