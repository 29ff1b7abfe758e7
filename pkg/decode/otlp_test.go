package decode

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	commonv1 "go.opentelemetry.io/proto/otlp/common/v1"
	logsv1 "go.opentelemetry.io/proto/otlp/logs/v1"
	resourcev1 "go.opentelemetry.io/proto/otlp/resource/v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/logboom/logboom/pkg/record"
)

// decodeOTLP returns copies of the logs of a body.
func decodeOTLP(d *Decoder, isJSON bool, body []byte) ([]record.Log, Result) {
	var logs []record.Log
	emit := func(l *record.Log) {
		c := *l
		c.Data, c.Application, c.Severity = strings.Clone(l.Data), strings.Clone(l.Application), strings.Clone(l.Severity)
		c.Host, c.Metadata = strings.Clone(l.Host), clonePairs(l.Metadata)
		logs = append(logs, c)
	}
	if isJSON {
		result := d.OTLPJSON(body, defaults(), emit)
		return logs, result
	}
	result := d.OTLPProto(body, defaults(), emit)
	return logs, result
}

// otlpJSON decodes records in an otherwise empty request.
func otlpJSON(records string) ([]record.Log, Result) {
	return decodeOTLP(NewDecoder(DefaultLimits()), true, []byte(`{"resourceLogs":[{"scopeLogs":[{"logRecords":[`+records+`]}]}]}`))
}

func text(s string) *commonv1.AnyValue {
	return &commonv1.AnyValue{Value: &commonv1.AnyValue_StringValue{StringValue: s}}
}

// requestOf returns a request with one resource and one scope.
func requestOf(attributes []*commonv1.KeyValue, records ...*logsv1.LogRecord) *logsv1.LogsData {
	return &logsv1.LogsData{ResourceLogs: []*logsv1.ResourceLogs{{
		Resource: &resourcev1.Resource{Attributes: attributes}, ScopeLogs: []*logsv1.ScopeLogs{{LogRecords: records}},
	}}}
}

func TestOTLPExampleOfTheSpecificationIsRead(t *testing.T) {
	t.Parallel()
	body, err := os.ReadFile("testdata/otlp/spec-example.json")
	if err != nil {
		t.Fatal(err)
	}
	logs, result := decodeOTLP(NewDecoder(DefaultLimits()), true, body)
	if len(logs) != 1 || result.Err() != nil {
		t.Fatalf("%d logs, %v", len(logs), result.Err())
	}
	l := logs[0]
	if l.Application != "my.service" || l.Data != "Example log record" || l.Severity != "Information" || l.SeverityNumber != 10 || l.Timestamp != defaults().Oldest.UnixNano() {
		t.Errorf("got %+v", l)
	}
	want := "my.scope.attribute=some scope attribute scope.name=my.library scope.version=1.0.0 string.attribute=some string boolean.attribute=true int.attribute=10" +
		` double.attribute=637.704 array.attribute=["many","values"] map.attribute.some.map.key=some value timestamp_original=1544712660300000000` +
		" trace_id=5b8efff798038103d269b633813fc60c span_id=eee19b7ec3c1b174"
	if got := pairsText(l.Metadata); got != want {
		t.Errorf("metadata\n got %s\nwant %s", got, want)
	}
}

func TestOTLPResourceMayFollowItsLogs(t *testing.T) {
	t.Parallel()
	const body = `{"resourceLogs":[{"scopeLogs":[{"logRecords":[{"body":{"stringValue":"x"}}],"scope":{"name":"s"}},{"logRecords":[{}]}],
		"resource":{"attributes":[{"value":{"stringValue":"api"},"key":"service.name"},{"key":"k","value":{"intValue":7}}]}}]}`
	logs, result := decodeOTLP(NewDecoder(DefaultLimits()), true, []byte(body))
	if len(logs) != 2 || result.Err() != nil {
		t.Fatalf("%d logs, %v", len(logs), result.Err())
	}
	if got := logs[0].Application + " " + pairsText(logs[0].Metadata) + "|" + pairsText(logs[1].Metadata); got != "api k=7 scope.name=s|k=7" {
		t.Errorf("got %s", got)
	}

	scopes := protowire.AppendBytes([]byte{0x12}, []byte{0x12, 0x00}) // one empty record
	attribute, err := proto.Marshal(&resourcev1.Resource{Attributes: []*commonv1.KeyValue{{Key: "k", Value: text("v")}}})
	if err != nil {
		t.Fatal(err)
	}
	group := protowire.AppendBytes(append(scopes, 0x0A), attribute)
	logs, result = decodeOTLP(NewDecoder(DefaultLimits()), false, protowire.AppendBytes([]byte{0x0A}, group))
	if len(logs) != 1 || result.Err() != nil || pairsText(logs[0].Metadata) != "k=v" {
		t.Errorf("protobuf: %+v, %v", logs, result.Err())
	}
}

