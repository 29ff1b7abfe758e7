package decode

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	commonv1 "go.opentelemetry.io/proto/otlp/common/v1"
	logsv1 "go.opentelemetry.io/proto/otlp/logs/v1"
	resourcev1 "go.opentelemetry.io/proto/otlp/resource/v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/logboom/logboom/pkg/record"
)

// LogsData has the same fields as ExportLogsServiceRequest, whose package depends on
// all of gRPC.

// wideLimits are so wide that the oracle can ignore the limits.
func wideLimits() Limits {
	l := DefaultLimits()
	l.Keys, l.Key, l.Value, l.Record, l.Decoded, l.Depth = 1<<20, 1<<20, 1<<24, 1<<24, 1<<40, 10_000
	return l
}

// wantOTLP maps a request that the OpenTelemetry project's own library decoded.
func wantOTLP(request *logsv1.LogsData) []record.Log {
	var logs []record.Log
	for _, resource := range request.GetResourceLogs() {
		for _, scope := range resource.GetScopeLogs() {
			for _, entry := range scope.GetLogRecords() {
				logs = append(logs, wantLog(resource.GetResource(), scope.GetScope(), entry))
			}
		}
	}
	return logs
}

// oracle collects one log's fields.
type oracle struct{ log record.Log }

func wantLog(resource *resourcev1.Resource, scope *commonv1.InstrumentationScope, entry *logsv1.LogRecord) record.Log {
	o := oracle{record.Log{Data: bodyText(entry.GetBody())}}
	o.attributes(resource.GetAttributes())
	o.attributes(scope.GetAttributes())
	o.setUnless("", "scope.name", scope.GetName())
	o.setUnless("", "scope.version", scope.GetVersion())
	o.attributes(entry.GetAttributes())
	o.severity(entry)
	o.time(entry)
	o.setUnless(strings.Repeat("0", 32), "trace_id", idText(entry.GetTraceId(), 16))
	o.setUnless(strings.Repeat("0", 16), "span_id", idText(entry.GetSpanId(), 8))
	o.setUnless("00", "trace_flags", fmt.Sprintf("%02x", entry.GetFlags()&0xFF))
	o.setUnless("", "event.name", entry.GetEventName())
	o.setUnless("0", "dropped_attributes_count", strconv.Itoa(int(entry.GetDroppedAttributesCount())))
	if o.log.Application == "" {
		o.log.Application = defaults().Application
	}
	return o.log
}

func idText(id []byte, length int) string {
	if len(id) != length {
		return ""
	}
	return hex.EncodeToString(id)
}

func (o *oracle) setUnless(none, key, value string) {
	if value != none && value != "" {
		o.set(key, value)
	}
}

func (o *oracle) set(key, value string) {
	i := slices.IndexFunc(o.log.Metadata, func(p record.Pair) bool { return p.Key == key })
	if i < 0 {
		o.log.Metadata = append(o.log.Metadata, record.Pair{Key: key, Value: value})
		return
	}
	o.log.Metadata[i].Value = value
}

func (o *oracle) attributes(attributes []*commonv1.KeyValue) {
	for _, a := range attributes {
		text := valueText(a.GetValue(), true)
		switch a.GetValue().GetValue().(type) {
		case *commonv1.AnyValue_KvlistValue:
			o.flatten(a.GetKey(), a.GetValue())
			continue
		case *commonv1.AnyValue_ArrayValue, *commonv1.AnyValue_StringValueStrindex, nil:
			o.set(a.GetKey(), text)
			continue
		}
		switch a.GetKey() {
		case "service.name":
			o.log.Application = text
		case "host.name":
			o.log.Host = text
		default:
			o.set(a.GetKey(), text)
		}
	}
}

func (o *oracle) flatten(key string, value *commonv1.AnyValue) {
	inner := value.GetKvlistValue().GetValues()
	for _, kv := range inner {
		o.flatten(key+"."+kv.GetKey(), kv.GetValue())
	}
	if len(inner) == 0 {
		o.set(key, valueText(value, true))
	}
}

