package decode

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/logboom/logboom/pkg/record"
)

// cloned returns a copy of a log outside the decoder's memory.
func cloned(l *record.Log) record.Log {
	c := *l
	c.Data, c.Application, c.Severity = strings.Clone(l.Data), strings.Clone(l.Application), strings.Clone(l.Severity)
	c.Host, c.Source, c.Metadata = strings.Clone(l.Host), strings.Clone(l.Source), clonePairs(l.Metadata)
	return c
}

func decodeHEC(body string) ([]record.Log, Result) {
	return decodeHECFor(defaults(), body)
}

func decodeHECFor(def Defaults, body string) ([]record.Log, Result) {
	var logs []record.Log
	result := NewDecoder(DefaultLimits()).HEC([]byte(body), def, func(l *record.Log) { logs = append(logs, cloned(l)) })
	return logs, result
}

func oneHEC(t *testing.T, body string) record.Log {
	t.Helper()
	logs, result := decodeHEC(body)
	if len(logs) != 1 || result.RejectedTotal != 0 {
		t.Fatalf("%.200s: %d logs, %+v", body, len(logs), result)
	}
	return logs[0]
}

// sample is a recorded request of Docker, and what its container printed.
type sample struct {
	body           []byte
	stdout, stderr []string
}

func readSample(t testing.TB, name string) sample {
	t.Helper()
	read := func(file string) []byte {
		content, err := os.ReadFile(filepath.Join("testdata", "hec", name, file))
		if err != nil {
			t.Fatal(err)
		}
		return content
	}
	head := string(read("002-POST.head"))
	encoding := ""
	if strings.Contains(head, "Content-Encoding: gzip") {
		encoding = "gzip"
	}
	body, err := NewDecoder(DefaultLimits()).ReadBody(nil, strings.NewReader(string(read("002-POST.body"))), encoding)
	if err != nil {
		t.Fatal(err)
	}
	return sample{body, printedLines(read("container.stdout")), printedLines(read("container.stderr"))}
}

// printedLines returns what a container printed as JSON can express it: each invalid
// byte is replaced.
func printedLines(text []byte) []string {
	var lines []string
	for line := range strings.Lines(string(text)) {
		lines = append(lines, string([]rune(strings.TrimSuffix(line, "\n"))))
	}
	return lines
}

// asSent returns the lines as Docker's formats send them.
func (s sample) asSent(format, tag string) (lines []string) {
	for _, line := range slices.Concat(s.stdout, s.stderr) {
		switch {
		case strings.HasPrefix(line, "emoji20KiB:"): // Docker cuts it in the middle of a character: one byte, then three
			const before = 16<<10 - 1
			line = line[:before] + strings.Repeat(replacement, 4) + line[before+len("🚀"):]
		case format == "json" && line == `"just a json string"`:
			line = strings.Trim(line, `"`)
		case format == "json" && strings.Contains(line, `"msg":"json line"`):
			line = "json line"
		case format == "json" && strings.Contains(line, `"msg":"stderr json"`):
			line = "stderr json"
		}
		if format == "raw" && strings.TrimSpace(line) == "" {
			continue // Docker does not send it
		}
		lines = append(lines, tag+line)
	}
	slices.Sort(lines)
	return lines
}

