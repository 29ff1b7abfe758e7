package query

import (
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/logboom/logboom/pkg/record"
)

// parser reads a text from left to right, without backtracking.
type parser struct {
	kind   record.Kind
	input  string
	at     int     // the byte to read next
	tokens []Token // what was read, for Tokens

	depth, terms, expressions int
}

// fail returns the error of a place.
func (p *parser) fail(position int, format string, arguments ...any) error {
	return newError(p.input, position, fmt.Sprintf(format, arguments...))
}

// parse parses the whole text.
func (p *parser) parse() (node, error) {
	if err := p.checkText(); err != nil {
		return nil, err
	}
	p.skipSpace()
	if p.ended() {
		return nil, nil
	}
	root, err := p.parseOr(p.parseTerm)
	if err != nil {
		return nil, err
	}
	if !p.ended() { // only a parenthesis ends the loops before
		return nil, p.fail(p.at, "closing parenthesis without an opening one")
	}
	return root, nil
}

// checkText refuses a text that a parameter cannot carry.
func (p *parser) checkText() error {
	if len(p.input) > MaxBytes {
		return p.fail(MaxBytes, "query is longer than %d bytes", MaxBytes)
	}
	for at, r := range p.input {
		if _, size := utf8.DecodeRuneInString(p.input[at:]); r == utf8.RuneError && size == 1 {
			return p.fail(at, "query is not valid UTF-8")
		}
		if r == 0 {
			return p.fail(at, "query contains a NUL byte")
		}
	}
	return nil
}

// parseOr parses what OR joins. one parses a term: any term, or a value where a
// field was named before the parentheses.
func (p *parser) parseOr(one func() (node, error)) (node, error) {
	var of []node
	for {
		next, err := p.parseAnd(one)
		if err != nil {
			return nil, err
		}
		of = append(of, next)
		if !p.acceptKeyword("OR") {
			break
		}
	}
	if len(of) == 1 {
		return of[0], nil
	}
	return or{of}, nil
}

// parseAnd parses what AND, or only white space, joins.
func (p *parser) parseAnd(one func() (node, error)) (node, error) {
	var of []node
	for {
		next, err := p.parseNot(one)
		if err != nil {
			return nil, err
		}
		of = append(of, next)
		if !p.acceptKeyword("AND") && (p.ended() || p.next() == ')' || p.bare() == "OR") {
			break
		}
	}
	if len(of) == 1 {
		return of[0], nil
	}
	return and{of}, nil
}

// parseNot parses a term and the negations before it.
func (p *parser) parseNot(one func() (node, error)) (node, error) {
	sign := "NOT"
	if !p.acceptKeyword(sign) {
		if sign = "-"; !p.acceptDash() {
			return p.parseGroup(one)
		}
	}
	if err := p.descend(); err != nil {
		return nil, err
	}
	defer p.ascend()
	of, err := p.parseNot(one)
	if err != nil {
		return nil, err
	}
	return not{sign, of}, nil
}

// parseGroup parses a term or a group in parentheses.
func (p *parser) parseGroup(one func() (node, error)) (node, error) {
	if p.ended() || p.next() != '(' {
		return one()
	}
	if err := p.descend(); err != nil {
		return nil, err
	}
	defer p.ascend()
	opened := p.at
	p.accept(1, Operator)
	p.skipSpace()
	of, err := p.parseOr(one)
	if err != nil {
		return nil, err
	}
	if p.ended() {
		return nil, p.fail(opened, "missing closing parenthesis")
	}
	p.accept(1, Operator) // a closing parenthesis: nothing else ends parseOr
	p.skipSpace()
	return of, nil
}

func (p *parser) descend() error {
	if p.depth++; p.depth > maxDepth {
		return p.fail(p.at, "more than %d levels of parentheses and NOT", maxDepth)
	}
	return nil
}

func (p *parser) ascend() { p.depth-- }

