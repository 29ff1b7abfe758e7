package query

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/logboom/logboom/pkg/record"
)

func TestErrorsSayWhatIsWrongAndWhere(t *testing.T) {
	t.Parallel()
	tests := []struct {
		text     string
		position int
		reason   string
	}{
		{"OR 1=1", 0, "missing search term before OR"},
		{"a OR", 4, "missing search term"},
		{"a AND OR b", 6, "missing search term before OR"},
		{"(a", 0, "missing closing parenthesis"},
		{"a)", 1, "closing parenthesis without an opening one"},
		{"()", 1, "missing search term before the closing parenthesis"},
		{"NOT", 3, "missing search term"},
		{`say "hello`, 4, "missing closing quote"},
		{`""`, 0, "no text between the quotes"},
		{"/a(/", 1, "invalid regular expression"},
		{"//", 1, "invalid regular expression: it is empty"},
		{"/a", 0, "missing closing slash"},
		{"/(?P<n>a){1000}{1000}/", 1, "invalid regular expression"},
		{"/(a{100}){100}/", 1, "invalid regular expression: invalid repeat count"},
		{"host:", 5, "missing value of host"},
		{"host: a", 5, "missing value of host"},
		{"host:()", 6, "missing value before the closing parenthesis"},
		{"host:(a OR)", 10, "missing value before the closing parenthesis"},
		{"host:a*b", 6, "* is possible only at the end"},
		{"w*rd", 1, "* is possible only at the end"},
		{"size>big", 5, "size> needs a number"},
		{"size>", 5, "size> needs a number"},
		{"severity>=loud", 10, "severity>= needs a number from 1 to 24"},
		{"id:12", 3, `"12" is not an id`},
		{"id>5", 3, "an id cannot be compared"},
		{"a\x00b", 1, "NUL"},
		{"a\xffb", 1, "UTF-8"},
		{strings.Repeat("x", MaxBytes+1), MaxBytes, "longer than 1024 bytes"},
		{strings.Repeat("(", maxDepth+1) + "a", maxDepth, "more than 32 levels"},
		{strings.Repeat("NOT ", 200) + "a", 4*maxDepth + 4, "more than 32 levels"},
		{strings.Repeat("a ", maxTerms+1), 2 * maxTerms, "more than 100 terms"},
		{strings.Repeat("/a/ ", maxExpressions+1), 4 * maxExpressions, "more than 8 regular"},
	}
	for _, test := range tests {
		_, err := Parse(record.KindLog, test.text)
		var bad *Error
		if !errors.As(err, &bad) {
			t.Errorf("%.40q: error %v", test.text, err)
			continue
		}
		if bad.Position != test.position || !strings.Contains(bad.Reason, test.reason) {
			t.Errorf("%.40q: at %d %q, want at %d %q", test.text, bad.Position, bad.Reason, test.position, test.reason)
		}
	}
}

func TestErrorsCountCharactersFromOne(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`größe:1 say "hello`: "missing closing quote (character 13)",
		"a OR":               "missing search term (character 5)",
	} {
		if _, err := Parse(record.KindLog, text); err == nil || err.Error() != want {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}

func TestTokensContainTheWholeText(t *testing.T) {
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

func TestCompletionFindsWhatIsTyped(t *testing.T) {
	t.Parallel()
	tests := []struct {
		text string // the cursor stands at its end
		want Completion
	}{
		{"", Completion{}},
		{"ho", Completion{From: 0, To: 2, Prefix: "ho"}},
		{"a -ho", Completion{From: 3, To: 5, Prefix: "ho", Rest: "a "}},
		{"(a OR ho", Completion{From: 6, To: 8, Prefix: "ho", Rest: "(a OR "}},
		{"app:bi", Completion{From: 4, To: 6, Field: "application", Prefix: "bi"}},
		{"x level!=", Completion{From: 9, To: 9, Field: "severity", Rest: "x "}},
		{"user:b", Completion{From: 5, To: 6, Field: "metadata.user", Prefix: "b"}},
		{"y host:(a OR w", Completion{From: 13, To: 14, Field: "host", Prefix: "w", Rest: "y "}},
		{"host:(a OR b) x", Completion{From: 14, To: 15, Prefix: "x", Rest: "host:(a OR b) "}},
		{`"a b`, Completion{From: 4, To: 4, Nothing: true}},
		{`"a b" x`, Completion{From: 6, To: 7, Prefix: "x", Rest: `"a b" `}},
		{"/a b", Completion{From: 4, To: 4, Nothing: true}},
	}
	for _, test := range tests {
		if got := Complete(record.KindLog, test.text, len(test.text)); got != test.want {
			t.Errorf("%q: %+v, want %+v", test.text, got, test.want)
		}
	}
}