func TestRecordedRequestsDecodeToWhatTheContainerPrinted(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]struct{ format, tag, application, metadata string }{
		"inline":      {"inline", "", "myapp", ""},
		"inline-gzip": {"inline", "", "myapp", ""},
		"ack":         {"inline", "", "myapp", ""},
		"json":        {"json", "", "myapp", ""},
		"json-gzip-9": {"json", "", "myapp", ""},
		"raw":         {"raw", "myapp ", "token-name", ""},
		"raw-notag":   {"raw", "", "token-name", ""},
		"notag":       {"inline", "", "189f88c47c6e", ""},
		"emptytag":    {"inline", "", "token-name", ""},
		"meta":        {"inline", "", "re-hec/local/emit:1/4733d9d15dde/docker", "APP_ENV=prod com.example.team=infra source=src1 sourcetype=st1 index=idx1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := readSample(t, name)
			def := Defaults{Now: time.Unix(1795253900, 0), Application: "token-name"}
			logs, result := decodeHECFor(def, string(s.body))
			var got []string
			for _, l := range logs {
				got = append(got, l.Data)
				if l.Application != want.application || l.Host != "vm" || !strings.HasPrefix(pairsText(l.Metadata), want.metadata) {
					t.Errorf("%.50q of %q, host %q, metadata %s", l.Data, l.Application, l.Host, pairsText(l.Metadata))
				}
				if behind := time.Unix(1795253900, 0).UnixNano() - l.Timestamp; behind < 0 || behind > int64(2*time.Minute) || l.Timestamp%1000 != 0 {
					t.Errorf("%.50q has timestamp %d", l.Data, l.Timestamp)
				}
				if isStderr := slices.Contains(s.stderr, l.Data) || l.Data == "stderr json"; want.format != "raw" && isStderr != (l.Source == "stderr") {
					t.Errorf("%.50q has source %q", l.Data, l.Source)
				}
			}
			slices.Sort(got)
			if lines := s.asSent(want.format, want.tag); !slices.Equal(got, lines) {
				t.Errorf("%d lines, not %d:\n%.90q\n%.90q", len(got), len(lines), got, lines)
			}
			if result.RejectedTotal != 0 || !result.Timed || result.Accepted != len(logs) {
				t.Errorf("%+v", result)
			}
		})
	}
}

func TestEventBecomesALog(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		`{"event":"plain text"}`:                         `plain text|token-name|0:||| `,
		`{"event":42}`:                                   `42|token-name|0:||| `,
		`{"event":-1.50e3}`:                              `-1.50e3|token-name|0:||| `,
		`{"event":true}`:                                 `true|token-name|0:||| `,
		`{"event":[1, "a"]}`:                             `[1, "a"]|token-name|0:||| `,
		`{"event":{}}`:                                   `{}|token-name|0:||| `,
		`{"event":{"b":1,"a":{"x":[]}}}`:                 `{"b":1,"a":{"x":[]}}|token-name|0:||| `,
		`{"event":"x","host":"h","source":"s"}`:          `x|token-name|0:|h|s| `,
		`{"event":"x","sourcetype":"st","index":"main"}`: `x|token-name|0:|||sourcetype=st index=main `,
		`{"event":"x","fields":{"a":1,"b":{"c":true}},"other":[1]}`:          `x|token-name|0:|||a=1 b.c=true other=[1] `,
		`{"event":"x","fields":"odd"}`:                                       `x|token-name|0:|||fields=odd `,
		`{"event":"x","fields":{"severity":"WARN"}}`:                         `x|token-name|13:WARN|||severity=WARN `,
		`{"event":"x","host":{"n":1}}`:                                       `x|token-name|0:|||host.n=1 `,
		`{"event":{"line":"l","source":"stderr","tag":"t"}}`:                 `l|t|0:||stderr| `,
		`{"event":{"line":"","source":"stdout","tag":""}}`:                   `|token-name|0:||stdout| `,
		`{"event":{"line":null}}`:                                            `null|token-name|0:||| `,
		`{"event":{"line":[1,2]}}`:                                           `[1,2]|token-name|0:||| `,
		`{"event":{"line":{"dup":1,"dup":2}}}`:                               `{"dup":1,"dup":2}|token-name|0:||| `,
		`{"event":{"tag":"t","attrs":{"k":"v","o":{"p":1}},"line":1}}`:       `1|t|0:|||k=v o.p=1 `,
		`{"event":{"line":"l","attrs":7,"more":{"x":1}}}`:                    `l|token-name|0:|||attrs=7 more.x=1 `,
		`{"event":{"line":"l","source":"stdout"},"source":"src"}`:            `l|token-name|0:||stdout|source=src `,
		`{"event":{"message":"m","severity":"Error","n":1}}`:                 `m|token-name|17:Error|||n=1 `,
		`{"event":{"level":"dbg","msg":"m","msg":"again"}}`:                  `m|token-name|5:dbg|||msg=again `,
		`{"event":{"line":{"level":"warn","msg":"m","o":{"p":1}}}}`:          `m|token-name|13:warn|||o.p=1 `,
		`{"event":{"line":{"level":30,"msg":"m","severity_scheme":"pino"}}}`: `m|token-name|9:30|||severity_scheme=pino `,
		`{"event":{"line":{"level":{},"msg":"m"}}}`:                          `{"level":{},"msg":"m"}|token-name|0:||| `,
		`{"event":{"line":{"level":"info","msg":" "}}}`:                      `{"level":"info","msg":" "}|token-name|9:info||| `,
		`{"event":{"message":"no level"}}`:                                   `{"message":"no level"}|token-name|0:||| `,
		`{"event":"a\u003cb\ud83d\ude80\ud83d"}`:                             "a<b🚀\uFFFD|token-name|0:|||_invalid_utf8=1 ",
		`{"event":"first","event":{"line":"last"}}`:                          `last|token-name|0:||| `,
		`{"event":{"line":"first"},"event":"last"}`:                          `last|token-name|0:||| `,
	} {
		l := oneHEC(t, body)
		got := fmt.Sprintf("%s|%s|%d:%s|%s|%s|%s ", l.Data, l.Application, l.SeverityNumber, l.Severity, l.Host, l.Source, pairsText(l.Metadata))
		if got != want {
			t.Errorf("%s:\n got %s\nwant %s", body, got, want)
		}
	}
}