// countTerm counts a term that begins here. what names it in an error.
func (p *parser) countTerm(what string) error {
	if p.terms++; p.terms > maxTerms {
		return p.fail(p.at, "more than %d terms", maxTerms)
	}
	if p.ended() {
		return p.fail(p.at, "missing %s", what)
	}
	switch next := p.bare(); {
	case p.next() == ')':
		return p.fail(p.at, "missing %s before the closing parenthesis", what)
	case isKeyword(next):
		return p.fail(p.at, "missing %s before %s", what, next)
	}
	return nil
}

// parseTerm parses one term of any form, and the white space after it.
func (p *parser) parseTerm() (node, error) {
	if err := p.countTerm("search term"); err != nil {
		return nil, err
	}
	defer p.skipSpace()
	switch p.next() {
	case '"':
		opened := p.at
		body, err := p.parseQuoted()
		if err != nil {
			return nil, err
		}
		if body == "" {
			return nil, p.fail(opened, "no text between the quotes")
		}
		return quoted{body}, nil
	case '/':
		return p.parseExpression()
	}
	if typed, operator, ok := p.fieldAhead(); ok {
		return p.parseField(typed, operator)
	}
	return p.parseWords()
}

// parseWords parses a term without quotes: the phrase of its words. * matches
// every record, and a term without letters and digits is a text.
func (p *parser) parseWords() (node, error) {
	typed := p.bare()
	if typed == "*" {
		p.accept(1, Operator)
		return all{}, nil
	}
	body, _, err := p.cutStar(typed)
	if err != nil {
		return nil, err
	}
	p.accept(len(typed), Word)
	if len(splitWords(body)) == 0 {
		return quoted{body}, nil
	}
	return phrase{typed}, nil
}

// cutStar removes the * that a term may end with.
func (p *parser) cutStar(typed string) (body string, found bool, err error) {
	body, found = strings.CutSuffix(typed, "*")
	if at := strings.IndexByte(body, '*'); at >= 0 {
		return "", false, p.fail(p.at+at, "* is possible only at the end of a word; put other text in quotes")
	}
	return body, found, nil
}

// fieldOperators returns the operators, the longer ones first.
func fieldOperators() []string { return []string{"!=", ">=", "<=", ":", ">", "<"} }

// fieldAhead recognises a field's name with an operator behind it. name:// is
// not one: it is the beginning of an address.
func (p *parser) fieldAhead() (typed, operator string, ok bool) {
	rest := p.input[p.at:]
	n := nameLength(p.kind, rest)
	if n == 0 {
		return "", "", false
	}
	for _, operator := range fieldOperators() {
		if strings.HasPrefix(rest[n:], operator) {
			return rest[:n], operator, !strings.HasPrefix(rest[n:], "://")
		}
	}
	return "", "", false
}

// nameLength returns how many bytes at the beginning of a text may be a field's
// name, 0 for none. A name begins with a letter or _ and ends with a letter, a
// digit or _. A key with other characters needs quotes: metadata."odd key".
func nameLength(kind record.Kind, text string) int {
	n, end := 0, 0
	for n < len(text) && (isWordByte(text[n]) || n > 0 && strings.IndexByte(".-@/$", text[n]) >= 0 || text[n] == '_') {
		if n++; isWordByte(text[n-1]) || text[n-1] == '_' {
			end = n
		}
	}
	if n == 0 || '0' <= text[0] && text[0] <= '9' {
		return 0
	}
	if strings.EqualFold(text[:n], string(keysColumn(kind))+".") && n < len(text) && text[n] == '"' {
		if _, length := unquote(text[n:]); length > 2 {
			return n + length
		}
	}
	if n != end {
		return 0
	}
	return n
}

