package decode

import (
	"bytes"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
	"unsafe"
)

const (
	// textPerRecord times the limit of a record is how much decoded text is held for
	// one. It is more than one, because long values are decoded before they are cut.
	textPerRecord = 8
	// keptText is the largest text buffer that is reused.
	keptText = 1 << 20

	replacement = "\uFFFD"
)

// view returns b as a string without a copy. b must not change while the string is
// used.
func view(b []byte) string {
	return unsafe.String(unsafe.SliceData(b), len(b))
}

// resetText drops the texts of the last record.
func (s *scanner) resetText() {
	s.text = s.text[:0]
	s.overflow, s.replaced = false, 0
	s.failure = ""
}

func (s *scanner) release() {
	s.body = nil
	if cap(s.text) > keptText {
		s.text = nil
	}
}

// room reports whether about n more bytes may be added to the record's texts.
func (s *scanner) room(n int) bool {
	s.overflow = s.overflow || len(s.text)+n > s.textLimit
	return !s.overflow
}

// decode returns the text of a string, given what is between its quotes. The text
// points into the body if the two are equal.
func (s *scanner) decode(raw []byte, plain bool) string {
	if plain {
		return view(raw)
	}
	next := bytes.IndexByte(raw, '\\')
	if next < 0 {
		return s.valid(raw)
	}
	if !s.room(len(raw)) {
		return ""
	}
	from := len(s.text)
	for ; next >= 0; next = bytes.IndexByte(raw, '\\') {
		s.appendValid(raw[:next])
		raw = raw[next+s.appendEscape(raw[next:]):]
	}
	s.appendValid(raw)
	return view(s.text[from:])
}

// valid returns raw as valid UTF-8.
func (s *scanner) valid(raw []byte) string {
	if utf8.Valid(raw) {
		return view(raw)
	}
	if !s.room(len(raw)) {
		return ""
	}
	from := len(s.text)
	s.appendValid(raw)
	return view(s.text[from:])
}

// appendValid adds raw to the texts. It replaces and counts each byte that is not
// UTF-8.
func (s *scanner) appendValid(raw []byte) {
	if utf8.Valid(raw) {
		s.text = append(s.text, raw...)
		return
	}
	for len(raw) > 0 && s.room(0) {
		r, n := utf8.DecodeRune(raw)
		if r == utf8.RuneError && n == 1 {
			s.replaced++
		}
		s.text = utf8.AppendRune(s.text, r)
		raw = raw[n:]
	}
}

// appendEscape adds what the escape at the start of b stands for and returns its
// length. The escape must be valid.
func (s *scanner) appendEscape(b []byte) int {
	switch c := b[1]; c {
	case 'b':
		s.text = append(s.text, '\b')
	case 'f':
		s.text = append(s.text, '\f')
	case 'n':
		s.text = append(s.text, '\n')
	case 'r':
		s.text = append(s.text, '\r')
	case 't':
		s.text = append(s.text, '\t')
	case 'u':
		return s.appendUnicode(b)
	default:
		s.text = append(s.text, c)
	}
	return 2
}

// appendUnicode adds the character of a \u escape. It joins two surrogates; a
// single surrogate is replaced and counted.
func (s *scanner) appendUnicode(b []byte) int {
	r, _ := hex4(b)
	if !utf16.IsSurrogate(r) {
		s.text = utf8.AppendRune(s.text, r)
		return 6
	}
	if low, ok := hex4(b[6:]); ok {
		if joined := utf16.DecodeRune(r, low); joined != utf8.RuneError {
			s.text = utf8.AppendRune(s.text, joined)
			return 12
		}
	}
	s.replaced++
	s.text = append(s.text, replacement...)
	return 6
}

// keep copies a text into the record's texts and returns the copy.
func (s *scanner) keep(text []byte) string {
	from := len(s.text)
	s.text = append(s.text, text...)
	return view(s.text[from:])
}

// keepNumber returns n as a text of the record.
func (s *scanner) keepNumber(n int) string {
	var digits [20]byte
	return s.keep(strconv.AppendInt(digits[:0], int64(n), 10))
}

// cut returns text. If it is longer than limit bytes, cut returns its beginning
// with a mark that says how much is missing, at most limit bytes together.
func (s *scanner) cut(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	return s.cutTo(text, len(text), limit)
}

// cutTo cuts a text of full bytes, given at least its first limit bytes.
func (s *scanner) cutTo(text string, full, limit int) string {
	var mark [64]byte
	kept := runeStart(text, limit-len(appendCutMark(mark[:0], full)))
	from := len(s.text)
	s.text = append(s.text, text[:kept]...)
	s.text = appendCutMark(s.text, full-kept)
	return view(s.text[from:])
}

func appendCutMark(dst []byte, gone int) []byte {
	dst = append(dst, "…[truncated "...)
	dst = strconv.AppendInt(dst, int64(gone), 10)
	return append(dst, " bytes]"...)
}

// runeStart returns the last index at or before i at which a rune begins, at least
// 0.
func runeStart(text string, i int) int {
	for i > 0 && !utf8.RuneStart(text[i]) {
		i--
	}
	return max(i, 0)
}
