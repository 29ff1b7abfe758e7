package web

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// piece is a run of a line with one style. It contains no character that a
// terminal or browser acts on: for such a character, Text is a picture of it.
type piece struct {
	Text  string
	Class string // the colours that the line itself sets
	Mark  bool   // the query searched for it
	Code  bool   // Text is a picture of a control character
}

// maxShown bounds what a page shows of one line or value, in bytes. Copying
// gives all of it.
const maxShown = 64 << 10

// safeText splits a text into pieces. ANSI colours become classes, and control
// characters pictures. marker finds what to mark; nil marks nothing.
func safeText(text string, marker *regexp.Regexp) []piece {
	text = cutText(text, maxShown)
	s := styler{marker: marker}
	begin := 0
	for at := 0; at < len(text); {
		r, size := utf8.DecodeRuneInString(text[at:])
		if !isControl(r) {
			at += size
			continue
		}
		s.plain(text[begin:at])
		if length := colourLength(text[at:]); length > 0 {
			s.colour(text[at+2 : at+length-1])
			at += length
		} else {
			s.pieces = append(s.pieces, piece{Text: picture(r), Code: true})
			at += size
		}
		begin = at
	}
	s.plain(text[begin:])
	return s.pieces
}

// cutText cuts a text that is longer than maxBytes, between characters.
func cutText(text string, maxBytes int) string {
	if len(text) <= maxBytes {
		return text
	}
	for maxBytes > 0 && !utf8.RuneStart(text[maxBytes]) {
		maxBytes--
	}
	return text[:maxBytes] + "…"
}

// isControl reports whether a terminal or browser acts on a character instead of
// showing it: C0 except tab and line end, DEL, C1, and characters that change the
// direction of a text, join or separate letters, or end a line.
func isControl(r rune) bool {
	switch {
	case r == '\t' || r == '\n':
		return false
	case r < ' ', 0x7f <= r && r <= 0x9f:
		return true
	case r == 0x061c, 0x200b <= r && r <= 0x200c, 0x200e <= r && r <= 0x200f, 0x2028 <= r && r <= 0x202e, 0x2060 <= r && r <= 0x2069, r == 0xfeff:
		return true
	}
	return false
}

// picture returns what is shown for a control character.
func picture(r rune) string {
	switch {
	case r < ' ':
		return string(0x2400 + r)
	case r == 0x7f:
		return "\u2421"
	}
	return fmt.Sprintf("U+%04X", r)
}

// printable returns the beginning of a text, with pictures of what cannot be
// printed.
func printable(text string) string {
	var b strings.Builder
	for _, r := range cutText(text, 80) {
		if isControl(r) || !unicode.IsPrint(r) {
			b.WriteString(picture(r))
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}

// colourLength returns the length of a sequence that sets colours, ESC [ … m, at
// the beginning of a text, or 0.
func colourLength(text string) int {
	if !strings.HasPrefix(text, "\x1b[") {
		return 0
	}
	for i := 2; i < min(len(text), 64); i++ {
		switch c := text[i]; {
		case c == 'm':
			return i + 1
		case c != ';' && c != ':' && (c < '0' || c > '9'):
			return 0
		}
	}
	return 0
}

// styler writes pieces in the style that the text has set.
type styler struct {
	pieces           []piece
	marker           *regexp.Regexp
	fore, back       string
	bold, under, ita bool
}

// colour sets the style by the parameters between ESC [ and m, as far as there are
// classes.
func (s *styler) colour(parameters string) {
	list := strings.FieldsFunc(parameters, func(r rune) bool { return r == ';' || r == ':' })
	if len(list) == 0 {
		list = []string{"0"}
	}
	for i := 0; i < len(list); i++ {
		n, err := strconv.Atoi(list[i])
		if err != nil {
			continue
		}
		if n == 38 || n == 48 {
			i += s.wide(n, list[i+1:])
			continue
		}
		s.one(n)
	}
}

// one applies one parameter.
func (s *styler) one(n int) {
	switch {
	case n == 0:
		*s = styler{pieces: s.pieces, marker: s.marker}
	case n == 1:
		s.bold = true
	case n == 3:
		s.ita = true
	case n == 4:
		s.under = true
	case n == 22:
		s.bold = false
	case n == 23:
		s.ita = false
	case n == 24:
		s.under = false
	case 30 <= n && n <= 37:
		s.fore = "fg" + strconv.Itoa(n-30)
	case 90 <= n && n <= 97:
		s.fore = "fg" + strconv.Itoa(n-90)
	case n == 39:
		s.fore = ""
	case 40 <= n && n <= 47:
		s.back = "bg" + strconv.Itoa(n-40)
	case 100 <= n && n <= 107:
		s.back = "bg" + strconv.Itoa(n-100)
	case n == 49:
		s.back = ""
	}
}

// wide sets one of 256 colours, of which the first sixteen have classes, or skips
// an RGB colour. It returns how many parameters it has read.
func (s *styler) wide(n int, rest []string) int {
	if len(rest) >= 2 && rest[0] == "5" {
		if colour, err := strconv.Atoi(rest[1]); err == nil && colour >= 0 && colour < 16 {
			s.one(n - 8 + colour%8)
		}
		return 2
	}
	if len(rest) >= 4 && rest[0] == "2" {
		return 4
	}
	return len(rest)
}

// class returns the style as classes.
func (s *styler) class() string {
	var list []string
	for class, on := range map[string]bool{"ansi-b": s.bold, "ansi-u": s.under, "ansi-i": s.ita, s.fore: s.fore != "", s.back: s.back != ""} {
		if on {
			list = append(list, class)
		}
	}
	slices.Sort(list)
	return strings.Join(list, " ")
}

// plain adds a run of ordinary text, split at what the marker finds.
func (s *styler) plain(text string) {
	class := s.class()
	add := func(part string, mark bool) {
		if part != "" {
			s.pieces = append(s.pieces, piece{Text: part, Class: class, Mark: mark})
		}
	}
	begin := 0
	if s.marker != nil {
		for _, at := range s.marker.FindAllStringIndex(text, 100) {
			add(text[begin:at[0]], false)
			add(text[at[0]:at[1]], true)
			begin = at[1]
		}
	}
	add(text[begin:], false)
}