func TestOTLPBadRecordDoesNotAffectItsNeighbours(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat(`{"arrayValue":{"values":[`, 70) + `{}` + strings.Repeat(`]}}`, 70)
	for name, c := range map[string]struct{ record, code string }{
		"a body that is no value":      {`{"body":"text"}`, CodeInvalidField},
		"no object":                    {`7`, CodeInvalidField},
		"null":                         {`null`, CodeInvalidField},
		"a time that is no number":     {`{"timeUnixNano":"soon"}`, CodeInvalidField},
		"a negative time":              {`{"timeUnixNano":-1}`, CodeInvalidField},
		"attributes of a wrong kind":   {`{"attributes":{"a":1}}`, CodeInvalidField},
		"an attribute of a wrong kind": {`{"attributes":["a"]}`, CodeInvalidField},
		"a fraction as an integer":     {`{"attributes":[{"key":"a","value":{"intValue":1.5}}]}`, CodeInvalidField},
		"an integer of 65 bits":        {`{"attributes":[{"key":"a","value":{"intValue":"9223372036854775808"}}]}`, CodeInvalidField},
		"a word as a truth value":      {`{"attributes":[{"key":"a","value":{"boolValue":"true"}}]}`, CodeInvalidField},
		"a number as a string":         {`{"attributes":[{"key":"a","value":{"stringValue":1}}]}`, CodeInvalidField},
		"a severity out of range":      {`{"severityNumber":4294967296}`, CodeInvalidField},
		"too deep":                     {`{"body":` + deep + `}`, CodeInvalidField},
		"too large":                    {`{"body":{"stringValue":"` + strings.Repeat("x", 1<<20) + `"}}`, CodeBodyTooLarge},
		"too many values":              {`{"body":{"arrayValue":{"values":[` + strings.Repeat(`{},`, maxNodes) + `{}]}}}`, CodeBodyTooLarge},
	} {
		logs, result := otlpJSON(`{"body":{"stringValue":"before"}},` + c.record + `,{"body":{"stringValue":"after"}}`)
		if datas(logs) != "before|after" || result.RejectedTotal != 1 || result.Rejected[0].Code != c.code || result.Rejected[0].Index != 1 {
			t.Errorf("%s: got %q, %+v, %v", name, datas(logs), result, result.Err())
		}
	}
}

func TestOTLPJSONIsReadLeniently(t *testing.T) {
	t.Parallel()
	for record, want := range map[string]string{
		`{"severity_number":"SEVERITY_NUMBER_ERROR2"}`:                                        "ERROR2 18 ",
		`{"severityNumber":"13"}`:                                                             "WARN 13 ",
		`{"severityNumber":1.7e1}`:                                                            "ERROR 17 ",
		`{"severityNumber":null,"severityText":null,"body":null,"attributes":null}`:           "INFO 9 ",
		`{"severityText":"warning"}`:                                                          "warning 13 ",
		`{"severityText":"loud"}`:                                                             "loud 0 ",
		`{"unknown":{"a":[1,{"b":null}]},"body":{"unknown":[],"string_value":"x"}}`:           "INFO 9 x",
		`{"body":{"doubleValue":"NaN"}}`:                                                      "INFO 9 NaN",
		`{"body":{"doubleValue":1.50}}`:                                                       "INFO 9 1.5",
		`{"body":{"intValue":"-9223372036854775808"}}`:                                        "INFO 9 -9223372036854775808",
		`{"body":{"bytesValue":"AAE="}}`:                                                      "INFO 9 AAE=",
		`{"body":{"kvlistValue":{"values":[{"key":"a\n","value":{"arrayValue":{}}},{}]}}}`:    `INFO 9 {"a\n":[],"":null}`,
		`{"body":{"arrayValue":{"values":[{"boolValue":false},{"doubleValue":"Infinity"}]}}}`: `INFO 9 [false,"Infinity"]`,
	} {
		logs, result := otlpJSON(record)
		if len(logs) != 1 || result.RejectedTotal != 0 {
			t.Errorf("%s: %+v, %v", record, result, result.Err())
			continue
		}
		if got := fmt.Sprintf("%s %d %s", logs[0].Severity, logs[0].SeverityNumber, logs[0].Data); got != want {
			t.Errorf("%s: got %s, want %s", record, got, want)
		}
	}
}

