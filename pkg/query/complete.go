package query

import (
	"strings"

	"github.com/logboom/logboom/pkg/record"
)

// Completion is what somebody is typing at a cursor.
type Completion struct {
	From, To int    // the bytes to replace
	Field    string // whose value is being typed, as a field's canonical name; "" where it may be a field or a word
	Key      string // of metadata or tags, where Field is one of them
	Prefix   string // what is typed of it so far
	Nothing  bool   // inside a text or an expression: nothing to offer
}

// Complete tells what is being typed where the cursor, in bytes, stands. The
// text may be unfinished.
func Complete(kind record.Kind, text string, cursor int) Completion {
	cursor = min(max(cursor, 0), len(text))
	before := text[:cursor]
	p := parser{kind: kind, text: before}
	p.at = termStart(before)
	if p.at < 0 {
		return Completion{From: cursor, To: cursor, Nothing: true}
	}
	if strings.HasPrefix(before[p.at:], "-") {
		p.at++
	}
	if name, operator, found := p.fieldAhead(); found {
		f := fieldOf(kind, name)
		from := p.at + len(name) + len(operator)
		if opened := strings.LastIndexAny(before[from:], " \t\n(\""); opened >= 0 {
			from += opened + 1
		}
		return Completion{From: from, To: cursor, Field: canonical(kind, f), Key: f.key, Prefix: before[from:]}
	}
	return Completion{From: p.at, To: cursor, Prefix: before[p.at:]}
}

// canonical is how a field's name is shown.
func canonical(kind record.Kind, f field) string {
	if f.kind == pairField {
		return string(pairsOf(kind)) + "." + f.key
	}
	return f.name
}

// termStart finds where the last term of an unfinished text begins, -1 inside a
// quoted text or an expression. A field's parentheses belong to its term.
func termStart(text string) int {
	start, group := 0, -1
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '"' || c == '/' && i == start:
			length := quotedLength(text[i:])
			if length == 0 {
				return -1
			}
			i += length - 1
		case c == '(' && i > start:
			group = start
		case c == ')':
			start, group = i+1, -1
		case c == ' ' || c == '\t' || c == '\n' || c == '(':
			start = i + 1
		}
	}
	if group >= 0 {
		return group
	}
	return start
}

// quotedLength is the length of what stands between two equal delimiters, 0
// where the second is missing.
func quotedLength(text string) int {
	for i := 1; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case text[0]:
			return i + 1
		}
	}
	return 0
}
