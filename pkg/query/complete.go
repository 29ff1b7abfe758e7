package query

import (
	"strings"

	"github.com/logboom/logboom/pkg/record"
)

// Completion is what a person is typing at a cursor.
type Completion struct {
	From, To int    // the bytes to replace
	Field    string // the canonical name of the field whose value is typed; "" where a field or a word is
	Prefix   string // the part that is typed already
	Rest     string // the query without the term that is typed
	Nothing  bool   // the cursor is in quotes or in an expression: there is nothing to offer
}

// Complete returns what is being typed at a cursor, a position in bytes. The
// text may be unfinished.
func Complete(kind record.Kind, text string, cursor int) Completion {
	cursor = min(max(cursor, 0), len(text))
	before := text[:cursor]
	start := termStart(before)
	if start < 0 {
		return Completion{From: cursor, To: cursor, Nothing: true}
	}
	rest := text[:start] + text[cursor:]
	if strings.HasPrefix(before[start:], "-") {
		start++
	}
	p := parser{kind: kind, input: before, at: start}
	typed, operator, ok := p.fieldAhead()
	if !ok {
		return Completion{From: start, To: cursor, Prefix: before[start:], Rest: rest}
	}
	from := start + len(typed) + len(operator)
	from += strings.LastIndexAny(before[from:], " \t\n(") + 1
	return Completion{From: from, To: cursor, Field: typedField(kind, typed).name, Prefix: before[from:], Rest: rest}
}

// termStart returns where the last term of an unfinished text begins, -1 in
// quotes or in an expression. A field's parentheses belong to its term.
func termStart(text string) int {
	start, group := 0, -1
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '"' || c == '/' && i == start:
			length := delimitedLength(text[i:])
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

// delimitedLength returns the length of a text with its delimiters, such as
// "text", 0 where the second delimiter is missing.
func delimitedLength(text string) int {
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
