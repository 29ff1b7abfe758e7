package browser

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/logboom/logboom/pkg/query"
	"github.com/logboom/logboom/pkg/record"
)

// module evaluates an expression in the page. In the expression, m is one of the
// page's script modules.
func (b *tab) module(name, expression string) string {
	b.t.Helper()
	return b.value(fmt.Sprintf(`import(document.querySelector("script[src$='/app.js']").src.replace("app.js", %q)).then((m) => JSON.stringify(%s))`, name, expression))
}

// TestScriptSplitsAQueryIntoTheServersTokens compares the page's tokens with
// those of pkg/query.
func TestScriptSplitsAQueryIntoTheServersTokens(t *testing.T) {
	b := open(t, displays[0])
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
		quoted, _ := json.Marshal(text) // a string always encodes
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