func TestEventsOfEveryFormOfBodyAreDecoded(t *testing.T) {
	t.Parallel()
	for _, body := range []string{
		`{"event":"a"}{"event":"b"}{"event":"c"}`,
		"{\"event\":\"a\"}\n{\"event\":\"b\"}\r\n\n{\"event\":\"c\"}\n",
		`[{"event":"a"}, {"event":"b"},{"event":"c"}]`,
		"\xEF\xBB\xBF \t{\"event\":\"a\"} {\"event\":\"b\"}\t{\"event\":\"c\"} ",
	} {
		if logs, result := decodeHEC(body); datas(logs) != "a|b|c" || result.Accepted != 3 || result.RejectedTotal != 0 {
			t.Errorf("%q: %q, %+v", body, datas(logs), result)
		}
	}
}

func TestUnitOfAnEventsTimeFollowsFromItsSize(t *testing.T) {
	t.Parallel()
	want := now.Add(-time.Hour).Truncate(time.Second)
	for _, text := range []string{
		fmt.Sprint(want.Unix()), fmt.Sprint(want.UnixMilli()), fmt.Sprint(want.UnixMicro()), fmt.Sprint(want.UnixNano()),
		fmt.Sprintf("%d.000000", want.Unix()), fmt.Sprintf("%d.0", want.UnixMilli()),
	} {
		for _, body := range []string{`{"event":"x","time":` + text + `}`, `{"event":"x","time":"` + text + `"}`} {
			logs, result := decodeHEC(body)
			if len(logs) != 1 || logs[0].Timestamp != want.UnixNano() || !result.Timed {
				t.Errorf("%s: %+v, %+v", body, logs, result)
			}
		}
	}
	if l := oneHEC(t, `{"event":"x","time":"1767319445.123457"}`); l.Timestamp != 1767319445123457000 {
		t.Errorf("six decimals give %d", l.Timestamp)
	}
}

func TestOnlyABodyWhoseEventsAllHaveATimeIsTimed(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]bool{
		`{"event":"ping"}`:                                  false,
		`{"event":"a","time":1767319445}`:                   true,
		`{"event":"a","time":1767319445}{"event":"b"}`:      true, // inherited
		`{"event":"a"}{"event":"b","time":1767319445}`:      false,
		`{"event":"a","time":"yesterday"}`:                  false,
		`{"event":"a","time":""}`:                           false,
		`{"event":"a","time":null}`:                         false,
		`{"event":"a","time":1767319445}{"time":1,"bad":1}`: true,
	} {
		if _, result := decodeHEC(body); result.Timed != want {
			t.Errorf("%s: timed is %t", body, result.Timed)
		}
	}
}