func TestOTLPBodyThatIsNotARequestIsRefused(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		``: CodeInvalidJSON, `[]`: CodeInvalidJSON, `{"resourceLogs":{}}`: CodeInvalidJSON, `{"resourceLogs":[1]}`: CodeInvalidJSON,
		`{"resourceLogs":[{"scopeLogs":7}]}`: CodeInvalidJSON, `{"resourceLogs":[{"scopeLogs":[{"logRecords":{}}]}]}`: CodeInvalidJSON,
		`{} {}`: CodeInvalidJSON, `{"resourceLogs":[{"resource":{},"resource":{}}]}`: CodeInvalidJSON,
		`{"resourceLogs":[{"scopeLogs":[],"scopeLogs":[]}]}`:                      CodeInvalidJSON,
		`{"resourceLogs":[{"scopeLogs":[{"logRecords":[{"body":{"stringValue":"a`: CodeInvalidJSON,
	} {
		checkRefused(t, true, []byte(body), want)
	}
	for _, body := range []string{"\x0a", "\x0a\x05", "\x0a\x02\x0a\xff", "\x00", "\x0f", "{}", "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"} {
		checkRefused(t, false, []byte(body), CodeInvalidProtobuf)
	}
}

func checkRefused(t *testing.T, isJSON bool, body []byte, code string) {
	t.Helper()
	_, result := decodeOTLP(NewDecoder(DefaultLimits()), isJSON, body)
	var refused *Error
	if !errors.As(result.Err(), &refused) || refused.Code != code || refused.Index != -1 || result.Accepted != 0 {
		t.Errorf("%.80q: %+v, %v", body, result, result.Err())
	}
}

func TestOTLPRequestWithoutRecordsIsValid(t *testing.T) {
	t.Parallel()
	for _, body := range []string{`{}`, ` {"resourceLogs":[]} `, `{"resourceLogs":null}`, `{"resourceLogs":[{},{"scopeLogs":[{}]}]}`} {
		if logs, result := decodeOTLP(NewDecoder(DefaultLimits()), true, []byte(body)); len(logs) != 0 || result.Err() != nil {
			t.Errorf("%s: %v", body, result.Err())
		}
	}
	for _, body := range []string{"", "\x0a\x00", "\x0a\x02\x12\x00"} {
		if logs, result := decodeOTLP(NewDecoder(DefaultLimits()), false, []byte(body)); len(logs) != 0 || result.Err() != nil {
			t.Errorf("%q: %v", body, result.Err())
		}
	}
}

// A cut body is never a valid smaller one: protobuf allows that only between two
// outermost fields, and this body has one.
func TestOTLPCutBodyIsRefused(t *testing.T) {
	t.Parallel()
	request := requestOf([]*commonv1.KeyValue{{Key: "service.name", Value: text("api")}}, &logsv1.LogRecord{Body: text("x"), TimeUnixNano: 1}, &logsv1.LogRecord{Body: text("y")})
	binary, inJSON := protoBody(t, request), jsonBody(t, protojson.MarshalOptions{}, request)
	for n := range len(binary) {
		if n > 0 {
			checkRefused(t, false, binary[:n], CodeInvalidProtobuf)
		}
	}
	for n := range len(inJSON) {
		checkRefused(t, true, inJSON[:n], CodeInvalidJSON)
	}
}

