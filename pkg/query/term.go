package query

import (
	"regexp"
	"regexp/syntax"
	"strconv"
	"strings"

	"github.com/logboom/logboom/pkg/record"
)

// operators by their spelling, the longer ones first.
var operators = [...]string{"!=", ">=", "<=", ":", ">", "<"}

// fieldAhead recognises a name with an operator behind it. name:// is none: that
// is an address somebody pasted.
func (p *parser) fieldAhead() (name, operator string, found bool) {
	rest := p.text[p.at:]
	n := nameLength(p.kind, rest)
	if n == 0 {
		return "", "", false
	}
	for _, operator := range operators {
		if strings.HasPrefix(rest[n:], operator) {
			return rest[:n], operator, !strings.HasPrefix(rest[n:], "://")
		}
	}
	return "", "", false
}

// nameLength is how many bytes at the text's begin may be a field's name: from a
// letter or _ on, up to a letter, digit or _. A key with other characters
// stands in quotes: metadata."odd key".
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
	if strings.EqualFold(text[:n], string(pairsOf(kind))+".") && n < len(text) && text[n] == '"' {
		if _, length := unquote(text[n:]); length > 2 {
			return n + length
		}
	}
	if n != end {
		return 0
	}
	return n
}

// fieldTerm reads what follows a field's name.
func (p *parser) fieldTerm(name, operator string) (node, error) {
	f := fieldOf(p.kind, name)
	if quote := strings.IndexByte(name, '"'); quote >= 0 {
		f.key, _ = unquote(name[quote:])
	}
	p.take(len(name), FieldName)
	p.take(len(operator), Operator)
	switch operator {
	case ":":
		return p.values(f)
	case "!=":
		of, err := p.values(f)
		return not{of}, err
	}
	return p.comparison(f, operator)
}

// values reads a value, or several in parentheses.
func (p *parser) values(f field) (node, error) {
	if p.ended() || p.next() != '(' {
		return p.value(f)
	}
	return p.group(func() (node, error) {
		if err := p.count(); err != nil {
			return nil, err
		}
		defer p.space()
		return p.value(f)
	})
}

// value reads one value of a field.
func (p *parser) value(f field) (node, error) {
	at := p.at
	if !p.ended() && p.next() == '"' {
		text, err := p.quoted()
		if err != nil {
			return nil, err
		}
		return p.equal(f, text, at)
	}
	text := p.run()
	switch text {
	case "":
		return nil, p.expected(anyValue)
	case "*":
		p.take(1, Operator)
		return exists{p.kind, f}, nil
	}
	body, prefix, err := p.star(text)
	if err != nil {
		return nil, err
	}
	p.take(len(text), Value)
	if prefix && f.kind != idField {
		return newStarts(p.kind, f, body), nil
	}
	return p.equal(f, text, at)
}

// equal is the whole value; an id has to be one.
func (p *parser) equal(f field, text string, at int) (node, error) {
	if f.kind != idField {
		return newEquals(p.kind, f, text), nil
	}
	id, ok := parseIdentity(text)
	if !ok {
		return nil, &Error{at, "an id such as 2-1048576-17", found(text)}
	}
	return id, nil
}

// comparison reads the number, or the severity's word, behind < or >.
func (p *parser) comparison(f field, operator string) (node, error) {
	text := p.run()
	value := compares{kind: p.kind, field: f, operator: operator}
	switch n := record.SeverityNumber(text); {
	case f.kind == idField:
		return nil, p.expected("id: or id!=, an id is no number")
	case isNumber(text):
		value.number, _ = strconv.ParseFloat(text, 64) // isNumber lets nothing pass that is not one
	case f.kind == severityField && n > 0:
		value.number = float64(n)
	case f.kind == severityField:
		return nil, p.expected("a number from 1 to 24, or trace, debug, info, warn, error or fatal")
	default:
		return nil, p.expected("a number")
	}
	p.take(len(text), Value)
	return value, nil
}

// quoted reads a "text".
func (p *parser) quoted() (string, error) {
	at := p.at
	text, length := unquote(p.text[at:])
	if length == 0 {
		p.at = len(p.text)
		return "", p.expected(`the " that ends the text of byte ` + strconv.Itoa(at))
	}
	p.take(length, Text)
	return text, nil
}

// unquote reads a text between quotes, where \" and \\ stand for " and \. The
// length is that of what it read, 0 where the end is missing.
func unquote(text string) (string, int) {
	var body strings.Builder
	for i := 1; i < len(text); i++ {
		switch c := text[i]; {
		case c == '"':
			return body.String(), i + 1
		case c == '\\' && i+1 < len(text) && (text[i+1] == '"' || text[i+1] == '\\'):
			i++
			body.WriteByte(text[i])
		default:
			body.WriteByte(c)
		}
	}
	return "", 0
}

// expression reads a /regular expression/, where \/ stands for /.
func (p *parser) expression() (node, error) {
	at, end := p.at, p.at+1
	for end < len(p.text) && p.text[end] != '/' {
		if p.text[end] == '\\' {
			end++
		}
		end++
	}
	if end >= len(p.text) {
		p.at = len(p.text)
		return nil, p.expected("the / that ends the expression of byte " + strconv.Itoa(at))
	}
	if p.expressions++; p.expressions > maxExpressions {
		return nil, p.expected("at most " + strconv.Itoa(maxExpressions) + " regular expressions")
	}
	pattern, err := compilePattern(strings.ReplaceAll(p.text[at+1:end], `\/`, `/`))
	if err != "" {
		p.at++
		return nil, &Error{p.at, "a regular expression (RE2)", err}
	}
	p.take(end+1-at, Expression)
	return matches{p.kind, pattern}, nil
}

// compilePattern holds an expression to RE2's syntax and to a bounded size. As
// in ClickHouse, the dot stands for a line end too. What is wrong comes as text.
func compilePattern(text string) (*regexp.Regexp, string) {
	if text == "" {
		return nil, "nothing between the slashes"
	}
	tree, err := syntax.Parse(text, syntax.Perl|syntax.DotNL)
	if err != nil {
		return nil, err.Error()
	}
	program, err := syntax.Compile(tree.Simplify())
	if err != nil || programSize(program) > maxProgram {
		return nil, "one that is too large"
	}
	pattern, err := regexp.Compile("(?s)" + text)
	if err != nil {
		return nil, err.Error()
	}
	return pattern, ""
}

// programSize weighs a program: classes such as \pL are one instruction here and
// hundreds in ClickHouse, which compiles for bytes.
func programSize(program *syntax.Prog) int {
	size := len(program.Inst)
	for _, instruction := range program.Inst {
		size += len(instruction.Rune)
	}
	return size
}