func TestEventsInheritFromThoseBeforeThem(t *testing.T) {
	t.Parallel()
	body := `{"event":"a","time":1767319445,"host":"h1","source":"s\u0031","sourcetype":"t1","index":"i1"}
{"event":"b"}
{"event":"c","host":"h2","time":"1767319446.5","index":null}
{"host":"h3","source":"s3"}
{"event":"d"}`
	logs, result := decodeHEC(body)
	var got []string
	for _, l := range logs {
		got = append(got, fmt.Sprintf("%s %d %s %s %s", l.Data, l.Timestamp/1e6, l.Host, l.Source, pairsText(l.Metadata)))
	}
	want := []string{
		"a 1767319445000 h1 s1 sourcetype=t1 index=i1", "b 1767319445000 h1 s1 sourcetype=t1 index=i1",
		"c 1767319446500 h2 s1 sourcetype=t1 index=i1", "d 1767319446500 h3 s3 sourcetype=t1 index=i1",
	}
	if !slices.Equal(got, want) || result.RejectedTotal != 1 {
		t.Errorf("got %q, %+v", got, result)
	}
	d := NewDecoder(DefaultLimits())
	for _, body := range []string{body, `{"event":"of the next request"}`} {
		var last record.Log
		d.HEC([]byte(body), defaults(), func(l *record.Log) { last = cloned(l) })
		if last.Data == "of the next request" && (last.Host != "" || last.Timestamp != now.UnixNano() || len(last.Metadata) != 0) {
			t.Errorf("the next request inherits %+v", last)
		}
	}
}

func TestBadEventDoesNotAffectItsNeighbours(t *testing.T) {
	t.Parallel()
	for bad, want := range map[string]string{
		`{"time":1}`:            "missing_field",
		`{"event":null}`:        "missing_field",
		`{"event":""}`:          "invalid_field",
		`{"event":" \t"}`:       "invalid_field",
		`{"event":"\x"}`:        "invalid_json",
		`{"event":01}`:          "invalid_json",
		`{"event":"x",}`:        "invalid_json",
		`{event:"x"}`:           "invalid_json",
		`{"event":["x"}`:        "invalid_json",
		`{"event":{"line":"x"}`: "invalid_json",
		`"text"`:                "invalid_json",
		`{"event":"` + strings.Repeat("x", 1<<20) + `"}`:                      "body_too_large",
		`{"event":` + strings.Repeat("[", 70) + strings.Repeat("]", 70) + `}`: "invalid_json",
	} {
		for form, body := range map[string]string{
			"glued": `{"event":"a"}` + bad + `{"event":"b"}`,
			"lines": "{\"event\":\"a\"}\n" + bad + "\n{\"event\":\"b\"}",
		} {
			if form == "glued" && bad == `"text"` {
				continue // nothing says where it ends
			}
			logs, result := decodeHEC(body)
			if datas(logs) != "a|b" || result.RejectedTotal != 1 || result.Rejected[0].Code != want || result.Rejected[0].Index != 1 {
				t.Errorf("%s: %.100s: got %q, %+v", form, bad, datas(logs), result)
				continue
			}
			r := result.Rejected[0]
			if entry := strings.TrimRight(body[r.Start:r.End], ","); strings.TrimSpace(entry) != bad {
				t.Errorf("%s: %.100s: the entry is %.100s", form, bad, entry)
			}
		}
	}
}

func TestInvalidEventInAnArrayDoesNotAffectItsNeighbours(t *testing.T) {
	t.Parallel()
	for bad, want := range map[string]string{
		`{"time":1}`:     "missing_field",
		`{"event":null}`: "missing_field",
		`{"event":""}`:   "invalid_field",
		`"text"`:         "invalid_json",
		`{"event":"` + strings.Repeat("x", 1<<20) + `"}`:                      "body_too_large",
		`{"event":` + strings.Repeat("[", 70) + strings.Repeat("]", 70) + `}`: "invalid_json",
	} {
		body := `[{"event":"a"},` + bad + `,{"event":"b"}]`
		logs, result := decodeHEC(body)
		if datas(logs) != "a|b" || result.RejectedTotal != 1 || result.Rejected[0].Code != want || result.Rejected[0].Index != 1 {
			t.Errorf("%.100s: got %q, %+v", bad, datas(logs), result)
			continue
		}
		if r := result.Rejected[0]; body[r.Start:r.End] != bad {
			t.Errorf("%.100s: the entry is %.100s", bad, body[r.Start:r.End])
		}
	}
}

func TestArrayOfEventsWithASyntaxErrorIsRefusedWhole(t *testing.T) {
	t.Parallel()
	full := strings.Repeat("f", pieceBytes)
	for _, body := range []string{`[{"event":"a"},{"event":01},{"event":"b"}]`, `[` + dockerEvent(full, "t", "45") + `,{"event":}]`} {
		_, result := decodeHEC(body)
		var e *Error
		if !errors.As(result.Err(), &e) || e.Code != CodeInvalidJSON || e.Index != 1 || result.Accepted != 0 {
			t.Errorf("%.100s: %v, %+v", body, result.Err(), result)
		}
	}
}