func (o *oracle) severity(entry *logsv1.LogRecord) {
	number := entry.GetSeverityNumber()
	if number < 0 || number > 24 {
		o.set("severity_number", strconv.Itoa(int(number)))
		number = 0
	}
	word := severityWord(entry.GetSeverityText())
	switch {
	case word == "" && number == 0:
		word, number = "INFO", 9
	case word == "":
		word = strings.TrimPrefix(logsv1.SeverityNumber_name[int32(number)], "SEVERITY_NUMBER_")
	case number == 0:
		number = logsv1.SeverityNumber(record.SeverityNumber(word))
	}
	o.log.Severity, o.log.SeverityNumber = word, uint8(number)
}

func (o *oracle) time(entry *logsv1.LogRecord) {
	sent := entry.GetTimeUnixNano()
	if sent == 0 {
		sent = entry.GetObservedTimeUnixNano()
	}
	def := defaults()
	oldest, latest := uint64(def.Oldest.UnixNano()), uint64(def.Now.Add(maxAhead).UnixNano())
	used := min(max(sent, oldest), latest)
	if sent == 0 {
		used = uint64(def.Now.UnixNano())
	} else if used != sent {
		o.set("timestamp_original", strconv.FormatUint(sent, 10))
	}
	o.log.Timestamp = int64(used)
}

func bodyText(value *commonv1.AnyValue) string { return valueText(value, true) }

// valueText returns a value as text, without quotes if it is not inside another.
func valueText(value *commonv1.AnyValue, bare bool) string {
	quote := quotedText
	if bare {
		quote = func(text string) string { return text }
	}
	switch v := value.GetValue().(type) {
	case *commonv1.AnyValue_StringValue:
		return quote(v.StringValue)
	case *commonv1.AnyValue_BytesValue:
		return quote(base64.StdEncoding.EncodeToString(v.BytesValue))
	case *commonv1.AnyValue_BoolValue:
		return strconv.FormatBool(v.BoolValue)
	case *commonv1.AnyValue_IntValue:
		return strconv.FormatInt(v.IntValue, 10)
	case *commonv1.AnyValue_DoubleValue:
		return doubleText(v.DoubleValue, quote)
	case *commonv1.AnyValue_ArrayValue:
		var parts []string
		for _, inner := range v.ArrayValue.GetValues() {
			parts = append(parts, valueText(inner, false))
		}
		return "[" + strings.Join(parts, ",") + "]"
	case *commonv1.AnyValue_KvlistValue:
		var parts []string
		for _, inner := range v.KvlistValue.GetValues() {
			parts = append(parts, quotedText(inner.GetKey())+":"+valueText(inner.GetValue(), false))
		}
		return "{" + strings.Join(parts, ",") + "}"
	}
	if bare {
		return ""
	}
	return "null"
}

