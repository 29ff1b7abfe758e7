package webhook

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// breaker is a zero-width space. Behind the character that begins a mention or a
// link, it leaves the text readable and disables the mention.
const breaker = "\u200b"

// clean makes a text harmless wherever it is shown. It escapes control
// characters, and disables whatever begins a mention or a link in any of the
// services.
func clean(s string) string {
	s = strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\r\n", "\n")
	var b strings.Builder
	b.Grow(len(s))
	for i, r := range s {
		switch rest := s[i+utf8.RuneLen(r):]; {
		case r == '\n':
			b.WriteByte('\n')
		case r == '\t':
			b.WriteByte(' ')
		case isControl(r):
			fmt.Fprintf(&b, `\u%04x`, r)
		case r == '@' && !strings.HasPrefix(rest, " "), r == '<' && beginsLink(rest):
			b.WriteRune(r)
			b.WriteString(breaker)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// cleanLine cleans a text and makes it one line.
func cleanLine(s string) string {
	return strings.TrimSpace(strings.ReplaceAll(clean(s), "\n", " "))
}

// isControl reports whether a character is in C0, DEL, C1, a line separator, or a
// control of the writing direction, which can make a text look like another one.
func isControl(r rune) bool {
	switch {
	case r < ' ', 0x7f <= r && r <= 0x9f, r == 0x2028, r == 0x2029:
		return true
	}
	return unicode.Is(unicode.Bidi_Control, r)
}

// beginsLink reports whether "<" and the text behind it begin a mention or a link
// in one of the services: <!here>, <@id>, <#id>, <users/all>, <at>,
// <https://…|…>.
func beginsLink(rest string) bool {
	rest = strings.ToLower(rest[:min(len(rest), 8)])
	for _, start := range []string{"!", "@", "#", "users/", "at>", "http", "mailto:"} {
		if strings.HasPrefix(rest, start) {
			return true
		}
	}
	return false
}

// cut cuts a text to a number of characters and marks the cut with an ellipsis.
func cut(s string, limit int) string { return fit(s, limit, plain) }

// style says how a service escapes and measures text.
type style struct {
	escape func(rune) string
	size   func(string) int // in the unit of the service's limits
}

// plain escapes nothing. It counts UTF-16 code units, as some services do; the
// count is never lower than that of the others.
var plain = style{func(r rune) string { return string(r) }, utf16Length}

func utf16Length(s string) (n int) {
	for _, r := range s {
		n += utf16.RuneLen(r)
	}
	return n
}

func byteLength(s string) int { return len(s) }

// fit escapes a text and cuts it to a size, but never inside an escape.
func fit(s string, limit int, in style) string {
	const ellipsis = "…"
	var b strings.Builder
	used, last := 0, 0 // last: the end of the text that leaves room for an ellipsis
	for _, r := range s {
		escaped := in.escape(r)
		n := in.size(escaped)
		if used+n > limit {
			return b.String()[:last] + ellipsis
		}
		b.WriteString(escaped)
		if used += n; used+in.size(ellipsis) <= limit {
			last = b.Len()
		}
	}
	return b.String()
}

// escaping returns a function that escapes single characters.
func escaping(pairs map[rune]string) func(rune) string {
	return func(r rune) string {
		if escaped, ok := pairs[r]; ok {
			return escaped
		}
		return string(r)
	}
}

// The styles of the services.
var (
	// https://api.slack.com/reference/surfaces/formatting#escaping
	mrkdwn = style{escaping(map[rune]string{'&': "&amp;", '<': "&lt;", '>': "&gt;"}), utf16Length}
	// https://core.telegram.org/bots/api#html-style
	html = style{escaping(map[rune]string{'&': "&amp;", '<': "&lt;", '>': "&gt;", '"': "&quot;"}), utf16Length}
	// Markdown of Discord, Mattermost, Rocket.Chat and adaptive cards: escapes
	// whatever can make a link, hide a text or change its form.
	markdown = style{markdownEscape, utf16Length}
	// The same, with limits in bytes.
	markdownBytes = style{markdownEscape, byteLength}
	plainBytes    = style{plain.escape, byteLength}
)

func markdownEscape(r rune) string {
	if strings.ContainsRune("\\`*_~|[]<", r) {
		return `\` + string(r)
	}
	return string(r)
}