func TestDeeplyNestedContainerLineIsKept(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat("[", 8<<10) + strings.Repeat("]", 8<<10)
	l := oneHEC(t, `{"event":{"line":`+deep+`,"tag":"t","other":1}}`)
	if l.Data != deep || l.Application != "t" || pairsText(l.Metadata) != "other=1" {
		t.Errorf("%d bytes of %q, metadata %s", len(l.Data), l.Application, pairsText(l.Metadata))
	}
	nested := `{"level":"info","msg":"m","x":` + deep[:8<<10] + deep[8<<10:] + `}`
	if l := oneHEC(t, `{"event":{"line":`+nested+`}}`); l.Data != nested {
		t.Errorf("%.50s", l.Data)
	}
}

func TestBrokenEventsTakeLinearTime(t *testing.T) {
	t.Parallel()
	for _, unit := range []string{`{bad}`, `{"event":"`, `{"event":{"line":"x"}`, `{"event":1}{"`, `}{"`} {
		body := strings.Repeat(unit, 4<<20/len(unit))
		began := time.Now()
		decodeHEC(body)
		if took := time.Since(began); took > time.Minute {
			t.Errorf("%s: %s for %d bytes", unit, took, len(body))
		}
	}
}

func TestStderrHasTheSeverityOfTheProject(t *testing.T) {
	t.Parallel()
	def := defaults()
	def.StderrAs = "error"
	for body, want := range map[string]string{
		`{"event":{"line":"plain","source":"stderr"}}`:                    "17 error",
		`{"event":{"line":"plain","source":"stdout"}}`:                    "0 ",
		`{"event":{"line":"WARN low disk","source":"stderr"}}`:            "13 WARN",
		`{"event":{"line":{"level":"info","msg":"m"},"source":"stderr"}}`: "9 info",
		`{"event":{"line":"{\"level\":\"debug\"}","source":"stderr"}}`:    "5 debug",
		`{"event":"plain","source":"stderr"}`:                             "17 error",
	} {
		logs, _ := decodeHECFor(def, body)
		if got := fmt.Sprintf("%d %s", logs[0].SeverityNumber, logs[0].Severity); len(logs) != 1 || got != want {
			t.Errorf("%s: %s, not %s", body, got, want)
		}
		if logs, _ := decodeHEC(body); want == "17 error" && (logs[0].Severity != "" || logs[0].SeverityNumber != 0) {
			t.Errorf("%s: without the setting it is %q", body, logs[0].Severity)
		}
	}
}

// stderrEvent returns an event of a container's stderr.
func stderrEvent(line, tag, second string) string {
	return strings.Replace(dockerEvent(line, tag, second), `"stdout"`, `"stderr"`, 1)
}

// dockerEvent returns an event as Docker sends it.
func dockerEvent(line, tag, second string) string {
	return fmt.Sprintf(`{"event":{"line":%s,"source":"stdout","tag":"%s"},"time":"17673194%s.123457","host":"vm"}`, quoted(line), tag, second)
}

