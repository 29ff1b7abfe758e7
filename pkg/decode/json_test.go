package decode

import (
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"testing"

	"github.com/logboom/logboom/pkg/record"
)

func TestShapeOfABodyFollowsFromItsFirstByte(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ body, want string }{
		"one object":                 {`{"data":"a"}`, "a"},
		"an object over many lines":  {"{\n  \"data\":\n  \"a\"\n}\n", "a"},
		"an array":                   {`[{"data":"a"},{"data":"b"}]`, "a|b"},
		"a spaced array":             {" [ {\"data\" : \"a\" } ,\r\n\t{\"data\":\"b\"} ] ", "a|b"},
		"an array of one":            {`[{"data":"a"}]`, "a"},
		"lines":                      {"{\"data\":\"a\"}\n{\"data\":\"b\"}\n", "a|b"},
		"lines without a last end":   {"{\"data\":\"a\"}\n{\"data\":\"b\"}", "a|b"},
		"lines with returns, blanks": {"{\"data\":\"a\"}\r\n\r\n \t\n{\"data\":\"b\"}\r\n", "a|b"},
		"glued objects":              {`{"data":"a"}{"data":"b"} {"data":"c"}`, "a|b|c"},
		"a byte order mark":          {"\xEF\xBB\xBF{\"data\":\"a\"}", "a"},
		"a mark before an array":     {"\xEF\xBB\xBF[{\"data\":\"a\"}]", "a"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			logs, result := decodeLogs(c.body)
			if datas(logs) != c.want || result.RejectedTotal != 0 || result.Accepted != len(logs) || result.Err() != nil {
				t.Errorf("got %q and %+v, want %q", datas(logs), result, c.want)
			}
		})
	}
}

func TestBodyWithoutEntriesIsEmpty(t *testing.T) {
	t.Parallel()
	for _, body := range []string{"", " ", "\n\n\r\n\t", "[]", " [ ] ", "\xEF\xBB\xBF", "\xEF\xBB\xBF[]"} {
		_, result := decodeLogs(body)
		var e *Error
		if err := result.Err(); !errors.As(err, &e) || e.Code != CodeEmptyBody || e.Index != -1 {
			t.Errorf("%q: got %v", body, err)
		}
	}
}

// The rejections are written as index:offset.
func TestBadEntryDoesNotAffectItsNeighbours(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ body, want, rejected string }{
		"an array with a field missing":     {`[{"data":"a"},{"x":1},{"data":"c"}]`, "a|c", "1:14"},
		"an array with other values":        {`[1,"x",null,[{"data":"z"}],{"data":"c"},true]`, "c", "0:1 1:3 2:7 3:12 5:40"},
		"a deep entry in an array":          {`[{"data":"a"},{"data":` + strings.Repeat("[", 100) + strings.Repeat("]", 100) + `},{"data":"c"}]`, "a|c", "1:85"},
		"a bad line":                        {"{\"data\":\"a\"}\nnot JSON\n{\"data\":\"c\"}", "a|c", "1:13"},
		"a bad first line":                  {"not JSON\n{\"data\":\"c\"}", "c", "0:0"},
		"other values on lines":             {"{\"data\":\"a\"}\n1\n\"x\"\n[{\"data\":\"z\"}]\n{\"data\":\"c\"}", "a|c", "1:13 2:15 3:19"},
		"a line cut inside its text":        {"{\"data\":\"a\n{\"data\":\"b\"}\n", "b", "0:10"},
		"a line cut before its brace":       {"{\"data\":\"a\"\n{\"data\":\"b\"}\n", "b", "0:12"},
		"a line cut before a value":         {"{\"data\":\"a\",\"m\":\n{\"data\":\"b\"}\n{\"data\":\"c\"}\n", "b|c", "0:30"},
		"a line cut inside an array":        {"{\"data\":\"a\",\"m\":[1,\n{\"data\":\"b\"}\n{\"data\":\"c\"}\n", "b|c", "0:33"},
		"the last line cut":                 {"{\"data\":\"a\"}\n{\"data\":\"b", "a", "1:23"},
		"a bad object among glued ones":     {`{"data":"a"}{bad {"x":1}}{"data":"c"}`, "a|c", "1:13"},
		"a comma between lines":             {"{\"data\":\"a\"},\n{\"data\":\"b\"}\n", "a|b", "1:12"},
		"a NUL byte between lines":          {"{\"data\":\"a\"}\n\x00\n{\"data\":\"b\"}", "a|b", "1:13"},
		"a raw control character in a line": {"{\"data\":\"a\x01\"}\n{\"data\":\"b\"}", "b", "0:10"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			logs, result := decodeLogs(c.body)
			var rejected []string
			for _, r := range result.Rejected {
				rejected = append(rejected, strconv.Itoa(r.Index)+":"+strconv.FormatInt(r.Offset, 10))
			}
			if got := strings.Join(rejected, " "); datas(logs) != c.want || got != c.rejected {
				t.Errorf("got %q and %s, want %q and %s: %+v", datas(logs), got, c.want, c.rejected, result)
			}
			if result.Accepted != len(logs) || result.Err() != nil {
				t.Errorf("accepted %d, error %v", result.Accepted, result.Err())
			}
		})
	}
}

