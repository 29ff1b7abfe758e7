package decode

import (
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/logboom/logboom/pkg/record"
)

func TestEscapesBecomeWhatTheyStandFor(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]string{
		`\"\\\/\b\f\n\r\t`:         "\"\\/\b\f\n\r\t",
		`a\u0000b\u001bc\u007f`:    "a\x00b\x1bc\x7f",
		`\u00e9\u00E9\u20ac`:       "éé€",
		`\ud83d\ude80!`:            "🚀!",
		`\uFFFD`:                   "\uFFFD",
		`plain then \u0041`:        "plain then A",
		`é and \n and 漢字 and 🚀`:    "é and \n and 漢字 and 🚀",
		"\u2028\u202e\x7f":         "\u2028\u202e\x7f",
		`12345678\n12345678\t1234`: "12345678\n12345678\t1234",
	} {
		l := oneLog(t, `{"data":"`+raw+`"}`)
		if l.Data != want || len(l.Metadata) != 0 {
			t.Errorf("%s: got %q and %v", raw, l.Data, l.Metadata)
		}
	}
}

func TestInvalidBytesAreReplacedAndCounted(t *testing.T) {
	t.Parallel()
	const r = "\uFFFD"
	for raw, want := range map[string]struct {
		data     string
		replaced int
	}{
		"a\xffb":                  {"a" + r + "b", 1},
		"\xff\xfe":                {r + r, 2},
		"\xe2\x82":                {r + r, 2},
		"\xc0\x80":                {r + r, 2},
		"\xed\xa0\x80":            {r + r + r, 3},
		"ok € \xf0\x9f\x9a":       {"ok € " + r + r + r, 3},
		`\n` + "\xff" + `\n`:      {"\n" + r + "\n", 1},
		`\ud83d`:                  {r, 1},
		`\ude80\ud83d`:            {r + r, 2},
		`\ud83d0ude80`:            {r + "0ude80", 1},
		`\ud83d\\ude80`:           {r + `\ude80`, 1},
		`\ud83dx`:                 {r + "x", 1},
		`\ud83d\n`:                {r + "\n", 1},
		`\ud83d\ud83d\ude80`:      {r + "🚀", 1},
		`\ud83d\u0041`:            {r + "A", 1},
		`\uFFFD` + "\xEF\xBF\xBD": {r + r, 0},
	} {
		l := oneLog(t, `{"data":"`+raw+`"}`)
		wantPairs := ""
		if want.replaced > 0 {
			wantPairs = "_invalid_utf8=" + strconv.Itoa(want.replaced)
		}
		if l.Data != want.data || pairsText(l.Metadata) != wantPairs {
			t.Errorf("%q: got %q and %v", raw, l.Data, l.Metadata)
		}
	}
}

func TestReplacedBytesAreCountedOverAWholeRecord(t *testing.T) {
	t.Parallel()
	logs, _ := decodeLogs("{\"data\":[\"\xff\"],\"k\xff\":\"v\xff\",\"application\":\"\xff\"}\n{\"data\":\"clean\"}")
	if logs[0].Data != "[\"\uFFFD\"]" || pairsText(logs[0].Metadata) != "k\uFFFD=v\uFFFD _invalid_utf8=4" {
		t.Errorf("got %+v", logs[0])
	}
	if len(logs[1].Metadata) != 0 {
		t.Errorf("the next record has %v", logs[1].Metadata)
	}
	e := oneEvent(t, "{\"channel\":\"c\",\"title\":\"\xff\"}")
	if pairsText(e.Tags) != "_invalid_utf8=1" {
		t.Errorf("got %+v", e)
	}
}

func TestLongValuesAreCutAndMarked(t *testing.T) {
	t.Parallel()
	const limit = 16 << 10
	for _, text := range []string{strings.Repeat("x", limit+1), strings.Repeat("é", limit), "x" + strings.Repeat("🚀", limit), strings.Repeat("\n", 3*limit)} {
		l := oneLog(t, `{"data":`+quoted(text)+`,"k":`+quoted(text)+`,"application":`+quoted(text)+`,"severity":`+quoted("s"+text)+`}`)
		if l.Data != text {
			t.Errorf("data of %d bytes became %d", len(text), len(l.Data))
		}
		mustBeCut(t, l.Metadata[0].Value, text, limit)
		mustBeCut(t, l.Application, text, limit)
		if len(l.Severity) > limit {
			t.Errorf("severity of %d bytes", len(l.Severity))
		}
	}
	exact := strings.Repeat("x", limit)
	if got := oneLog(t, `{"data":"","k":"`+exact+`"}`).Metadata[0].Value; got != exact {
		t.Errorf("a value of exactly the limit became %d bytes", len(got))
	}
}