func doubleText(f float64, quote func(string) string) string {
	switch {
	case math.IsNaN(f):
		return quote("NaN")
	case math.IsInf(f, 0):
		return quote(strings.TrimPrefix(strings.Replace(fmt.Sprint(f), "Inf", "Infinity", 1), "+"))
	case f == 0 && math.Signbit(f):
		return "-0"
	}
	text, err := json.Marshal(f)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// quotedText escapes only what JSON requires.
func quotedText(text string) string {
	special := regexp.MustCompile("[\x00-\x1f\"\\\\]")
	return `"` + special.ReplaceAllStringFunc(text, func(c string) string {
		short, err := json.Marshal(c)
		if err != nil {
			panic(err)
		}
		if c == "\b" || c == "\f" {
			return fmt.Sprintf(`\u%04x`, c[0])
		}
		return string(short[1 : len(short)-1])
	}) + `"`
}

// genRequest generates requests of all shapes.
func genRequest(t *rapid.T) *logsv1.LogsData {
	request := &logsv1.LogsData{}
	for range rapid.IntRange(0, 3).Draw(t, "resources") {
		resource := &logsv1.ResourceLogs{SchemaUrl: "https://example.com"}
		if rapid.Bool().Draw(t, "resource") {
			resource.Resource = &resourcev1.Resource{Attributes: genAttributes(t)}
		}
		for range rapid.IntRange(0, 3).Draw(t, "scopes") {
			scope := &logsv1.ScopeLogs{}
			if rapid.Bool().Draw(t, "scope") {
				scope.Scope = &commonv1.InstrumentationScope{Name: genText(t), Version: genText(t), Attributes: genAttributes(t)}
			}
			for range rapid.IntRange(0, 4).Draw(t, "records") {
				scope.LogRecords = append(scope.LogRecords, genRecord(t))
			}
			resource.ScopeLogs = append(resource.ScopeLogs, scope)
		}
		request.ResourceLogs = append(request.ResourceLogs, resource)
	}
	return request
}

func genRecord(t *rapid.T) *logsv1.LogRecord {
	times := rapid.SampledFrom([]uint64{0, 1, uint64(now.UnixNano()), uint64(now.UnixNano()) - 12345, math.MaxInt64, math.MaxUint64})
	return &logsv1.LogRecord{
		TimeUnixNano: times.Draw(t, "time"), ObservedTimeUnixNano: times.Draw(t, "observed"),
		SeverityNumber: logsv1.SeverityNumber(rapid.Int32Range(-1, 25).Draw(t, "severity")),
		SeverityText:   rapid.SampledFrom([]string{"", " [Warn]", "mine", "err", "D"}).Draw(t, "word"),
		Body:           genValue(t, 3), Attributes: genAttributes(t),
		DroppedAttributesCount: rapid.Uint32Range(0, 2).Draw(t, "dropped"), Flags: rapid.SampledFrom([]uint32{0, 1, 0x101, 0x100}).Draw(t, "flags"),
		TraceId:   rapid.SampledFrom([][]byte{nil, make([]byte, 16), []byte("0123456789abcdef"), []byte("short")}).Draw(t, "trace"),
		SpanId:    rapid.SampledFrom([][]byte{nil, make([]byte, 8), []byte("\x00\xff345678"), []byte("far too long")}).Draw(t, "span"),
		EventName: genText(t),
	}
}

func genAttributes(t *rapid.T) []*commonv1.KeyValue {
	most := rapid.SampledFrom([]int{0, 3, 20}).Draw(t, "most")
	var attributes []*commonv1.KeyValue
	for range rapid.IntRange(0, most).Draw(t, "attributes") {
		attributes = append(attributes, &commonv1.KeyValue{Key: genKey(t), Value: genValue(t, 3)})
	}
	return attributes
}

func genKey(t *rapid.T) string {
	if rapid.IntRange(0, 2).Draw(t, "any key") > 0 {
		return rapid.StringN(0, 3, 8).Draw(t, "key")
	}
	return rapid.SampledFrom([]string{"service.name", "host.name", "scope.name", "trace_id", "a", "a.b", "b", ""}).Draw(t, "known key")
}

func genText(t *rapid.T) string {
	return rapid.OneOf(rapid.Just(""), rapid.String(), rapid.SampledFrom([]string{"plain", "\"\\\b\f\n\r\t\x00\x7f", "é🚀\u2028"})).Draw(t, "text")
}

func genValue(t *rapid.T, depth int) *commonv1.AnyValue {
	kinds := 6
	if depth > 0 {
		kinds = 8
	}
	switch rapid.IntRange(0, kinds).Draw(t, "kind") {
	case 0:
		return &commonv1.AnyValue{Value: &commonv1.AnyValue_BoolValue{BoolValue: rapid.Bool().Draw(t, "bool")}}
	case 1:
		return &commonv1.AnyValue{Value: &commonv1.AnyValue_IntValue{IntValue: rapid.Int64().Draw(t, "int")}}
	case 2:
		return &commonv1.AnyValue{Value: &commonv1.AnyValue_DoubleValue{DoubleValue: rapid.OneOf(rapid.Float64(), rapid.SampledFrom([]float64{0, 1, 1.5, 1e21, 1e-7, math.Inf(1), math.Inf(-1), math.NaN()})).Draw(t, "double")}}
	case 3:
		return &commonv1.AnyValue{Value: &commonv1.AnyValue_BytesValue{BytesValue: rapid.SliceOf(rapid.Byte()).Draw(t, "bytes")}}
	case 4:
		return &commonv1.AnyValue{}
	case 5, 6:
		return &commonv1.AnyValue{Value: &commonv1.AnyValue_StringValue{StringValue: genText(t)}}
	case 7:
		list := &commonv1.ArrayValue{}
		for range rapid.IntRange(0, 3).Draw(t, "length") {
			list.Values = append(list.Values, genValue(t, depth-1))
		}
		return &commonv1.AnyValue{Value: &commonv1.AnyValue_ArrayValue{ArrayValue: list}}
	}
	list := &commonv1.KeyValueList{}
	for range rapid.IntRange(0, 3).Draw(t, "length") {
		list.Values = append(list.Values, &commonv1.KeyValue{Key: genKey(t), Value: genValue(t, depth-1)})
	}
	return &commonv1.AnyValue{Value: &commonv1.AnyValue_KvlistValue{KvlistValue: list}}
}

// protoBody and jsonBody return a request as OpenTelemetry's libraries send it.
func protoBody(t interface{ Fatal(...any) }, request *logsv1.LogsData) []byte {
	body, err := proto.Marshal(request)
	if err != nil {
		t.Fatal(err)
	}
	return body
}

func jsonBody(t interface{ Fatal(...any) }, options protojson.MarshalOptions, request *logsv1.LogsData) []byte {
	body, err := options.Marshal(request)
	if err != nil {
		t.Fatal(err)
	}
	return hexIDs(body)
}

// hexIDs writes ids in hexadecimal, as OTLP does; protobuf's own mapping uses base64.
func hexIDs(body []byte) []byte {
	id := regexp.MustCompile(`("(?:traceId|spanId|trace_id|span_id)": ?")([A-Za-z0-9+/=]*)"`)
	return id.ReplaceAllFunc(body, func(found []byte) []byte {
		parts := id.FindSubmatch(found)
		raw, err := base64.StdEncoding.DecodeString(string(parts[2]))
		if err != nil {
			return found // an attribute of that name
		}
		return fmt.Appendf(nil, "%s%X\"", parts[1], raw)
	})
}

func checkLogs(t interface{ Fatalf(string, ...any) }, form string, got, want []record.Log) {
	if len(got) != len(want) {
		t.Fatalf("%s: %d logs, want %d", form, len(got), len(want))
	}
	for i := range got {
		if g, w := fmt.Sprintf("%#v", got[i]), fmt.Sprintf("%#v", want[i]); g != w {
			t.Fatalf("%s, record %d:\n got %s\nwant %s", form, i, g, w)
		}
	}
}

func TestOTLPAgreesWithItsOwnLibrary(t *testing.T) {
	t.Parallel()
	protoDecoder, jsonDecoder := NewDecoder(wideLimits()), NewDecoder(wideLimits())
	rapid.Check(t, func(t *rapid.T) {
		request := genRequest(t)
		want := wantOTLP(request)
		got, result := decodeOTLP(protoDecoder, false, protoBody(t, request))
		if result.Err() != nil || result.RejectedTotal != 0 {
			t.Fatalf("protobuf: %+v, %v", result, result.Err())
		}
		checkLogs(t, "protobuf", got, want)
		options := protojson.MarshalOptions{
			UseProtoNames: rapid.Bool().Draw(t, "snake"), UseEnumNumbers: rapid.Bool().Draw(t, "numbers"), EmitDefaultValues: rapid.Bool().Draw(t, "defaults"),
		}
		body := jsonBody(t, options, request)
		got, result = decodeOTLP(jsonDecoder, true, body)
		if result.Err() != nil || result.RejectedTotal != 0 {
			t.Fatalf("JSON: %+v, %v: %s", result, result.Err(), body)
		}
		checkLogs(t, "JSON", got, want)
	})
}
