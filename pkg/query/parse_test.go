package query

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/logboom/logboom/pkg/record"
)

func TestErrorsSayWhereAndWhatWasExpected(t *testing.T) {
	t.Parallel()
	tests := []struct {
		text     string
		position int
		expected string
	}{
		{"OR 1=1", 0, "a word"},
		{"a OR", 4, "a word"},
		{"a AND OR b", 6, "a word"},
		{"(a", 2, ")"},
		{"a)", 1, "the end"},
		{"()", 1, "a word"},
		{"NOT", 3, "a word"},
		{`say "hello`, 10, `the " that ends the text of byte 4`},
		{`""`, 0, "text between the quotes"},
		{"/a(/", 1, "a regular expression"},
		{"//", 1, "a regular expression"},
		{"/a", 2, "the / that ends"},
		{"/(?P<n>a){1000}{1000}/", 1, "a regular expression"},
		{"/(a{100}){100}/", 1, "a regular expression"},
		{"host:", 5, "a value"},
		{"host: a", 5, "a value"},
		{"host:()", 6, "a word"},
		{"host:(a OR)", 10, "a word"},
		{"host:a*b", 6, "a * at the end"},
		{"w*rd", 1, "a * at the end"},
		{"size>big", 5, "a number"},
		{"size>", 5, "a number"},
		{"severity>=loud", 10, "a number from 1 to 24"},
		{"id:12", 3, "an id"},
		{"id>5", 3, "id:"},
		{"a\x00b", 1, "text"},
		{"a\xffb", 1, "UTF-8"},
		{strings.Repeat("x", MaxBytes+1), MaxBytes, "at most 1024 bytes"},
		{strings.Repeat("(", maxDepth+1) + "a", maxDepth, "at most 32 levels"},
		{strings.Repeat("NOT ", 200) + "a", 4*maxDepth + 4, "at most 32 levels"},
		{strings.Repeat("a ", maxTerms+1), 2 * maxTerms, "at most 100 terms"},
		{strings.Repeat("/a/ ", maxExpressions+1), 4 * maxExpressions, "at most 8"},
	}
	for _, test := range tests {
		_, err := Parse(record.KindLog, test.text)
		var bad *Error
		if !errors.As(err, &bad) {
			t.Errorf("%.40q: error %v", test.text, err)
			continue
		}
		if bad.Position != test.position || !strings.Contains(bad.Expected, test.expected) {
			t.Errorf("%.40q: at %d expected %q (found %q), want at %d %q", test.text, bad.Position, bad.Expected, bad.Found, test.position, test.expected)
		}
	}
}

// aLog is what the tests of meaning ask about.
func aLog() *Record {
	return &Record{
		Shard: 2, Seq: 1048576, Idx: 17,
		Data:        "GET /orders/7 failed: Connection REFUSED by 10.0.0.1 (req-3810) \"so what\", Größe=42 --verbose",
		Application: "Billing API", Severity: "Warning", SeverityNumber: 13, Host: "web-1", Source: "stdout",
		Pairs: map[string]string{"user": "Bob", "took": "12.5", "empty": "", "odd key": "x", "k8s.pod/name": "web-7f", "HOST": "h"},
	}
}

