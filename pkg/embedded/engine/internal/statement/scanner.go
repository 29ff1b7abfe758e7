package statement

import "strings"

// kind is the kind of a token.
type kind int

const (
	end     kind = iota
	word         // a keyword, a bare identifier or a number
	quoted       // an identifier in backticks or double quotes
	literal      // a string
	symbol       // any other single byte
)

type token struct {
	kind  kind
	start int
	text  string
}

// is reports whether the token is this keyword, in any case.
func (t token) is(keyword string) bool {
	return t.kind == word && strings.EqualFold(t.text, keyword)
}

func (t token) symbol(c byte) bool { return t.kind == symbol && t.text[0] == c }

func (t token) unquoted() string {
	if t.kind == quoted && len(t.text) >= 2 {
		return t.text[1 : len(t.text)-1]
	}
	return t.text
}

// scanner reads the tokens of a text. A string or comment that is not closed
// ends at the end of the text.
type scanner struct {
	text string
	pos  int
}

func (s *scanner) next() token {
	s.skipBlank()
	start := s.pos
	if start >= len(s.text) {
		return token{kind: end, start: start}
	}
	k := symbol
	switch c := s.text[start]; {
	case c == '\'':
		k, s.pos = literal, s.closing(c)
	case c == '`' || c == '"':
		k, s.pos = quoted, s.closing(c)
	case c == '$' && s.heredoc():
		k = literal
	case isWord(c):
		k = word
		for s.pos < len(s.text) && isWord(s.text[s.pos]) {
			s.pos++
		}
	default:
		s.pos++
	}
	return token{kind: k, start: start, text: s.text[start:s.pos]}
}

func (s *scanner) peek() token {
	before := s.pos
	t := s.next()
	s.pos = before
	return t
}

// skipGroup skips the rest of a group whose opening bracket was read.
func (s *scanner) skipGroup() {
	for depth := 1; depth > 0; {
		switch t := s.next(); {
		case t.kind == end:
			return
		case t.symbol('('):
			depth++
		case t.symbol(')'):
			depth--
		}
	}
}

// skipBlank skips white space and comments.
func (s *scanner) skipBlank() {
	for s.pos < len(s.text) {
		rest := s.text[s.pos:]
		switch {
		case strings.IndexByte(" \t\r\n\f\v", rest[0]) >= 0:
			s.pos++
		case strings.HasPrefix(rest, "--"), strings.HasPrefix(rest, "# "), strings.HasPrefix(rest, "#!"):
			s.skipPast("\n")
		case strings.HasPrefix(rest, "/*"):
			s.pos += len("/*")
			s.skipPast("*/")
		default:
			return
		}
	}
}

func (s *scanner) skipPast(mark string) {
	i := strings.Index(s.text[s.pos:], mark)
	if i < 0 {
		s.pos = len(s.text)
		return
	}
	s.pos += i + len(mark)
}

// closing returns the position after the quote that closes the one at pos. A
// backslash escapes the next byte. A doubled quote closes the string and opens
// it again, which has the same effect.
func (s *scanner) closing(quote byte) int {
	for i := s.pos + 1; i < len(s.text); i++ {
		switch s.text[i] {
		case '\\':
			i++
		case quote:
			return i + 1
		}
	}
	return len(s.text)
}

// heredoc skips $tag$ … $tag$ if the text continues so.
func (s *scanner) heredoc() bool {
	rest := s.text[s.pos+1:]
	i := strings.IndexByte(rest, '$')
	if i < 0 || strings.ContainsFunc(rest[:i], func(r rune) bool { return r > 0x7f || !isWord(byte(r)) }) {
		return false
	}
	mark := s.text[s.pos : s.pos+i+2]
	s.pos += len(mark)
	s.skipPast(mark)
	return true
}

// isWord excludes `$`, because the caller checks for a heredoc first.
func isWord(c byte) bool {
	return c == '_' || c >= 0x80 || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}
