package decode

import (
	"bytes"
	"encoding/json"
	"io"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/logboom/logboom/pkg/record"
)

// seeds are bodies that together reach all of the decoder.
var seeds = []string{
	`{"data":"a","severity":"[warn]","application":"api","host":"h","source":{"a":1},"timestamp":"2026-01-02T03:04:05Z","metadata":{"k":1.50,"o":{"x":[1,{"y":null}],"e":{}}},"u":true}`,
	`[{"data":"\u00e9\ud83d\ude80\ud83d \"\\\/\b\f\n\r\t"},{"data":-0.1e+5}, {"data":null} , {bad},{"data":"b},{"data":"c"}]`,
	"{\"data\":\"a\"}\n{\"data\":\n{\"data\":\"b\"}\r\n\n{\"data\":\"\xff\xfe\"}{\"x\":1}{",
	`{"channel":"c","title":"t","event":"e","description":[],"icon":":x:","notify":"true","tags":{"a":{"b":{}}},"timestamp":1e9}`,
	"\xEF\xBB\xBF [ ] x", `[[[[`, `{"data":"` + strings.Repeat("long ", 30) + `","` + strings.Repeat("k", 40) + `":{"` + strings.Repeat("é", 30) + `":1}}`,
	`{"data":1,"data":2,"metadata":{"a":1},"metadata":{"a":2},"severity":3,"severity_scheme":"syslog"}`,
}

// smallLimits are so small that a fuzzer's bodies reach them.
func smallLimits() Limits {
	return Limits{Body: 1 << 20, Decoded: 1 << 20, Record: 500, Keys: 4, Key: 30, Value: 50, Depth: 5, Rejections: 3}
}

// FuzzBodies checks what must hold for every body.
func FuzzBodies(f *testing.F) {
	for _, s := range seeds {
		f.Add([]byte(s))
	}
	d := NewDecoder(smallLimits())
	f.Fuzz(func(t *testing.T, body []byte) {
		before := bytes.Clone(body)
		logs, events := 0, 0
		checkResult(t, body, d.Logs(body, defaults(), func(l *record.Log) {
			logs++
			checkRecord(t, l.Size(), l.Timestamp, l.Metadata, l.Application, l.Severity, l.Data, l.Host, l.Source)
		}), &logs)
		checkResult(t, body, d.Events(body, defaults(), func(e *record.Event) {
			events++
			checkRecord(t, e.Size(), e.Timestamp, e.Tags, e.Channel, e.Title, e.Description, e.Icon)
		}), &events)
		if !bytes.Equal(before, body) {
			t.Error("the body was changed")
		}
	})
}

func checkRecord(t *testing.T, size int, timestamp int64, pairs []record.Pair, texts ...string) {
	l, def := smallLimits(), defaults()
	if size > l.Record || len(pairs) > l.Keys+3 {
		t.Errorf("%d bytes, %d pairs", size, len(pairs))
	}
	if timestamp < def.Oldest.UnixNano() || timestamp > def.Now.Add(maxAhead).UnixNano() {
		t.Errorf("timestamp %d", timestamp)
	}
	keys := map[string]bool{}
	for _, p := range pairs {
		if keys[p.Key] || len(p.Key) > l.Key && !strings.Contains(p.Key, "…") || len(p.Value) > l.Value {
			t.Errorf("pair %q", p)
		}
		keys[p.Key] = true
		texts = append(texts, p.Key, p.Value)
	}
	for _, text := range texts {
		if !utf8.ValidString(text) {
			t.Errorf("%q is not UTF-8", text)
		}
	}
}

func checkResult(t *testing.T, body []byte, r Result, emitted *int) {
	if r.refused != nil {
		*emitted = 0 // what was emitted is discarded
	}
	if r.Accepted != *emitted || len(r.Rejected) != min(r.RejectedTotal, smallLimits().Rejections) {
		t.Errorf("%d emitted, %+v", *emitted, r)
	}
	if (r.Err() == nil) != (r.Accepted > 0) {
		t.Errorf("error %v of %+v", r.Err(), r)
	}
	last := -1
	for _, rejection := range r.Rejected {
		if rejection.Index <= last || rejection.Index >= r.Accepted+r.RejectedTotal || rejection.Offset < 0 || rejection.Offset > int64(len(body)) {
			t.Errorf("rejection %+v of %d bytes", rejection, len(body))
		}
		last = rejection.Index
	}
}

// FuzzBadLineDoesNotAffectItsNeighbours puts a line between two good ones.
func FuzzBadLineDoesNotAffectItsNeighbours(f *testing.F) {
	for _, s := range seeds {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, line string) {
		line = strings.ReplaceAll(line, "\n", " ")
		logs, result := decodeLogs("{\"data\":\"first\"}\n" + line + "\n{\"data\":\"last\"}")
		if len(logs) < 2 || logs[0].Data != "first" || logs[len(logs)-1].Data != "last" {
			t.Errorf("%q: got %q, %+v", line, datas(logs), result)
		}
		if blank := strings.Trim(line, " \t\r") == ""; blank != (result.Accepted+result.RejectedTotal == 2) {
			t.Errorf("%q: %d accepted, %d rejected", line, result.Accepted, result.RejectedTotal)
		}
	})
}