func TestPiecesOfALongLineAreJoined(t *testing.T) {
	t.Parallel()
	full, rest := strings.Repeat("f", pieceBytes), "the rest"
	for name, test := range map[string]struct {
		events []string
		want   []string
	}{
		"two":                 {[]string{dockerEvent(full, "t", "45"), dockerEvent(rest, "t", "45")}, []string{full + rest}},
		"four":                {[]string{dockerEvent(full, "t", "45"), dockerEvent(full, "t", "45"), dockerEvent(full, "t", "45"), dockerEvent(rest, "t", "45")}, []string{full + full + full + rest}},
		"one and no more":     {[]string{dockerEvent(full, "t", "45")}, []string{full}},
		"of another time":     {[]string{dockerEvent(full, "t", "45"), dockerEvent(rest, "t", "44")}, []string{full, rest}},
		"of another tag":      {[]string{dockerEvent(full, "t", "45"), dockerEvent(rest, "u", "45")}, []string{full, rest}},
		"a byte short":        {[]string{dockerEvent(full[1:], "t", "45"), dockerEvent(rest, "t", "45")}, []string{full[1:], rest}},
		"a byte long":         {[]string{dockerEvent(full+"x", "t", "45"), dockerEvent(rest, "t", "45")}, []string{full + "x", rest}},
		"not next to another": {[]string{dockerEvent(full, "t", "45"), dockerEvent("between", "t", "44"), dockerEvent(rest, "t", "45")}, []string{full, "between", rest}},
		"stderr between":      {[]string{dockerEvent(full, "t", "45"), stderrEvent("between", "t", "45"), dockerEvent(rest, "t", "45")}, []string{"between", full + rest}},
		"both mixed":          {[]string{dockerEvent(full, "t", "45"), stderrEvent(full, "t", "46"), dockerEvent(rest, "t", "45"), stderrEvent("other", "t", "46")}, []string{full + rest, full + "other"}},
		"both without an end": {[]string{stderrEvent(full, "t", "46"), dockerEvent(full, "t", "45")}, []string{full, full}},
		"a bad one between":   {[]string{dockerEvent(full, "t", "45"), `{"event":""}`, dockerEvent(rest, "t", "45")}, []string{full, rest}},
		"two lines":           {[]string{dockerEvent(full, "t", "45"), dockerEvent(rest, "t", "45"), dockerEvent(rest, "t", "45")}, []string{full + rest, rest}},
		"without a time":      {[]string{`{"event":{"line":"` + full + `"}}`, `{"event":{"line":"rest"}}`}, []string{full, "rest"}},
		"a character cut":     {[]string{dockerEvent(full[2:]+"\uFFFD\uFFFD", "t", "45"), dockerEvent("\uFFFD\uFFFD"+full[2:], "t", "45"), dockerEvent(rest, "t", "45")}, []string{full[2:] + strings.Repeat("\uFFFD", 4) + full[2:] + rest}},
		"raw with a tag": {[]string{`{"event":"my app k=v ` + full + `","time":1767319445}`, `{"event":"my app k=v rest","time":1767319445}`},
			[]string{"my app k=v " + full + "rest"}},
		"raw of another tag": {[]string{`{"event":"app ` + full + `","time":1767319445}`, `{"event":"web rest","time":1767319445}`}, []string{"app " + full, "web rest"}},
		"raw without a tag":  {[]string{`{"event":"` + full + `","time":1767319445}`, `{"event":"rest","time":1767319445}`}, []string{full + "rest"}},
	} {
		logs, result := decodeHEC(strings.Join(test.events, ""))
		var got []string
		for _, l := range logs {
			got = append(got, l.Data)
		}
		if strings.Join(got, "|") != strings.Join(test.want, "|") || result.Accepted != len(logs) {
			t.Errorf("%s: %d logs of %.40q, %+v", name, len(logs), got, result)
		}
	}
}

func TestJoinedLineStaysWithinTheLimitOfARecord(t *testing.T) {
	t.Parallel()
	full := strings.Repeat("f", pieceBytes)
	logs, result := decodeHEC(strings.Repeat(dockerEvent(full, "t", "45"), 100))
	total := 0
	for _, l := range logs {
		total += len(l.Data)
		if l.Size() > DefaultLimits().Record {
			t.Errorf("a record of %d bytes", l.Size())
		}
	}
	if total != 100*pieceBytes || len(logs) != 2 || result.RejectedTotal != 0 {
		t.Errorf("%d bytes in %d logs, %+v", total, len(logs), result)
	}
}

func TestSeverityIsThatOfTheWholeJoinedLine(t *testing.T) {
	t.Parallel()
	line := `{"msg":"` + strings.Repeat("x", 20<<10) + `","level":"error"}`
	logs, _ := decodeHEC(dockerEvent(line[:pieceBytes], "t", "45") + dockerEvent(line[pieceBytes:], "t", "45"))
	if len(logs) != 1 || logs[0].Data != line || logs[0].SeverityNumber != 17 || logs[0].Host != "vm" || logs[0].Application != "t" {
		t.Errorf("%d logs, severity %q", len(logs), logs[0].Severity)
	}
}

func TestIndexOfARejectionCountsJoinedPieces(t *testing.T) {
	t.Parallel()
	full := strings.Repeat("f", pieceBytes)
	_, result := decodeHEC(dockerEvent(full, "t", "45") + dockerEvent("rest", "t", "45") + `{"event":""}`)
	if result.Accepted != 1 || len(result.Rejected) != 1 || result.Rejected[0].Index != 2 {
		t.Errorf("%+v", result)
	}
}