func TestOTLPLimitsApplyToSharedAttributes(t *testing.T) {
	t.Parallel()
	var attributes []*commonv1.KeyValue
	for i := range 120 {
		attributes = append(attributes, &commonv1.KeyValue{Key: fmt.Sprintf("r%d", i), Value: text("r")})
	}
	var own []*commonv1.KeyValue
	for i := range 20 {
		own = append(own, &commonv1.KeyValue{Key: fmt.Sprintf("o%d", i), Value: text(strings.Repeat("v", 20<<10))})
	}
	request := requestOf(attributes, &logsv1.LogRecord{Attributes: own}, &logsv1.LogRecord{Attributes: own[:1], Body: text("bad \xff")}, &logsv1.LogRecord{})
	request.ResourceLogs[0].ScopeLogs[0].LogRecords[1].Body = text("fine")
	logs, result := decodeOTLP(NewDecoder(DefaultLimits()), false, protoBody(t, request))
	if len(logs) != 3 || result.RejectedTotal != 0 {
		t.Fatalf("%d logs, %+v", len(logs), result)
	}
	for i, want := range []struct {
		pairs   int
		dropped string
	}{{129, "12"}, {121, ""}, {120, ""}} {
		var l pairSet
		l.list = logs[i].Metadata
		dropped := ""
		for _, p := range l.list {
			if p.Key == keyTruncatedKeys {
				dropped = p.Value
			}
			if len(p.Value) > 16<<10 {
				t.Errorf("record %d: %s has %d bytes", i, p.Key, len(p.Value))
			}
		}
		if len(l.list) != want.pairs || dropped != want.dropped {
			t.Errorf("record %d: %d pairs, %q dropped", i, len(l.list), dropped)
		}
	}
}

func TestOTLPInvalidTextIsReplacedAndMarked(t *testing.T) {
	t.Parallel()
	request := requestOf([]*commonv1.KeyValue{{Key: "k", Value: text("a~~")}}, &logsv1.LogRecord{Body: text("b~")}, &logsv1.LogRecord{Body: text("fine")})
	body := bytes.ReplaceAll(protoBody(t, request), []byte("~"), []byte("\xff")) // the library itself sends no bad text
	logs, result := decodeOTLP(NewDecoder(DefaultLimits()), false, body)
	if len(logs) != 2 || result.Err() != nil {
		t.Fatalf("%d logs, %v", len(logs), result.Err())
	}
	for i, want := range []string{"b\uFFFD k=a\uFFFD\uFFFD _invalid_utf8=3", "fine k=a\uFFFD\uFFFD _invalid_utf8=2"} {
		if got := logs[i].Data + " " + pairsText(logs[i].Metadata); got != want {
			t.Errorf("record %d: got %q, want %q", i, got, want)
		}
	}
}

// A small body whose records share much is bounded as if each record had its own copy.
func TestOTLPSharedAttributesAreBoundedTogether(t *testing.T) {
	t.Parallel()
	attributes := []*commonv1.KeyValue{}
	for i := range 50 {
		attributes = append(attributes, &commonv1.KeyValue{Key: fmt.Sprint(i), Value: text(strings.Repeat("v", 16<<10))})
	}
	records := slices.Repeat([]*logsv1.LogRecord{{}}, 100)
	checkRefused(t, false, protoBody(t, requestOf(attributes, records...)), CodeBodyTooLarge)

	full := errors.New("no room")
	asked := 0
	d := NewDecoder(DefaultLimits())
	d.Reserve(func(n int) error {
		if asked += n; asked > 8<<20 {
			return full
		}
		return nil
	})
	if _, result := decodeOTLP(d, false, protoBody(t, requestOf(attributes, records[:20]...))); !errors.Is(result.Err(), full) {
		t.Errorf("got %v after %d bytes", result.Err(), asked)
	}
	asked = 0
	if logs, result := decodeOTLP(d, false, protoBody(t, requestOf(nil, records[:20]...))); len(logs) != 20 || result.Err() != nil {
		t.Errorf("the next body: %d logs, %v", len(logs), result.Err())
	}
}

