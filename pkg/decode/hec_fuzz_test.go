package decode

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/logboom/logboom/pkg/record"
)

// hecSeeds are bodies that between them reach all that is of container logs.
var hecSeeds = []string{
	`{"event":{"line":"a \u003c","source":"stderr","tag":"t","attrs":{"k":"v"}},"time":"1767319445.123457","host":"vm","source":"s","sourcetype":"t","index":"i"}{"event":{"line":{"level":"warn","msg":"m","x":[1]},"other":{"y":null}}}`,
	`[{"event":{"message":"m","severity":"info","message":1}},{"event":7,"time":1,"fields":{"level":"error"}},{"event":""}]`,
	`{"event":"` + strings.Repeat("p", pieceBytes) + `","time":1}{"event":"q","time":1}{"event":{"line":"x"}{"event":1}`,
	"{\"event\":\"\xff\"}\n{\"event\":}\n{\"event\":[[[[[[[]]]]]]]}",
}

// FuzzHEC takes any bytes and checks what must hold for every answer.
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

// FuzzRaw does so with lines.
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

// checkEntries: what is said to be a bad entry lies within the body.
func checkEntries(t *testing.T, body []byte, result Result) {
	for _, r := range result.Rejected {
		if r.Start < 0 || r.Start > r.End || r.End > int64(len(body)) {
			t.Errorf("entry %+v of %d bytes", r, len(body))
		}
	}
}

// FuzzEventCostsNoNeighbour puts any line between two good events.
func FuzzEventCostsNoNeighbour(f *testing.F) {
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

// FuzzLineSeverity: what is found is a known word, and a line is never changed
// by looking.
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
