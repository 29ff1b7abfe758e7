package query

import (
	"fmt"
	"unicode/utf8"

	"github.com/logboom/logboom/pkg/record"
)

// Bounds of a query. They keep it far below what ClickHouse refuses; a longer
// text or a deeper tree would be nobody's.
const (
	MaxBytes       = 1024 // of the text
	maxDepth       = 32   // of parentheses and NOT
	maxTerms       = 100
	maxExpressions = 8      // regular expressions
	maxProgram     = 20_000 // instructions of one and bounds of ranges in them; ClickHouse refuses a multiple
)

// Error is a text that is not a query: where, in bytes, and what was expected
// there instead of what was found.
type Error struct {
	Position int
	Expected string
	Found    string
}

// Error says all three.
func (e *Error) Error() string {
	return fmt.Sprintf("at byte %d: expected %s, found %s", e.Position, e.Expected, e.Found)
}

// Query is a parsed text. The zero value matches everything. It is immutable
// and safe for use by several goroutines.
type Query struct {
	root node // nil: everything
}

// Parse reads a text; one without terms matches everything. The error is an
// *Error.
func Parse(kind record.Kind, text string) (Query, error) {
	p := parser{kind: kind, text: text}
	root, err := p.parse()
	if err != nil {
		return Query{}, err
	}
	return Query{root}, nil
}

// IsZero tells whether the query matches everything because it asks nothing.
func (q Query) IsZero() bool { return q.root == nil }

// checkText holds a text to what a parameter can carry.
func checkText(text string) error {
	if len(text) > MaxBytes {
		return &Error{MaxBytes, fmt.Sprintf("a query of at most %d bytes", MaxBytes), fmt.Sprintf("one of %d", len(text))}
	}
	for at := 0; at < len(text); {
		r, size := utf8.DecodeRuneInString(text[at:])
		switch {
		case r == utf8.RuneError && size == 1:
			return &Error{at, "UTF-8", "another encoding"}
		case r == 0:
			return &Error{at, "text", "a NUL byte"}
		}
		at += size
	}
	return nil
}