// parseField parses a field's name, its operator and what follows.
func (p *parser) parseField(typed, operator string) (node, error) {
	f := typedField(p.kind, typed)
	p.accept(len(typed), FieldName)
	p.accept(len(operator), Operator)
	if operator != ":" && operator != "!=" {
		return p.parseComparison(f, operator)
	}
	var values node
	var err error
	if !p.ended() && p.next() == '(' {
		values, err = p.parseGroup(func() (node, error) {
			if err := p.countTerm("value"); err != nil {
				return nil, err
			}
			defer p.skipSpace()
			return p.parseValue(f)
		})
	} else {
		values, err = p.parseValue(f)
	}
	if err != nil {
		return nil, err
	}
	if operator == "!=" {
		return not{"!=", fieldTerm{f, values}}, nil
	}
	return fieldTerm{f, values}, nil
}

// parseValue parses one value of a field.
func (p *parser) parseValue(f field) (node, error) {
	begin := p.at
	value := p.bare()
	if !p.ended() && p.next() == '"' {
		var err error
		if value, err = p.parseQuoted(); err != nil {
			return nil, err
		}
	} else {
		switch value {
		case "":
			return nil, p.fail(p.at, "missing value of %s", f.typed)
		case "*":
			p.accept(1, Operator)
			return exists{f}, nil
		}
		body, prefix, err := p.cutStar(value)
		if err != nil {
			return nil, err
		}
		p.accept(len(value), Value)
		if prefix && f.kind != idField {
			return starts{f, body}, nil
		}
	}
	if f.kind == idField {
		if _, err := record.ParseRowID(value); err != nil {
			return nil, p.fail(begin, "%.40q is not an id such as 2-1048576-17", value)
		}
	}
	return equals{f, value}, nil
}

// parseComparison parses the number, or the severity, behind < or >.
func (p *parser) parseComparison(f field, operator string) (node, error) {
	typed := p.bare()
	severity := record.SeverityNumber(typed)
	isNumber, err := regexp.MatchString(numberForm, typed)
	number := float64(severity)
	switch {
	case err != nil:
		return nil, err
	case f.kind == idField:
		return nil, p.fail(p.at, "an id cannot be compared; write id: or id!=")
	case isNumber:
		number, _ = strconv.ParseFloat(typed, 64) // a number beyond its range becomes an infinity
	case f.kind == severityField && severity > 0:
	case f.kind == severityField:
		return nil, p.fail(p.at, "%s%s needs a number from 1 to 24, or trace, debug, info, warn, error or fatal", f.typed, operator)
	default:
		return nil, p.fail(p.at, "%s%s needs a number", f.typed, operator)
	}
	p.accept(len(typed), Value)
	return compares{f, operator, typed, number}, nil
}

// parseQuoted parses a "text" and returns what is between the quotes.
func (p *parser) parseQuoted() (string, error) {
	body, length := unquote(p.input[p.at:])
	if length == 0 {
		return "", p.fail(p.at, "missing closing quote")
	}
	p.accept(length, Text)
	return body, nil
}

// unquote reads a text between quotes, in which \" and \\ stand for " and \. It
// returns the text and the bytes that it read, 0 where the closing quote is
// missing.
func unquote(text string) (body string, length int) {
	var b strings.Builder
	for i := 1; i < len(text); i++ {
		switch c := text[i]; {
		case c == '"':
			return b.String(), i + 1
		case c == '\\' && i+1 < len(text) && (text[i+1] == '"' || text[i+1] == '\\'):
			i++
			b.WriteByte(text[i])
		default:
			b.WriteByte(c)
		}
	}
	return "", 0
}

// parseExpression parses a /regular expression/, in which \/ stands for /.
func (p *parser) parseExpression() (node, error) {
	end := p.at + 1
	for end < len(p.input) && p.input[end] != '/' {
		if p.input[end] == '\\' {
			end++
		}
		end++
	}
	if end >= len(p.input) {
		return nil, p.fail(p.at, "missing closing slash")
	}
	if p.expressions++; p.expressions > maxExpressions {
		return nil, p.fail(p.at, "more than %d regular expressions", maxExpressions)
	}
	pattern := strings.ReplaceAll(p.input[p.at+1:end], `\/`, `/`)
	if err := checkPattern(pattern); err != nil {
		return nil, p.fail(p.at+1, "invalid regular expression: %s", strings.TrimPrefix(err.Error(), "error parsing regexp: "))
	}
	p.accept(end+1-p.at, Expression)
	return expression{pattern}, nil
}

