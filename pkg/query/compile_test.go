package query

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/logboom/logboom/pkg/record"
)

var update = flag.Bool("update", false, "write the golden files again")

// goldenQueries are queries of every form.
var goldenQueries = []struct {
	kind record.Kind
	text string
}{
	{record.KindLog, ""},
	{record.KindLog, "failed"},
	{record.KindLog, "req-3810"},
	{record.KindLog, "conn*"},
	{record.KindLog, "Größe"},
	{record.KindLog, `"Any user Text"`},
	{record.KindLog, `"Größe 5"`},
	{record.KindLog, `/time(d )?out/`},
	{record.KindLog, "a b OR NOT c -d"},
	{record.KindLog, `app:billing host!=web-1 source:std* level:*`},
	{record.KindLog, `user:(Bob OR "A B" OR x*) trace_id:*`},
	{record.KindLog, `metadata."it's":"" user:größe`},
	{record.KindLog, "severity>=warn took<12.5"},
	{record.KindLog, "id:2-1048576-17"},
	{record.KindLog, "' OR 1=1 --"},
	{record.KindLog, `x"; DROP TABLE logs; --" {project:String}`},
	{record.KindEvent, "live title:x tags.commit:abc"},
}

func TestCompiledQueriesDoNotChange(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	for _, g := range goldenQueries {
		q, err := Parse(g.kind, g.text)
		if err != nil {
			t.Fatalf("%q: %v", g.text, err)
		}
		c := q.Compile()
		fmt.Fprintf(&b, "-- %s\n%s\n", g.text, c.SQL)
		for _, a := range c.Arguments {
			fmt.Fprintf(&b, "--   %s = %T %v\n", a.Name, a.Value, a.Value)
		}
		b.WriteString("\n")
	}
	file := filepath.Join("testdata", "compiled.sql")
	if *update {
		if err := os.WriteFile(file, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if b.String() != string(want) {
		t.Errorf("the compiled queries changed; check them and run with -update:\n%s", b.String())
	}
}

// alphabet matches the constants that SQL may consist of.
var (
	parameter = regexp.MustCompile(`\{q[0-9]{1,4}:(String|Float64|UInt8|UInt32|UInt64)\}`)
	alphabet  = regexp.MustCompile(`^(?:[ (),]|\[\?\]|\?|1| AND | OR |NOT| != ''| (?:=|<|<=|>|>=) | > 0|match|hasToken|lower|position|startsWith|mapContains|toFloat64OrZero|` +
		`has\(arrayMap\(v -> lower\(v\), mapValues\((?:metadata|tags)\)\)|data|application|severity_number|severity|host|source|metadata|channel|title|description|tags|_shard|_seq|_idx)*$`)
)

// checkUnbound fails if a text became SQL.
func checkUnbound(t *testing.T, text string, c Condition) {
	t.Helper()
	if n := len(parameter.FindAllString(c.SQL, -1)); n != len(c.Arguments) {
		t.Errorf("%q: %d parameters in the text and %d values", text, n, len(c.Arguments))
	}
	if bare := parameter.ReplaceAllString(c.SQL, "?"); !alphabet.MatchString(bare) {
		t.Errorf("%q: %s is more than the constants", text, bare)
	}
}

func TestNoTextBecomesSQL(t *testing.T) {
	t.Parallel()
	for _, g := range goldenQueries {
		q, err := Parse(g.kind, g.text)
		if err != nil {
			t.Fatal(err)
		}
		checkUnbound(t, g.text, q.Compile())
	}
}

func FuzzParse(f *testing.F) {
	for _, g := range goldenQueries {
		f.Add(g.kind == record.KindEvent, g.text)
	}
	for _, text := range []string{"((((", "NOT NOT", `"\`, `/\`, `metadata."`, `a:"`, "-", "--", "a:(", "\u2028a", "x:*y", "severity>", `metadata."":x`, "tags.:x"} {
		f.Add(false, text)
	}
	f.Fuzz(func(t *testing.T, events bool, text string) {
		kind := record.KindLog
		if events {
			kind = record.KindEvent
		}
		checkTokens(t, kind, text)
		if c := Complete(kind, text, len(text)/2); c.From < 0 || c.From > c.To || c.To > len(text) {
			t.Errorf("%q: completion %+v is outside", text, c)
		}
		q, err := Parse(kind, text)
		if err != nil {
			if bad := err.(*Error); bad.Position < 0 || bad.Position > len(text) || bad.Reason == "" || bad.Character < 1 || !utf8.ValidString(bad.Error()) {
				t.Errorf("%q: %+v", text, bad)
			}
			return
		}
		checkUnbound(t, text, q.Compile())
		checkRoundTrip(t, fmt.Sprintf("%q", text), q)
		Match(q, aLog())
	})
}

// checkTokens fails if tokens are out of order or leave out anything but white
// space.
func checkTokens(t *testing.T, kind record.Kind, text string) {
	t.Helper()
	end := 0
	for _, token := range Tokens(kind, text) {
		if token.From < end || token.To <= token.From || token.To > len(text) || strings.TrimSpace(text[end:token.From]) != "" {
			t.Fatalf("%q: token %+v after %d", text, token, end)
		}
		end = token.To
	}
	if strings.TrimSpace(text[end:]) != "" {
		t.Errorf("%q: no token contains %q", text, text[end:])
	}
}