func TestOTLPHostileBodiesCostLittle(t *testing.T) {
	const size = 256 << 10
	wrap := func(tags string, inner []byte) []byte {
		for _, tag := range []byte(tags) {
			inner = protowire.AppendBytes([]byte{tag}, inner)
		}
		return inner
	}
	fill := func(unit string) []byte { return bytes.Repeat([]byte(unit), size/len(unit)) }
	nested := func(tags string) (inner []byte) {
		for i := 0; len(inner) < 1<<14; i++ {
			inner = protowire.AppendBytes([]byte{tags[i%len(tags)]}, inner)
		}
		return inner
	}
	for name, body := range map[string][]byte{
		"empty resources":        fill("\x0a\x00"),
		"empty scopes":           wrap("\x0a", fill("\x12\x00")),
		"empty records":          wrap("\x12\x0a", fill("\x12\x00")),
		"empty attributes":       wrap("\x12\x12\x0a", fill("\x32\x00")),
		"one body in many parts": wrap("\x12\x12\x0a", fill("\x2a\x03\x0a\x01x")),
		"numbers under one key":  wrap("\x12\x12\x0a", fill("\x32\x09\x0a\x00\x12\x05\x18\xff\xff\xff\x7f")),
		"ids":                    wrap("\x12\x12\x0a", fill("\x52\x08abcdefgh")),
		"empty values":           wrap("\x2a\x2a\x12\x12\x0a", fill("\x0a\x00")),
		"lists that change":      wrap("\x2a\x12\x12\x0a", fill("\x2a\x02\x0a\x00\x32\x02\x0a\x00")),
		"bad UTF-8":              wrap("\x0a\x2a\x12\x12\x0a", fill("\xff")),
		"control characters":     wrap("\x0a\x0a\x2a\x2a\x12\x12\x0a", fill("\x00")),
		"deep arrays":            wrap("\x2a\x12\x12\x0a", nested("\x0a\x2a")),
		"deep groups":            fill("\x0b"),
		"JSON of empty records":  []byte(`{"resourceLogs":[{"scopeLogs":[{"logRecords":[` + string(fill(`{},`)) + `{}]}]}]}`),
		"JSON of empty scopes":   []byte(`{"resourceLogs":[{"scopeLogs":[` + string(fill(`{},`)) + `{}]}]}`),
		"JSON of deep values":    []byte(`{"resourceLogs":[{"scopeLogs":[{"logRecords":[{"body":` + string(fill(`{"arrayValue":{"values":[`))),
		"JSON of open brackets":  []byte(`{"resourceLogs":` + string(fill(`[`))),
		"JSON of open scopes":    []byte(string(fill(`{"resourceLogs":[{"scopeLogs":[`))),
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		d := NewDecoder(DefaultLimits())
		for _, decode := range []func([]byte, Defaults, func(*record.Log)) Result{d.OTLPProto, d.OTLPJSON} {
			decode(body, defaults(), func(*record.Log) {})
		}
		runtime.ReadMemStats(&after)
		const most = 48 << 20 // a record's text of eight times the body's, what it grew from, and nodes
		if grown := after.TotalAlloc - before.TotalAlloc; grown > most {
			t.Errorf("%s: %d MiB allocated", name, grown>>20)
		}
		if cap(d.otlp.nodes) > keptNodes || cap(d.scan.text) > keptText {
			t.Errorf("%s: %d nodes and %d bytes of text are kept", name, cap(d.otlp.nodes), cap(d.scan.text))
		}
	}
}