func TestArrayWithASyntaxErrorIsRefusedWhole(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		body   string
		index  int
		offset int64
	}{
		"a bad entry":                 {`[{"data":"a"},{bad},{"data":"c"}]`, 1, 15},
		"bad nesting":                 {`[{"data":"a","m":[1}},{"data":"c"}]`, 0, 19},
		"a bad escape":                {`[{"data":"\x"},{"data":"c"}]`, 0, 10},
		"a bad value":                 {`[{"data":"a"},{"data":oops},{"data":"c"}]`, 1, 22},
		"a quote missing":             {`[{"data":"a"},{"data":"b},{"data":"c"}]`, 1, 28},
		"a quote missing on a line":   {"[\n{\"data\":\"a\"},\n{\"data\":\"b},\n{\"data\":\"c\"}\n]", 1, 28},
		"a comma after the last item": {`[{"l":[{"a":1},{"b":2},],"data":"b"},{"data":"c"}]`, 0, 23},
		"a brace missing":             {`[{"data":"a","m":{"x":1},{"data":"b"},{"data":"c"}]`, 0, 25},
		"a brace too many":            {`[{"data":"a"}},{"data":"b"}]`, 1, 13},
		"a comma missing":             {`[{"data":"a"} {"data":"b"}]`, 1, 14},
		"words between entries":       {`[{"data":"a"} and more,{"data":"b"}]`, 1, 14},
		"a comma at the end":          {`[{"data":"a"},]`, 1, 14},
		"a comma at the start":        {`[,{"data":"a"}]`, 0, 1},
		"a cut inside an entry":       {`[{"data":"a"},{"data":`, 1, 22},
		"a cut inside text":           {`[{"data":"a"},{"data":"b`, 1, 24},
		"a cut between entries":       {`[{"data":"a"}`, 1, 13},
		"a cut after a comma":         {`[{"data":"a"},`, 1, 14},
		"text after the end":          {`[{"data":"a"}] x`, 1, 15},
		"an error after invalid ones": {`[{"x":1},7,{"data":"a"},{]`, 3, 25},
		"nesting beyond all limits":   {`[{"data":"a"},` + strings.Repeat("[", 1<<20) + strings.Repeat("]", 1<<20) + `]`, 1, 14 + maxLineDepth},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, result := decodeLogs(c.body)
			var e *Error
			if !errors.As(result.Err(), &e) || e.Code != CodeInvalidJSON || e.Index != c.index || e.Offset != c.offset {
				t.Fatalf("got %v, want entry %d, byte %d", result.Err(), c.index, c.offset)
			}
			if !strings.HasSuffix(e.Detail, "; no entry of the array was accepted") {
				t.Errorf("detail %q", e.Detail)
			}
			if result.Accepted != 0 || result.RejectedTotal != 0 {
				t.Errorf("accepted %d, rejected %d", result.Accepted, result.RejectedTotal)
			}
		})
	}
}

