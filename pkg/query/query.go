// Package query is the language in which people search logs and events: words,
// "text", /expressions/ and field:value terms, joined by AND, OR, NOT and
// parentheses.
//
// [Parse] turns a text into a [Query], a tree. A query can be printed
// ([Query.String]), edited (a facet adds a value, a chip removes a term),
// compiled to SQL for ClickHouse ([Query.Compile]) and asked what to highlight
// in a record ([Query.Marker]). [Complete] and [Tokens] help while a person is
// still typing. No other package knows the syntax.
//
// The one thing to get right: no text becomes SQL. The SQL consists of
// constants of this package (the type fragment); everything that was typed,
// names of fields included, travels as a bound parameter.
//
// A word is a run of ASCII letters, digits and characters beyond ASCII, which
// is how hasToken and the word index of the logs table split a line.
package query

import (
	"fmt"
	"unicode/utf8"

	"github.com/logboom/logboom/pkg/record"
)

// Bounds of a query. They keep it far below what ClickHouse refuses, and above
// what a person would write.
const (
	MaxBytes       = 1024 // of the text
	maxDepth       = 32   // of parentheses and NOT
	maxTerms       = 100
	maxExpressions = 8      // regular expressions
	maxProgram     = 20_000 // instructions and class bounds of one expression; ClickHouse refuses a multiple
)

// Error says why a text is not a query, and where.
type Error struct {
	Position  int    // in bytes, from 0
	Character int    // the same place in characters, from 1
	Reason    string // such as "missing closing quote"
}

// Error returns the reason and the place, such as "missing closing quote
// (character 13)".
func (e *Error) Error() string { return fmt.Sprintf("%s (character %d)", e.Reason, e.Character) }

// newError returns the error of a place in a text.
func newError(text string, position int, reason string) *Error {
	return &Error{position, utf8.RuneCountInString(text[:position]) + 1, reason}
}

// Query is a parsed query of logs or of events. The zero value matches every
// record. A Query is immutable: edits return another one.
type Query struct {
	kind record.Kind
	root node // nil: matches everything
}

// All returns the query that matches every record of a kind.
func All(kind record.Kind) Query { return Query{kind: kind} }

// Parse parses a text. A text without terms matches every record. An error is
// an *Error.
func Parse(kind record.Kind, text string) (Query, error) {
	p := parser{kind: kind, input: text}
	root, err := p.parse()
	if err != nil {
		return Query{}, err
	}
	return Query{kind, root}, nil
}

// String prints the query. The text parses to the same query, unless an edit
// made it exceed a bound of queries.
func (q Query) String() string {
	if q.root == nil {
		return ""
	}
	return q.root.text()
}