func TestLongKeysAreCutAndMarked(t *testing.T) {
	t.Parallel()
	const limit = 256
	long := strings.Repeat("é", 200)
	half := strings.Repeat("k", 150)
	for body, full := range map[string]string{
		`{"data":"","` + long + `":1}`:                                       long,
		`{"data":"","metadata":{"` + long + `":1}}`:                          long,
		`{"data":"","` + half + `":{"` + half + `":1}}`:                      half + "." + half,
		`{"data":"","` + long + `":{"` + long + `":{"x":1}}}`:                long + "." + long + ".x",
		`{"data":"","` + half + `":{"` + half + `":{}}}`:                     half + "." + half,
		`{"data":"","` + half + `":{"` + strings.Repeat("k", 106) + `é":1}}`: half + "." + strings.Repeat("k", 106) + "é",
	} {
		mustBeCut(t, oneLog(t, body).Metadata[0].Key, full, limit)
	}
	exact := strings.Repeat("k", limit)
	if got := oneLog(t, `{"data":"","`+exact+`":1}`).Metadata[0].Key; got != exact {
		t.Errorf("a key of exactly the limit became %q", got)
	}
}

// mustBeCut checks that got is text's beginning and a mark, which together fill the
// limit, except for a rune that did not fit.
func mustBeCut(t *testing.T, got, text string, limit int) {
	t.Helper()
	at := strings.LastIndex(got, "…[truncated ")
	if at < 0 || !strings.HasPrefix(text, got[:at]) {
		t.Fatalf("got %.80q of %d bytes", got, len(got))
	}
	if want := "…[truncated " + strconv.Itoa(len(text)-at) + " bytes]"; got[at:] != want {
		t.Errorf("mark %q, want %q", got[at:], want)
	}
	if len(got) > limit || len(got) < limit-4 || !utf8.ValidString(got) {
		t.Errorf("%d bytes, valid %v, for a limit of %d", len(got), utf8.ValidString(got), limit)
	}
}

func TestKeysBeyondTheLimitAreDroppedAndCounted(t *testing.T) {
	t.Parallel()
	var body strings.Builder
	body.WriteString(`{"data":"","timestamp":"?"`)
	for i := range 130 {
		body.WriteString(`,"k` + strconv.Itoa(i) + `":"\u0041"`)
	}
	body.WriteString(`,"k5":"again","k200":{"deep":{}},"k201":[1]}`)
	pairs := oneLog(t, body.String()).Metadata
	if len(pairs) != 130 {
		t.Fatalf("%d pairs", len(pairs))
	}
	want := map[int]record.Pair{
		0: {Key: "k0", Value: "A"}, 5: {Key: "k5", Value: "again"}, 127: {Key: "k127", Value: "A"},
		128: {Key: keyOriginalTime, Value: "?"}, 129: {Key: keyTruncatedKeys, Value: "4"},
	}
	for i, p := range want {
		if pairs[i] != p {
			t.Errorf("pair %d: got %v, want %v", i, pairs[i], p)
		}
	}
}

func TestMarksReplaceAClientsKeys(t *testing.T) {
	t.Parallel()
	got := metadata(t, "{\"data\":\"\xff\",\"_invalid_utf8\":\"0\",\"timestamp_original\":\"x\",\"timestamp\":\"y\"}")
	if want := "_invalid_utf8=1 timestamp_original=y"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestTinyLimitsLeaveOnlyTheMark(t *testing.T) {
	t.Parallel()
	l := DefaultLimits()
	l.Key, l.Value, l.Keys = 3, 5, 0
	logs, result := decodeLogsWithin(l, `{"data":"x","application":"long enough","abcdef":{"g":"long enough"}}`)
	if len(logs) != 1 || logs[0].Application != "…[truncated 11 bytes]" || pairsText(logs[0].Metadata) != "_truncated_keys=1" {
		t.Errorf("got %+v %+v", logs, result)
	}
}
