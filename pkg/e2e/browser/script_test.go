package browser

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/logboom/logboom/pkg/query"

	"github.com/logboom/logboom/pkg/record"
)

// module evaluates an expression over one of the pages' modules, m.
func (b *tab) module(name, expression string) string {
	b.t.Helper()
	return b.value(fmt.Sprintf(`import(document.querySelector("script[src$='/app.js']").src.replace("app.js", %q)).then((m) => JSON.stringify(%s))`, name, expression))
}

// TestScriptColoursAQueryAsTheServerReadsIt holds the page's own cutting to the
// parser's.
func TestScriptColoursAQueryAsTheServerReadsIt(t *testing.T) {
	b := open(t, looks[0])
	b.signIn(b.site.email, b.site.password)
	for _, text := range []string{
		`severity>=warn app:checkout "timeout"`, `-upstream:stock-api host:web*`, `NOT (a OR b) AND c`, `metadata."odd key":(x OR "y z")`, `/re(g|e)x\/p/ word`,
		`http://example.org/path`, `a.b-c:d`, `k:*`, `--verbose`, `level!=debug`, `req-3810 "with \" quote"`, `trace_id:7f0c`, `größe:5`,
	} {
		kinds := map[query.TokenKind]string{query.Operator: "operator", query.FieldName: "field"}
		var want []string
		for _, token := range query.Tokens(record.KindLog, text) {
			kind := kinds[token.Kind]
			if kind == "" {
				kind = string(token.Kind)
			}
			want = append(want, text[token.From:token.To]+"|"+kind)
		}
		quoted, _ := json.Marshal(text) // a string
		got := b.module("tokens.js", fmt.Sprintf(`m.tokens(%s).filter((t) => t.kind).map((t) => t.text + "|" + (t.kind === "not" ? "operator" : t.kind)).join(" ")`, quoted))
		var list string
		if err := json.Unmarshal([]byte(got), &list); err != nil {
			t.Fatal(err)
		}
		if list != strings.Join(want, " ") {
			t.Errorf("%s\nscript: %s\nserver: %s", text, list, strings.Join(want, " "))
		}
	}
}