// FuzzScannerAgreesWithTheStandardLibrary compares the scanner with encoding/json:
// both accept a value or neither does, and both decode a string to the same text.
func FuzzScannerAgreesWithTheStandardLibrary(f *testing.F) {
	for _, s := range append(seeds, `-0`, `01`, `1.`, `.5`, `1e`, `1E+0`, `truefalse`, `nul`, `"\u12G4"`, `"\uD800\uDC00"`, `{"a":1,}`, `[1,]`, `{1:2}`, "\"\x00\"", `"`, `[1 2]`) {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, value []byte) {
		s := scanner{body: value, depth: 10_000, textLimit: 1 << 30}
		got, ok := s.value(0)
		ok = ok && s.peek() == 0 && s.pos == len(value)
		if ok != json.Valid(value) {
			t.Fatalf("%q: %v, at %d: %s", value, ok, s.failAt, s.failure)
		}
		if !ok || got.kind != '"' {
			return
		}
		var want string
		if err := json.Unmarshal(value, &want); err != nil || got.text != want {
			t.Errorf("%q: got %q, want %q, %v", value, got.text, want, err)
		}
	})
}

// FuzzLogAgreesWithTheStandardLibrary decodes valid objects with encoding/json too,
// and compares data and metadata.
func FuzzLogAgreesWithTheStandardLibrary(f *testing.F) {
	for _, s := range seeds {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		var object map[string]json.RawMessage
		if json.Unmarshal(body, &object) != nil || object == nil {
			return
		}
		l := DefaultLimits()
		l.Keys, l.Key, l.Value, l.Depth = 1<<20, 1<<20, 1<<20, 10_000
		logs, result := decodeLogsWithin(l, string(body))
		if result.Accepted+result.RejectedTotal != 1 {
			t.Fatalf("%q: got %+v", body, result)
		}
		if len(logs) == 0 {
			if code := result.Rejected[0].Code; code == CodeInvalidJSON || code == CodeMissingField && object["data"] != nil {
				t.Errorf("%q: got %+v", body, result)
			}
			return
		}
		if want := textOf(object["data"]); logs[0].Data != want {
			t.Errorf("%q: data %q, want %q", body, logs[0].Data, want)
		}
		if got, want := withoutMarks(logs[0].Metadata), withoutMarks(wantPairs(body)); !slices.Equal(got, want) {
			t.Errorf("%q:\n got %q\nwant %q", body, got, want)
		}
	})
}

// textOf returns the text of a JSON value: that of a string, otherwise the value.
func textOf(value json.RawMessage) string {
	var text string
	if value[0] == '"' && json.Unmarshal(value, &text) == nil {
		return text
	}
	return string([]rune(string(value)))
}

// wantPairs flattens a log's metadata with encoding/json.
func wantPairs(body []byte) []record.Pair {
	var pairs []record.Pair
	members(body, func(key string, value json.RawMessage) {
		switch {
		case key == "metadata" && value[0] == '{':
			members(value, func(key string, value json.RawMessage) { flattenInto(&pairs, key, value) })
		case logField(key) == fieldNone, (key == "host" || key == "source") && (value[0] == '{' || value[0] == '['):
			flattenInto(&pairs, key, value)
		}
	})
	return pairs
}

func flattenInto(pairs *[]record.Pair, key string, value json.RawMessage) {
	if value[0] == '{' {
		if members(value, func(inner string, value json.RawMessage) { flattenInto(pairs, key+"."+inner, value) }) > 0 {
			return
		}
		value = json.RawMessage("{}")
	}
	p := record.Pair{Key: key, Value: textOf(value)}
	if i := slices.IndexFunc(*pairs, func(q record.Pair) bool { return q.Key == key }); i >= 0 {
		(*pairs)[i] = p
		return
	}
	*pairs = append(*pairs, p)
}

// members calls visit with an object's members in order, and counts them.
func members(object []byte, visit func(key string, value json.RawMessage)) (n int) {
	dec := json.NewDecoder(bytes.NewReader(object))
	if _, err := dec.Token(); err != nil {
		panic(err)
	}
	for ; dec.More(); n++ {
		key, err := dec.Token()
		if err != nil {
			panic(err)
		}
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			panic(err)
		}
		visit(key.(string), value)
	}
	return n
}

func withoutMarks(pairs []record.Pair) []record.Pair {
	return slices.DeleteFunc(pairs, func(p record.Pair) bool { return p.Key == keyInvalidUTF8 || p.Key == keyOriginalTime })
}