func TestBodyWithoutAGoodEntryIsRefusedWithItsFirstReason(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]Error{
		`{"data":}`:                          {CodeInvalidJSON, 0, 8, "expected a value"},
		`hello`:                              {CodeInvalidJSON, 0, 0, "an entry must be a JSON object"},
		`"hello"`:                            {CodeInvalidJSON, 0, 0, "an entry must be a JSON object"},
		`{}`:                                 {CodeMissingField, 0, 0, "data is required"},
		` {"message":"x"}`:                   {CodeMissingField, 0, 1, "data is required"},
		`[{"data":"x","metadata":[]},{}]`:    {CodeInvalidField, 0, 24, "metadata must be an object"},
		`[{"data":"x","metadata":[]},{bad}]`: {CodeInvalidJSON, 1, 29, "expected a key in double quotes; no entry of the array was accepted"},
	} {
		_, result := decodeLogs(body)
		var e *Error
		if err := result.Err(); !errors.As(err, &e) || *e != want {
			t.Errorf("%s: got %v, want %v", body, err, &want)
		}
	}
}

func TestErrorsDoNotQuoteTheBody(t *testing.T) {
	t.Parallel()
	const secret = "hunter2"
	for _, body := range []string{
		secret, `{"data":` + secret, `{"` + secret + `":1}`, `{"data":"x","application":["` + secret + `"]}`,
		`{"data":"x","metadata":"` + secret + `"}`, `[{"` + secret + `"]`, `[{"data":"\` + secret + `"}]`,
	} {
		_, result := decodeLogs(body)
		if err := result.Err(); err == nil || strings.Contains(err.Error(), secret) {
			t.Errorf("%s: got %v", body, err)
		}
	}
}

func TestErrorHasEntryAndOffset(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		"":            "empty_body: the body has no entry",
		"  x":         "invalid_json: entry 0, byte 2: an entry must be a JSON object",
		`{"data":"a\`: "invalid_json: entry 0, byte 10: an escape in a string is not one of JSON's",
	} {
		_, result := decodeLogs(body)
		if err := result.Err(); err == nil || err.Error() != want {
			t.Errorf("%q: got %v, want %s", body, err, want)
		}
	}
}

func TestRejectionsThatAreNotListedAreCounted(t *testing.T) {
	t.Parallel()
	_, result := decodeLogs(strings.Repeat("{}\n", 250))
	if len(result.Rejected) != 100 || result.RejectedTotal != 250 || result.Rejected[99].Index != 99 {
		t.Errorf("%d kept of %d", len(result.Rejected), result.RejectedTotal)
	}
}

func TestRejectionHasTheDocumentedJSON(t *testing.T) {
	t.Parallel()
	_, result := decodeLogs(`{}`)
	got, err := json.Marshal(result.Rejected)
	want := `[{"index":0,"code":"missing_field","detail":"data is required","offset":0}]`
	if err != nil || string(got) != want {
		t.Errorf("got %s, %v", got, err)
	}
}

func TestDecoderCanBeReused(t *testing.T) {
	t.Parallel()
	d := NewDecoder(DefaultLimits())
	for _, body := range []string{`{"data":"a\n","host":"h","metadata":{"k":"v"}}`, `[{"data":`, `{"data":"b"}`} {
		d.Logs([]byte(body), defaults(), func(l *record.Log) {
			if l.Data == "b" && (l.Host != "" || len(l.Metadata) != 0) {
				t.Errorf("something is left of an earlier body: %+v", l)
			}
		})
	}
}

func TestDecoderKeepsNothingOfABody(t *testing.T) {
	t.Parallel()
	d := NewDecoder(DefaultLimits())
	d.Logs([]byte(`{"data":"`+strings.Repeat(`\n`, keptText)+`","metadata":{"k":"v"}}`), defaults(), func(*record.Log) {})
	if d.scan.body != nil || cap(d.scan.text) > keptText || d.log.Data != "" || d.fields[fieldData].text != "" || d.emitLog != nil {
		t.Error("the decoder still refers to the body")
	}
	for _, p := range d.pairs.list[:cap(d.pairs.list)] {
		if p.Key != "" || p.Value != "" {
			t.Errorf("the decoder still holds %v", p)
		}
	}
}
