package query

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/logboom/logboom/pkg/record"
)

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
	Invalid    TokenKind = "invalid"  // from where the text is no query
)

// Token is a piece of a query's text, from byte From up to byte To.
type Token struct {
	From int       `json:"from"`
	To   int       `json:"to"`
	Kind TokenKind `json:"kind"`
}

// Tokens cuts a text into what it is made of, in order, without the white
// space; for colouring it. The rest of a text that is no query is one Invalid
// token.
func Tokens(kind record.Kind, text string) []Token {
	p := parser{kind: kind, text: text}
	if _, err := p.parse(); err == nil {
		return p.tokens
	}
	end := 0
	if n := len(p.tokens); n > 0 {
		end = p.tokens[n-1].To
	}
	if rest := strings.TrimSpace(text[end:]); rest != "" {
		from := end + strings.Index(text[end:], rest)
		p.tokens = append(p.tokens, Token{from, from + len(rest), Invalid})
	}
	return p.tokens
}

func (p *parser) ended() bool { return p.at >= len(p.text) }

// next is the byte at hand; the text has not ended.
func (p *parser) next() byte { return p.text[p.at] }

// take moves past n bytes, which are a token.
func (p *parser) take(n int, kind TokenKind) {
	p.tokens = append(p.tokens, Token{p.at, p.at + n, kind})
	p.at += n
}

// space moves past white space.
func (p *parser) space() {
	for !p.ended() {
		r, size := utf8.DecodeRuneInString(p.text[p.at:])
		if !unicode.IsSpace(r) {
			return
		}
		p.at += size
	}
}

// run is the text from here to white space, a parenthesis or a quote.
func (p *parser) run() string {
	rest := p.text[p.at:]
	end := strings.IndexFunc(rest, func(r rune) bool {
		return unicode.IsSpace(r) || r == '(' || r == ')' || r == '"'
	})
	if end < 0 {
		return rest
	}
	return rest[:end]
}

// ahead tells whether the word comes next, alone.
func (p *parser) ahead(word string) bool { return p.run() == word }

// keyword takes the word where it comes next, and the space after it.
func (p *parser) keyword(word string) bool {
	if !p.ahead(word) {
		return false
	}
	p.take(len(word), Operator)
	p.space()
	return true
}

// dash takes the - that denies a term. One before a space or another - is text,
// as in --verbose.
func (p *parser) dash() bool {
	rest := p.text[p.at:]
	if len(rest) < 2 || rest[0] != '-' || rest[1] == '-' || rest[1] == ')' {
		return false
	}
	if r, _ := utf8.DecodeRuneInString(rest[1:]); unicode.IsSpace(r) {
		return false
	}
	p.take(1, Operator)
	return true
}

// expected is the error of this place.
func (p *parser) expected(what string) error {
	if p.ended() {
		return &Error{len(p.text), what, "the end"}
	}
	text := p.run()
	if text == "" {
		text = p.text[p.at : p.at+1]
	}
	return &Error{p.at, what, found(text)}
}

// maxFound bounds what an error repeats of the text, in characters.
const maxFound = 20

// found repeats a piece of the text, cut and without what a terminal obeys.
func found(text string) string {
	var b strings.Builder
	n := 0
	for _, r := range text {
		if n++; n > maxFound {
			b.WriteRune('…')
			break
		}
		if !unicode.IsPrint(r) {
			r = unicode.ReplacementChar
		}
		b.WriteRune(r)
	}
	return b.String()
}

// isWordByte tells whether a byte belongs to a word: ASCII letters and digits,
// and every byte of a character beyond ASCII. hasToken does the same.
func isWordByte(c byte) bool {
	return c >= utf8.RuneSelf || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}

// cutWords cuts a text into its words.
func cutWords(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return r < utf8.RuneSelf && !isWordByte(byte(r)) })
}

// isASCII tells whether lower-casing a text is a matter of 26 letters. Every
// other text is compared by regular expression, whose folding ClickHouse and
// Go share.
func isASCII(text string) bool {
	for i := range len(text) {
		if text[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// lowerASCII is ClickHouse's lower(): it changes 26 letters and nothing else.
func lowerASCII(text string) string {
	lower := []byte(text)
	for i, c := range lower {
		if 'A' <= c && c <= 'Z' {
			lower[i] = c | 0x20
		}
	}
	return string(lower)
}

// isNumber tells whether a text is a number as comparisons take it; numberForm
// is the same for ClickHouse.
func isNumber(text string) bool {
	text = strings.TrimPrefix(text, "-")
	whole, rest := cutDigits(text, 30)
	if whole == 0 {
		return false
	}
	if after, found := strings.CutPrefix(rest, "."); found {
		var n int
		if n, rest = cutDigits(after, 30); n == 0 {
			return false
		}
	}
	if rest == "" {
		return true
	}
	if rest[0]|0x20 != 'e' {
		return false
	}
	rest = rest[1:]
	if rest != "" && (rest[0] == '-' || rest[0] == '+') {
		rest = rest[1:]
	}
	n, rest := cutDigits(rest, 2)
	return n > 0 && rest == ""
}

// numberForm is isNumber as a regular expression.
const numberForm = `\A-?[0-9]{1,30}(\.[0-9]{1,30})?([eE][-+]?[0-9]{1,2})?\z`

// cutDigits counts the digits that a text begins with, at most so many.
func cutDigits(text string, most int) (n int, rest string) {
	for n < len(text) && n < most && '0' <= text[n] && text[n] <= '9' {
		n++
	}
	return n, text[n:]
}
