package decode

import (
	"bytes"
	"encoding/binary"
	"math/bits"
)

// scanner reads JSON as defined by RFC 8259, once and from left to right. The first
// error stays in failure; a caller that gets false from a method returns at once.
type scanner struct {
	body    []byte
	pos     int
	depth   int // how many objects and arrays may be open at once
	failAt  int
	failure string

	text      []byte // texts of the current record that are not in the body literally
	textLimit int
	overflow  bool // a text did not fit into textLimit
	replaced  int  // bytes and escapes of the current record that were replaced
}

// field is one value of a record. The zero value is a missing field.
type field struct {
	kind byte   // '"', '0' a number, 't' true or false, 'n' null, '{', '['
	at   int    // where it begins in the body
	text string // a string's text, or the JSON text of any other value
}

// absent reports whether the field is missing or null.
func (f *field) absent() bool { return f.kind == 0 || f.kind == 'n' }

// nested reports whether the value is an object or an array.
func (f *field) nested() bool { return f.kind == '{' || f.kind == '[' }

func (s *scanner) fail(at int, why string) bool {
	s.failAt, s.failure = at, why
	if at >= len(s.body) {
		s.failure = "the body ends too early"
	}
	return false
}

func (s *scanner) ok() bool { return s.failure == "" }

// peek skips white space and returns the next byte, or 0 at the end.
func (s *scanner) peek() byte {
	for s.pos < len(s.body) {
		c := s.body[s.pos]
		if c > ' ' || c != ' ' && c != '\n' && c != '\t' && c != '\r' {
			return c
		}
		s.pos++
	}
	return 0
}

// key reads an object's next key and the colon after it. more is false at the end
// of the object and after an error.
func (s *scanner) key(first bool) (key string, more bool) {
	if !s.enterKey(first) {
		return "", false
	}
	raw, plain, ok := s.str()
	if !ok || !s.colon() {
		return "", false
	}
	return s.decode(raw, plain), true
}

// enterKey moves to a key's opening quote.
func (s *scanner) enterKey(first bool) bool {
	c := s.peek()
	if c == '}' {
		s.pos++
		return false
	}
	if !first {
		if c != ',' {
			return s.fail(s.pos, "expected a comma or a closing brace after a value")
		}
		s.pos++
		c = s.peek()
	}
	if c != '"' {
		return s.fail(s.pos, "expected a key in double quotes")
	}
	return true
}

// members reads an object. It calls visit at the value of each key, and visit reads
// that value.
func (s *scanner) members(visit func(key string) bool) bool {
	s.pos++
	for first := true; ; first = false {
		key, more := s.key(first)
		if !more {
			return s.ok()
		}
		if !visit(key) {
			return false
		}
	}
}

// elements reads an array. It calls visit at each value, and visit reads that
// value.
func (s *scanner) elements(visit func() bool) bool {
	s.pos++
	if s.peek() == ']' {
		s.pos++
		return true
	}
	for visit() {
		switch s.peek() {
		case ']':
			s.pos++
			return true
		case ',':
			s.pos++
		default:
			return s.fail(s.pos, noComma)
		}
	}
	return false
}

func (s *scanner) colon() bool {
	if s.peek() != ':' {
		return s.fail(s.pos, "expected a colon after a key")
	}
	s.pos++
	return true
}

// value reads the next value. depth objects and arrays are open around it.
func (s *scanner) value(depth int) (f field, ok bool) {
	c := s.peek()
	f = field{kind: kindOf(c), at: s.pos}
	if c == '"' {
		raw, plain, ok := s.str()
		if ok {
			f.text = s.decode(raw, plain)
		}
		return f, ok
	}
	if !s.skip(depth) {
		return f, false
	}
	f.text = s.valid(s.body[f.at:s.pos])
	return f, true
}

func kindOf(c byte) byte {
	switch c {
	case '"', '{', '[', 'n':
		return c
	case 't', 'f':
		return 't'
	}
	return '0'
}

// skip reads and checks the next value.
func (s *scanner) skip(depth int) bool {
	switch s.peek() {
	case '"':
		_, _, ok := s.str()
		return ok
	case '{':
		return s.enter(depth+1) && s.skipObject(depth+1)
	case '[':
		return s.enter(depth+1) && s.skipArray(depth+1)
	case 't':
		return s.literal("true")
	case 'f':
		return s.literal("false")
	case 'n':
		return s.literal("null")
	}
	return s.number()
}

// enter reads the opening bracket of an object or array at this depth.
func (s *scanner) enter(depth int) bool {
	if depth > s.depth {
		return s.fail(s.pos, "nested too deeply")
	}
	s.pos++
	return true
}

func (s *scanner) skipObject(depth int) bool {
	for first := true; s.enterKey(first); first = false {
		if _, _, ok := s.str(); !ok || !s.colon() || !s.skip(depth) {
			return false
		}
	}
	return s.ok()
}

