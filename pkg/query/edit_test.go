package query

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/logboom/logboom/pkg/record"
)

func parsed(t *testing.T, kind record.Kind, text string) Query {
	t.Helper()
	q, err := Parse(kind, text)
	if err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	return q
}

func TestQueriesArePrintedAsTheyWereWritten(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"": "", "  a   AND b": "a b", "a b OR NOT c -d": "a b OR NOT c -d", "(a OR b) c": "(a OR b) c", "((a) b)": "a b", "(a b) c": "(a b) c",
		`user:"bob"`: "user:bob", `user!=(a OR "b c")`: `user!=(a OR "b c")`, "level:*": "level:*", "host:(web* -web-2)": "host:(web* -web-2)", "host:(-a)": "host:(-a)",
		`metadata."odd key":x`: `metadata."odd key":x`, `/a\/b/`: `/a\/b/`, "severity>=warn took<1.5": "severity>=warn took<1.5", `k:"//x"`: `k:"//x"`,
		"-(--verbose)": "-(--verbose)", "-(a b)": "-(a b)", "NOT -a": "NOT -a", `k:"OR"`: `k:"OR"`, "=> *": `"=>" *`, `"say \"so\" \\ "`: `"say \"so\" \\ "`, "id:2-1048576-17": "id:2-1048576-17",
	} {
		if got := parsed(t, record.KindLog, text).String(); got != want {
			t.Errorf("%q is printed as %q, want %q", text, got, want)
		}
	}
}

// checkRoundTrip fails where the printed query is another one. A printed query
// may be longer or deeper than its text, by quotes and parentheses.
func checkRoundTrip(t *testing.T, what string, q Query) {
	t.Helper()
	again, err := Parse(q.kind, q.String())
	if err != nil {
		if !strings.Contains(err.Error(), " than ") {
			t.Errorf("%s is printed as %q: %v", what, q, err)
		}
		return
	}
	if !reflect.DeepEqual(again.root, q.root) {
		t.Errorf("%s is printed as %q, which is another query: %#v, want %#v", what, q, again.root, q.root)
	}
}

func TestTogglingValuesEditsTheQuery(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ text, do, field, value, want string }{
		{"", "in", "application", "checkout", "app:checkout"},
		{"app:checkout", "in", "application", "cart", "app:(checkout OR cart)"},
		{"app:(checkout OR cart) timeout", "in", "application", "checkout", "app:cart timeout"},
		{"app:checkout", "in", "application", "checkout", ""},
		{"app:Checkout x", "in", "application", "checkout", "x"},
		{"-host:web-1", "in", "host", "web-1", "host:web-1"},
		{"host:web-1 x", "out", "host", "web-1", "x -host:web-1"},
		{"x -host:web-1", "out", "host", "web-1", "x"},
		{"a OR b", "in", "host", "web-1", "(a OR b) host:web-1"},
		{`NOT level:debug "two words"`, "out", "host", "web 1", `NOT level:debug "two words" -host:"web 1"`},
		{"x", "in", "metadata.http.status", "504", "x http.status:504"},
		{"x", "in", "metadata.host", "h", "x metadata.host:h"},
		{"x", "in", "metadata.odd key", `say "so"`, `x metadata."odd key":"say \"so\""`},
		{"x", "in", "metadata.k", "OR", `x k:"OR"`},
		{"k:a", "in", "metadata.k", "-b", `k:(a OR "-b")`},
		{"app:check* y", "in", "application", "cart", "app:check* y app:cart"},
		{"app:(a b)", "in", "application", "c", "app:(a b) app:c"},
		{"severity>=warn x", "in", "severity", "warn", "severity:(fatal OR error) x"},
		{"severity>=error x", "in", "severity", "info", "severity:(fatal OR error OR info) x"},
		{"severity>=warn", "out", "severity", "error", "severity>=warn -severity:error"},
		{"", "out", "tags.host", "h", "-host:h"},
		{"app:x -host:a", "without", "host", "", "app:x"},
		{"a app:(x OR y) -app:z b", "without", "application", "", "a b"},
		{"a", "text", "", `b "c"`, `a "b \"c\""`},
	} {
		kind := record.KindLog
		if strings.HasPrefix(c.field, "tags.") {
			kind = record.KindEvent
		}
		q := parsed(t, kind, c.text)
		switch c.do {
		case "in":
			q = q.Toggle(c.field, c.value)
		case "out":
			q = q.ToggleExcluded(c.field, c.value)
		case "without":
			q = q.WithoutField(c.field)
		default:
			q = q.AndText(c.value)
		}
		if q.String() != c.want {
			t.Errorf("%q, %s %s %s: %q, want %q", c.text, c.do, c.field, c.value, q, c.want)
		}
		checkRoundTrip(t, c.text, q)
	}
}