// checkPattern checks RE2's syntax and the size of an expression.
func checkPattern(pattern string) error {
	if pattern == "" {
		return errors.New("it is empty")
	}
	tree, err := syntax.Parse(pattern, syntax.Perl|syntax.DotNL)
	if err != nil {
		return err
	}
	program, err := syntax.Compile(tree.Simplify())
	if err != nil {
		return err
	}
	// ClickHouse compiles for bytes: a class such as \pL, one instruction here,
	// becomes hundreds there. So its ranges count too.
	size := len(program.Inst)
	for _, instruction := range program.Inst {
		size += len(instruction.Rune)
	}
	if size > maxProgram {
		return errors.New("it is too large")
	}
	_, err = regexp.Compile(dotMatchesLineEnds + pattern)
	return err
}

// TokenKind says what a piece of a query's text is.
type TokenKind string

// The kinds of token.
const (
	Word       TokenKind = "word"
	Text       TokenKind = "text"       // in quotes
	Expression TokenKind = "expression" // between slashes
	FieldName  TokenKind = "field"
	Value      TokenKind = "value"
	Operator   TokenKind = "operator" // AND OR NOT - : != < > parentheses *
	Invalid    TokenKind = "invalid"  // the rest of a text that is not a query
)

// Token is a piece of a query's text, from byte From up to byte To.
type Token struct {
	From int
	To   int
	Kind TokenKind
}

// Tokens splits a text into its pieces, in order and without white space, for
// colouring. Where the text is not a query, its rest is one Invalid token.
func Tokens(kind record.Kind, text string) []Token {
	p := parser{kind: kind, input: text}
	if _, err := p.parse(); err == nil {
		return p.tokens
	}
	end := 0
	if n := len(p.tokens); n > 0 {
		end = p.tokens[n-1].To
	}
	if rest := strings.TrimSpace(text[end:]); rest != "" {
		from := len(text) - len(strings.TrimLeftFunc(text[end:], unicode.IsSpace))
		p.tokens = append(p.tokens, Token{from, from + len(rest), Invalid})
	}
	return p.tokens
}

func (p *parser) ended() bool { return p.at >= len(p.input) }

// next returns the next byte; the text has not ended.
func (p *parser) next() byte { return p.input[p.at] }

// accept moves past n bytes, which are a token.
func (p *parser) accept(n int, kind TokenKind) {
	p.tokens = append(p.tokens, Token{p.at, p.at + n, kind})
	p.at += n
}

func (p *parser) skipSpace() {
	p.at = len(p.input) - len(strings.TrimLeftFunc(p.input[p.at:], unicode.IsSpace))
}

// bare returns the text from here to white space, a parenthesis or a quote.
func (p *parser) bare() string {
	rest := p.input[p.at:]
	end := strings.IndexFunc(rest, func(r rune) bool {
		return unicode.IsSpace(r) || r == '(' || r == ')' || r == '"'
	})
	if end < 0 {
		return rest
	}
	return rest[:end]
}

func isKeyword(word string) bool { return word == "AND" || word == "OR" || word == "NOT" }

// acceptKeyword moves past the word and the white space after it, where it
// comes next.
func (p *parser) acceptKeyword(word string) bool {
	if p.bare() != word {
		return false
	}
	p.accept(len(word), Operator)
	p.skipSpace()
	return true
}

// acceptDash moves past a - that negates a term. A dash before white space or
// another dash is text, as in --verbose.
func (p *parser) acceptDash() bool {
	rest := p.input[p.at:]
	if len(rest) < 2 || rest[0] != '-' || rest[1] == '-' || rest[1] == ')' {
		return false
	}
	if r, _ := utf8.DecodeRuneInString(rest[1:]); unicode.IsSpace(r) {
		return false
	}
	p.accept(1, Operator)
	return true
}