// FuzzReadBody checks the decompressors with any bytes.
func FuzzReadBody(f *testing.F) {
	for name, body := range compressed(f, []byte(strings.Repeat(seeds[0], 3))) {
		f.Add(encoding(name), body)
	}
	d := NewDecoder(smallLimits())
	f.Fuzz(func(t *testing.T, encoding string, body []byte) {
		got, err := d.ReadBody(nil, bytes.NewReader(body), encoding)
		if int64(len(got)) > smallLimits().Decoded+1 {
			t.Errorf("%d bytes", len(got))
		}
		if err == nil && encoding == "" && !bytes.Equal(got, body) {
			t.Error("a plain body was changed")
		}
		if err != nil && err == io.EOF {
			t.Error("a bare io.EOF")
		}
	})
}

// hecSeeds are bodies that together reach all of the code for container logs.
var hecSeeds = []string{
	`{"event":{"line":"a \u003c","source":"stderr","tag":"t","attrs":{"k":"v"}},"time":"1767319445.123457","host":"vm","source":"s","sourcetype":"t","index":"i"}{"event":{"line":{"level":"warn","msg":"m","x":[1]},"other":{"y":null}}}`,
	`[{"event":{"message":"m","severity":"info","message":1}},{"event":7,"time":1,"fields":{"level":"error"}},{"event":""}]`,
	`{"event":"` + strings.Repeat("p", pieceBytes) + `","time":1}{"event":"q","time":1}{"event":{"line":"x"}{"event":1}`,
	"{\"event\":\"\xff\"}\n{\"event\":}\n{\"event\":[[[[[[[]]]]]]]}",
}

// FuzzHEC checks what must hold for every body of events.
func FuzzHEC(f *testing.F) {
	for _, s := range append(hecSeeds, seeds...) {
		f.Add([]byte(s))
	}
	d := NewDecoder(smallLimits())
	f.Fuzz(func(t *testing.T, body []byte) {
		before := bytes.Clone(body)
		logs := 0
		result := d.HEC(body, defaults(), func(l *record.Log) {
			logs++
			checkRecord(t, l.Size(), l.Timestamp, l.Metadata, l.Application, l.Severity, l.Data, l.Host, l.Source)
		})
		checkResult(t, body, result, &logs)
		checkEntries(t, body, result)
		if !bytes.Equal(before, body) {
			t.Error("the body was changed")
		}
	})
}

// FuzzRaw checks what must hold for every body of lines.
func FuzzRaw(f *testing.F) {
	f.Add([]byte("a\r\n\n<3>b\n\xff\x00"), "h", "1767319445")
	f.Add([]byte("\xEF\xBB\xBF"+strings.Repeat("x", 600)+"\n{\"level\":\"warn\"}"), "\xff", "soon")
	d := NewDecoder(smallLimits())
	f.Fuzz(func(t *testing.T, body []byte, host, when string) {
		logs := 0
		result := d.Raw(body, defaults(), Origin{Host: host, Time: when}, func(l *record.Log) {
			logs++
			checkRecord(t, l.Size(), l.Timestamp, l.Metadata, l.Application, l.Severity, l.Data, l.Host, l.Source)
		})
		checkResult(t, body, result, &logs)
		checkEntries(t, body, result)
		if result.Accepted+result.RejectedTotal > bytes.Count(body, []byte("\n"))+1 {
			t.Errorf("%+v of %q", result, body)
		}
	})
}

// checkEntries checks that the rejected entries lie within the body.
func checkEntries(t *testing.T, body []byte, result Result) {
	for _, r := range result.Rejected {
		if r.Start < 0 || r.Start > r.End || r.End > int64(len(body)) {
			t.Errorf("entry %+v of %d bytes", r, len(body))
		}
	}
}

// FuzzBadEventDoesNotAffectItsNeighbours puts a line between two good events.
func FuzzBadEventDoesNotAffectItsNeighbours(f *testing.F) {
	for _, s := range append(hecSeeds, seeds...) {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, line string) {
		line = strings.ReplaceAll(line, "\n", " ")
		logs, result := decodeHEC("{\"event\":\"first\"}\n" + line + "\n{\"event\":\"last\"}")
		if len(logs) < 2 || logs[0].Data != "first" || logs[len(logs)-1].Data != "last" {
			t.Errorf("%q: got %q, %+v", line, datas(logs), result)
		}
	})
}

// FuzzLineSeverity checks that a severity that is found is a known word.
func FuzzLineSeverity(f *testing.F) {
	for _, s := range []string{`{"level":"info"}`, "<11>x", "E0102 15:04:05.0 x", "a=b level=\"warn\"", "[error] x", "\x1b[31mERROR\x1b[0m", "größe ERROR"} {
		f.Add(s)
	}
	finder := levelFinder{scan: scanner{depth: 64, textLimit: jsonWithin}}
	f.Fuzz(func(t *testing.T, line string) {
		number, word := finder.severity(line)
		if number != record.SeverityNumber(word) || (number == 0) != (word == "") || !utf8.ValidString(word) {
			t.Errorf("%q: %d %q", line, number, word)
		}
	})
}