func TestSelectedValuesAreListed(t *testing.T) {
	t.Parallel()
	q := parsed(t, record.KindLog, `x severity>=error host:(a OR "b c") -app:z user!=u k:v* -(id:0-1-2)`)
	if got := fmt.Sprint(q.SelectedFields()); got != "[severity host application metadata.user id]" {
		t.Errorf("selected fields: %s", got)
	}
	for field, want := range map[string]string{"severity": "[fatal error] []", "host": "[a b c] []", "application": "[] [z]", "metadata.user": "[] [u]", "metadata.k": "[] []"} {
		if in, out := q.Selected(field); fmt.Sprint(in, out) != want {
			t.Errorf("%s: %v %v, want %s", field, in, out, want)
		}
	}
}

func TestTermsAreRemovedAndLoweredOneByOne(t *testing.T) {
	t.Parallel()
	q := parsed(t, record.KindLog, `severity>=warn "a b" (c OR d)`)
	if got := fmt.Sprint(q.Terms()); got != `[severity>=warn "a b" c OR d]` {
		t.Errorf("terms: %s", got)
	}
	if got := q.Without(1).String(); got != "severity>=warn (c OR d)" {
		t.Errorf("without a term: %s", got)
	}
	if got, ok := q.LowerSeverity(0); !ok || got.String() != `severity>=info "a b" (c OR d)` {
		t.Errorf("lowered: %s, %v", got, ok)
	}
	if _, ok := q.LowerSeverity(1); ok {
		t.Error("a text was lowered")
	}
	if got := All(record.KindEvent).Toggle("channel", "a b").And(parsed(t, record.KindEvent, "x OR y")).String(); got != `channel:"a b" (x OR y)` {
		t.Errorf("joined: %s", got)
	}
}

func TestMarkerFindsWhatTheQuerySearches(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"timeout": "Timeout timeout", `"out a"`: "out a out a", "-timeout": "", "NOT (a b) time*": "Time time", "host:time": "", `k:("out" OR x) b`: "b", "/out/": "", "": "",
	} {
		var got []string
		if marker := parsed(t, record.KindLog, text).Marker(); marker != nil {
			got = marker.FindAllString("Timeout and timeout a b", -1)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%q marks %q, want %q", text, got, want)
		}
	}
}

func FuzzEditedQueriesAreQueries(f *testing.F) {
	for _, text := range []string{"", "a b", "a OR b", `-app:x "y z"`, `metadata."odd key":(a OR "b c")`, "NOT (a b) severity>=warn", "/re(/)?/ x", "-k:(v OR w) k!=v"} {
		f.Add(text, "k", "v w")
	}
	f.Fuzz(func(t *testing.T, text, key, value string) {
		q, err := Parse(record.KindLog, text)
		if err != nil || key == "" || strings.ContainsRune(key+value, 0) || len(text)+len(key)+len(value) > 300 || !utf8.ValidString(key) || !utf8.ValidString(value) {
			return
		}
		field := "metadata." + key
		for _, edited := range []Query{q.Toggle(field, value), q.ToggleExcluded(field, value), q.AndText("x" + value), q.WithoutField(field), q.And(q)} {
			checkRoundTrip(t, fmt.Sprintf("%q with %q and %q", text, key, value), edited)
			checkUnbound(t, text, edited.Compile())
		}
		in, _ := q.Selected(field)
		toggled, _ := q.Toggle(field, value).Selected(field)
		if len(in) == 0 && (len(toggled) != 1 || toggled[0] != value) {
			t.Errorf("%q with %q toggled selects %q", text, value, toggled)
		}
	})
}