func TestOTLPAllocatesNothingARecordWhenWarm(t *testing.T) {
	request := benchRequest(1000, 150)
	few := benchRequest(10, 150)
	for name, c := range map[string]struct {
		few, many []byte
		decode    func(d *Decoder) func([]byte, Defaults, func(*record.Log)) Result
	}{
		"protobuf": {protoBody(t, few), protoBody(t, request), func(d *Decoder) func([]byte, Defaults, func(*record.Log)) Result { return d.OTLPProto }},
		"JSON": {jsonBody(t, protojson.MarshalOptions{}, few), jsonBody(t, protojson.MarshalOptions{}, request),
			func(d *Decoder) func([]byte, Defaults, func(*record.Log)) Result { return d.OTLPJSON }},
	} {
		d := NewDecoder(DefaultLimits())
		decode := c.decode(d)
		allocs := func(body []byte) float64 {
			run := func() { decode(body, defaults(), func(*record.Log) {}) }
			run()
			return testing.AllocsPerRun(20, run)
		}
		if ofFew, ofMany := allocs(c.few), allocs(c.many); ofFew > 2 || ofMany > ofFew {
			t.Errorf("%s: %v allocations for 10 records, %v for 1000", name, ofFew, ofMany)
		}
	}
}

// FuzzOTLPProto compares the decoding of any bytes that OpenTelemetry's library
// accepts.
func FuzzOTLPProto(f *testing.F) {
	f.Add(protoBody(f, benchRequest(2, 10)))
	f.Add([]byte("\x0a\x0e\x12\x0c\x12\x0a\x2a\x02\x0a\x00\x2a\x04\x32\x02\x0a\x00"))
	wide, small := NewDecoder(wideLimits()), NewDecoder(smallLimits())
	f.Fuzz(func(t *testing.T, body []byte) {
		checkOTLPBounds(t, small.OTLPProto, body)
		var request logsv1.LogsData
		if len(body) > 1<<16 || proto.Unmarshal(body, &request) != nil {
			return
		}
		got, result := decodeOTLP(wide, false, body)
		if result.Err() != nil || result.RejectedTotal != 0 {
			t.Fatalf("%q: %+v, %v", body, result, result.Err())
		}
		checkLogs(t, "protobuf", got, wantOTLP(&request))
	})
}

// FuzzOTLPJSON does the same for what protobuf's own JSON mapping accepts. It leaves
// out ids and bytes, whose form differs, and a severity's number as a string, which
// protobuf does not accept.
func FuzzOTLPJSON(f *testing.F) {
	f.Add(jsonBody(f, protojson.MarshalOptions{}, benchRequest(2, 10)))
	f.Add(jsonBody(f, protojson.MarshalOptions{UseProtoNames: true, Multiline: true}, benchRequest(1, 10)))
	f.Add(jsonBody(f, protojson.MarshalOptions{}, requestOf(nil, &logsv1.LogRecord{Body: text("x"), TimeUnixNano: 1, SeverityNumber: 3, Flags: 1, DroppedAttributesCount: 1})))
	wide, small := NewDecoder(wideLimits()), NewDecoder(smallLimits())
	differ := regexp.MustCompile(`(?i)trace|span|bytes|\\u|severity_?number"\s*:\s*"[-\d]`)
	f.Fuzz(func(t *testing.T, body []byte) {
		checkOTLPBounds(t, small.OTLPJSON, body)
		var request logsv1.LogsData
		if len(body) > 1<<16 || !json.Valid(body) || (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(body, &request) != nil || differ.Match(body) {
			return
		}
		got, result := decodeOTLP(wide, true, body)
		if result.Err() != nil || result.RejectedTotal != 0 {
			t.Fatalf("%s: %+v, %v", body, result, result.Err())
		}
		checkLogs(t, string(body), got, wantOTLP(&request))
	})
}

// checkOTLPBounds checks what must hold for every body.
func checkOTLPBounds(t *testing.T, decode func([]byte, Defaults, func(*record.Log)) Result, body []byte) {
	emitted := 0
	result := decode(body, defaults(), func(l *record.Log) {
		emitted++
		for _, p := range l.Metadata {
			if len(p.Value) > max(smallLimits().Value, 32) {
				t.Errorf("value %q", p.Value)
			}
		}
		if l.Size() > smallLimits().Record || len(l.Metadata) > smallLimits().Keys+12 {
			t.Errorf("%d bytes, %d pairs", l.Size(), len(l.Metadata))
		}
	})
	if result.refused == nil && result.Accepted != emitted || result.refused != nil && result.Accepted != 0 {
		t.Errorf("%d emitted, %+v", emitted, result)
	}
}