func (s *scanner) skipArray(depth int) bool {
	if s.peek() == ']' {
		s.pos++
		return true
	}
	for s.skip(depth) {
		switch s.peek() {
		case ']':
			s.pos++
			return true
		case ',':
			s.pos++
		default:
			return s.fail(s.pos, "expected a comma or a closing bracket after a value")
		}
	}
	return false
}

func (s *scanner) literal(word string) bool {
	if !bytes.HasPrefix(s.body[s.pos:], []byte(word)) {
		return s.fail(s.pos, "expected a value")
	}
	s.pos += len(word)
	return true
}

func (s *scanner) number() bool {
	i := s.pos
	if i < len(s.body) && s.body[i] == '-' {
		i++
	}
	whole := s.digits(i)
	if whole == i {
		return s.fail(i, "expected a value")
	}
	if s.body[i] == '0' && whole > i+1 {
		return s.fail(i, "a number begins with a needless zero")
	}
	end, ok := s.fraction(whole)
	if ok {
		end, ok = s.exponent(end)
	}
	if !ok {
		return s.fail(end, "expected a digit")
	}
	s.pos = end
	return true
}

func (s *scanner) digits(i int) int {
	for i < len(s.body) && isDigit(s.body[i]) {
		i++
	}
	return i
}

func (s *scanner) fraction(i int) (end int, ok bool) {
	if i >= len(s.body) || s.body[i] != '.' {
		return i, true
	}
	end = s.digits(i + 1)
	return end, end > i+1
}

func (s *scanner) exponent(i int) (end int, ok bool) {
	if i >= len(s.body) || s.body[i]|0x20 != 'e' {
		return i, true
	}
	i++
	if i < len(s.body) && (s.body[i] == '+' || s.body[i] == '-') {
		i++
	}
	end = s.digits(i)
	return end, end > i
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// str reads a string and returns what is between its quotes. plain means that it is
// ASCII without escapes, so that it needs no decoding.
func (s *scanner) str() (raw []byte, plain, ok bool) {
	start := s.pos + 1
	plain = true
	stopAt := uint64(highBits)
	for i := start; ; {
		i = indexStop(s.body, i, stopAt)
		if i >= len(s.body) {
			return nil, false, s.fail(i, "")
		}
		switch c := s.body[i]; {
		case c == '"':
			s.pos = i + 1
			return s.body[start:i], plain, true
		case c == '\\':
			n := escapeLen(s.body[i:])
			if n == 0 {
				return nil, false, s.fail(i, "an escape in a string is not one of JSON's")
			}
			i += n
		case c < ' ':
			return nil, false, s.fail(i, "a control character in a string is not escaped")
		default:
			stopAt = 0 // from here on only what ends or breaks the string matters
		}
		plain = false
	}
}

const (
	lowBits  = 0x0101010101010101
	highBits = 0x8080808080808080
)

// indexStop returns the index of the first quote, backslash or control character
// from i on, and also of the first byte that is not ASCII if nonASCII is highBits.
// It checks eight bytes at a time: a byte of x-lowBits has its high bit set if that
// byte of x was 0. A byte above such a one may have it wrongly, but only the lowest
// counts.
func indexStop(b []byte, i int, nonASCII uint64) int {
	for ; i+8 <= len(b); i += 8 {
		w := binary.LittleEndian.Uint64(b[i:])
		quote := w ^ lowBits*'"'
		slash := w ^ lowBits*'\\'
		stop := ((quote - lowBits) | (slash - lowBits) | (w - lowBits*' ')) &^ w
		if stop = (stop | w&nonASCII) & highBits; stop != 0 {
			return i + bits.TrailingZeros64(stop)/8
		}
	}
	for ; i < len(b); i++ {
		if c := b[i]; c == '"' || c == '\\' || c < ' ' || c >= 0x80 && nonASCII != 0 {
			break
		}
	}
	return i
}

// escapeLen returns the length of the escape that b begins with, or 0 if there is
// none.
func escapeLen(b []byte) int {
	if len(b) < 2 {
		return 0
	}
	switch b[1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return 2
	case 'u':
		if _, ok := hex4(b); ok {
			return 6
		}
	}
	return 0
}

// hex4 returns the number in an escape such as \u00e9, if b begins with one.
func hex4(b []byte) (r rune, ok bool) {
	if len(b) < 6 || b[0] != '\\' || b[1] != 'u' {
		return 0, false
	}
	for _, c := range b[2:6] {
		switch {
		case isDigit(c):
			r = r<<4 | rune(c-'0')
		case 'a' <= c|0x20 && c|0x20 <= 'f':
			r = r<<4 | rune(c|0x20-'a'+10)
		default:
			return 0, false
		}
	}
	return r, true
}