func TestTermsMeanWhatTheyShould(t *testing.T) {
	t.Parallel()
	yes := []string{
		"", "  ", "*", "failed", "FAILED", "req-3810", "REQ-3810", "connection refused", `"ction ref"`, "conn*", "req-38*", "größe", "GRÖSSE=42 OR größe",
		"/orders.[0-9]/", `/\/orders/`, "/REFUSED/", "NOT nothing", "-nothing", "failed -nothing", "nothing OR failed", "nothing other OR failed", "(nothing OR failed) refused",
		"failed AND refused", "or OR failed", "--verbose", "10.0.0.1", "user=bob OR 42", `"\"so what\""`, `"10.0.0.1 (REQ"`,
		"user:bob", "metadata.user:BOB", `metadata."odd key":x`, "user:b*", "user:*", "user!=alice", "nokey!=x", "-user:alice", "-nokey:*", "empty:*", `empty:""`,
		"application:billing* app:\"billing api\"", "level:warning", "severity:WARN*", "host:web-1", "host:(web-2 OR web-1)", "host:(web* -web-2)", "source!=stderr",
		"severity>=warn", "severity>=13", "severity<error", "severity<=warning", "severity>info", "took>12", "took<=12.5", "took>=1.25e1", "took<1e3",
		"id:2-1048576-17", "id:*", "k8s.pod/name:web-7f", "metadata.HOST:h", "user:(\"bob\" OR \"alice\")", "nokey!=(a OR b)",
	}
	no := []string{
		"fail", "efused", "ction", "req-381", "3810-req", "nothing", "NOT failed", "-failed", "failed nothing", "failed AND NOT refused", "/refused/", `"failed connection"`,
		"user:bo", "user:alice", "user!=BOB", "nokey:*", `nokey:""`, "host:web", "took>12.5", "user>5", "empty<5", "nokey<5", "severity>warn", "id:2-1048576-18", "id!=2-1048576-17",
		"metadata.host:*", "get /ORDERS/", "http://", "größ", "metadata.USER:bob", "severity:warn",
	}
	for _, list := range []struct {
		texts []string
		want  bool
	}{{yes, true}, {no, false}} {
		for _, text := range list.texts {
			q, err := Parse(record.KindLog, text)
			if err != nil {
				t.Errorf("%q: %v", text, err)
				continue
			}
			if got := q.Match(aLog()); got != list.want {
				t.Errorf("%q: match %v, want %v; as SQL %s", text, got, list.want, q.Compile().SQL)
			}
		}
	}
}

func TestEventsHaveFieldsOfTheirOwn(t *testing.T) {
	t.Parallel()
	event := &Record{Channel: "Deploys", Title: "v42 is live", Description: "All regions", Pairs: map[string]string{"commit": "abc", "host": "h"}}
	for text, want := range map[string]bool{
		"live": true, "regions": true, "live regions": true, "live-all": false, "channel:deploys": true, `title:"V42 is live"`: true, "title:v42": false,
		"description:all*": true, "tags.commit:ABC": true, "commit:abc": true, "host:h": true, "severity:*": false, "NOT regions": false,
	} {
		q, err := Parse(record.KindEvent, text)
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		if got := q.Match(event); got != want {
			t.Errorf("%q: match %v, want %v", text, got, want)
		}
	}
}

func TestTokensCoverTheText(t *testing.T) {
	t.Parallel()
	text := `-failed "a b" /x+/ (host:web* OR took>=5) AND user!=(a b) "open`
	var got []string
	for _, token := range Tokens(record.KindLog, text) {
		got = append(got, fmt.Sprintf("%s(%s)", token.Kind, text[token.From:token.To]))
	}
	want := `operator(-) word(failed) text("a b") expression(/x+/) operator(() field(host) operator(:) value(web*) operator(OR) field(took) operator(>=) value(5) ` +
		`operator()) operator(AND) field(user) operator(!=) operator(() value(a) value(b) operator()) invalid("open)`
	if joined := strings.Join(got, " "); joined != want {
		t.Errorf("got  %s\nwant %s", joined, want)
	}
}

func TestCompletionKnowsWhatIsTyped(t *testing.T) {
	t.Parallel()
	tests := []struct {
		text string // the cursor stands at its end
		want Completion
	}{
		{"", Completion{}},
		{"ho", Completion{From: 0, To: 2, Prefix: "ho"}},
		{"a -ho", Completion{From: 3, To: 5, Prefix: "ho"}},
		{"(a OR ho", Completion{From: 6, To: 8, Prefix: "ho"}},
		{"app:bi", Completion{From: 4, To: 6, Field: "application", Prefix: "bi"}},
		{"x level!=", Completion{From: 9, To: 9, Field: "severity"}},
		{"user:b", Completion{From: 5, To: 6, Field: "metadata.user", Key: "user", Prefix: "b"}},
		{"host:(a OR w", Completion{From: 11, To: 12, Field: "host", Prefix: "w"}},
		{"host:(a OR b) x", Completion{From: 14, To: 15, Prefix: "x"}},
		{`"a b`, Completion{From: 4, To: 4, Nothing: true}},
		{`"a b" x`, Completion{From: 6, To: 7, Prefix: "x"}},
		{"/a b", Completion{From: 4, To: 4, Nothing: true}},
	}
	for _, test := range tests {
		if got := Complete(record.KindLog, test.text, len(test.text)); got != test.want {
			t.Errorf("%q: %+v, want %+v", test.text, got, test.want)
		}
	}
}
