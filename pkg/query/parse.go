package query

import (
	"strconv"
	"strings"

	"github.com/logboom/logboom/pkg/record"
)

// parser reads a text from left to right and goes back nowhere.
type parser struct {
	kind   record.Kind
	text   string
	at     int
	tokens []Token // what was read, for colouring

	depth, terms, expressions int
}

// What a term may be, in the words of an error.
const (
	anyTerm  = `a word, "text", /expression/, field:value or (`
	anyValue = `a value, "text", * or (`
)

// parse reads the whole text.
func (p *parser) parse() (node, error) {
	if err := checkText(p.text); err != nil {
		return nil, err
	}
	p.space()
	if p.ended() {
		return nil, nil
	}
	root, err := p.any(p.term)
	if err != nil {
		return nil, err
	}
	if !p.ended() {
		return nil, p.expected(anyTerm + " or the end")
	}
	return root, nil
}

// leaf reads one term: anything, or only values where a field was named before
// the parentheses.
type leaf func() (node, error)

// any reads what OR joins.
func (p *parser) any(one leaf) (node, error) {
	var of []node
	for {
		next, err := p.every(one)
		if err != nil {
			return nil, err
		}
		of = append(of, next)
		if !p.keyword("OR") {
			break
		}
	}
	if len(of) == 1 {
		return of[0], nil
	}
	return either{of}, nil
}

// every reads what AND, or nothing, joins.
func (p *parser) every(one leaf) (node, error) {
	var of []node
	for {
		next, err := p.negatable(one)
		if err != nil {
			return nil, err
		}
		of = append(of, next)
		if !p.keyword("AND") && (p.ended() || p.next() == ')' || p.ahead("OR")) {
			break
		}
	}
	if len(of) == 1 {
		return of[0], nil
	}
	return both{of}, nil
}

// negatable reads a term with what denies it before it.
func (p *parser) negatable(one leaf) (node, error) {
	if !p.keyword("NOT") && !p.dash() {
		return p.group(one)
	}
	if err := p.deeper(); err != nil {
		return nil, err
	}
	defer p.higher()
	of, err := p.negatable(one)
	if err != nil {
		return nil, err
	}
	return not{of}, nil
}

// group reads a term or parentheses.
func (p *parser) group(one leaf) (node, error) {
	if p.ended() || p.next() != '(' {
		return one()
	}
	if err := p.deeper(); err != nil {
		return nil, err
	}
	defer p.higher()
	p.take(1, Operator)
	p.space()
	of, err := p.any(one)
	if err != nil {
		return nil, err
	}
	if p.ended() || p.next() != ')' {
		return nil, p.expected(")")
	}
	p.take(1, Operator)
	p.space()
	return of, nil
}

// deeper goes one level down, as far as that is allowed.
func (p *parser) deeper() error {
	if p.depth++; p.depth > maxDepth {
		return p.expected("at most " + strconv.Itoa(maxDepth) + " levels of parentheses and NOT")
	}
	return nil
}

func (p *parser) higher() { p.depth-- }

// term reads one term of any form, and the space after it.
func (p *parser) term() (node, error) {
	if err := p.count(); err != nil {
		return nil, err
	}
	defer p.space()
	switch p.next() {
	case '"':
		return p.anyText()
	case '/':
		return p.expression()
	}
	if name, operator, found := p.fieldAhead(); found {
		return p.fieldTerm(name, operator)
	}
	return p.words()
}

// count counts a term and expects one to be there.
func (p *parser) count() error {
	if p.terms++; p.terms > maxTerms {
		return p.expected("at most " + strconv.Itoa(maxTerms) + " terms")
	}
	if p.ended() || p.next() == ')' || p.ahead("OR") || p.ahead("AND") || p.ahead("NOT") {
		return p.expected(anyTerm)
	}
	return nil
}

// anyText reads a text in quotes, which has to be one.
func (p *parser) anyText() (node, error) {
	at := p.at
	text, err := p.quoted()
	if err != nil {
		return nil, err
	}
	if text == "" {
		return nil, &Error{at, "text between the quotes", `""`}
	}
	return newContains(p.kind, text), nil
}

// words reads a bare term: the phrase of its words. * stands for everything,
// and a term without letters and digits for itself.
func (p *parser) words() (node, error) {
	text := p.run()
	if text == "*" {
		p.take(1, Operator)
		return all{}, nil
	}
	body, prefix, err := p.star(text)
	if err != nil {
		return nil, err
	}
	p.take(len(text), Word)
	list := cutWords(body)
	if len(list) == 0 {
		return newContains(p.kind, body), nil
	}
	// The star is the last word's only where it stands right behind it.
	prefix = prefix && isWordByte(body[len(body)-1])
	return newPhrase(p.kind, list, prefix), nil
}

// star splits the one * off that a term may end with.
func (p *parser) star(text string) (body string, prefix bool, err error) {
	body, prefix = strings.CutSuffix(text, "*")
	if at := strings.IndexByte(body, '*'); at >= 0 {
		p.at += at
		return "", false, p.expected(`a * at the end of a word only, or "text"`)
	}
	return body, prefix, nil
}
