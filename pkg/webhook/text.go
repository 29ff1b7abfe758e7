package webhook

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// breaker is a zero-width space: put behind the character that begins a
// mention or a link, it leaves the text readable and means nothing.
const breaker = "\u200b"

// clean makes a sender's text harmless wherever it is shown: characters that a
// terminal or a screen obeys are written out, and what begins a mention, in
// any of the services, is broken.
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
		case commands(r):
			fmt.Fprintf(&b, `\u%04x`, r)
		case r == '@' && !strings.HasPrefix(rest, " "), r == '<' && begins(rest):
			b.WriteRune(r)
			b.WriteString(breaker)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// cleanLine is clean for what is to stay on one line.
func cleanLine(s string) string {
	return strings.TrimSpace(strings.ReplaceAll(clean(s), "\n", " "))
}

// commands lists C0, DEL, C1, line separators, and the controls of the writing
// direction, which make a text look like another one.
func commands(r rune) bool {
	switch {
	case r < ' ', 0x7f <= r && r <= 0x9f, r == 0x2028, r == 0x2029:
		return true
	}
	return unicode.Is(unicode.Bidi_Control, r)
}

// begins tells whether a "<" in front of the text is a mention or a link in one
// of the services: <!here>, <@id>, <#id>, <users/all>, <at>, <https://…|…>.
func begins(rest string) bool {
	rest = strings.ToLower(rest[:min(len(rest), 8)])
	for _, start := range []string{"!", "@", "#", "users/", "at>", "http", "mailto:"} {
		if strings.HasPrefix(rest, start) {
			return true
		}
	}
	return false
}

// cut is the first characters of a text, with an ellipsis where it goes on.
func cut(s string, most int) string { return fit(s, most, plain) }

// style is how a service's text is written.
type style struct {
	escape func(rune) string
	size   func(string) int // as the service counts
}

// plain text has nothing to escape. Characters beyond the basic plane count
// twice, as some services do: safe with all of them.
var plain = style{func(r rune) string { return string(r) }, units}

// units counts UTF-16 code units.
func units(s string) int {
	n := 0
	for _, r := range s {
		n++
		if r > 0xffff {
			n++
		}
	}
	return n
}

func bytesOf(s string) int { return len(s) }

// fit escapes a text and cuts it to the size, never inside of an escape.
func fit(s string, most int, in style) string {
	const ellipsis = "…"
	var b strings.Builder
	used, room := 0, 0 // room: up to where an ellipsis still fits
	for _, r := range s {
		escaped := in.escape(r)
		n := in.size(escaped)
		if used+n > most {
			return b.String()[:room] + ellipsis
		}
		b.WriteString(escaped)
		if used += n; used+in.size(ellipsis) <= most {
			room = b.Len()
		}
	}
	return b.String()
}

// escaping is an escape of single characters.
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
	mrkdwn = style{escaping(map[rune]string{'&': "&amp;", '<': "&lt;", '>': "&gt;"}), units}
	// https://core.telegram.org/bots/api#html-style
	html = style{escaping(map[rune]string{'&': "&amp;", '<': "&lt;", '>': "&gt;", '"': "&quot;"}), units}
	// Markdown of Discord, Mattermost, Rocket.Chat and adaptive cards: what can
	// make a link, hide a text or change its form.
	markdown = style{markdownEscape, units}
	// The same for a limit in bytes.
	markdownBytes = style{markdownEscape, bytesOf}
	plainBytes    = style{plain.escape, bytesOf}
)

func markdownEscape(r rune) string {
	if strings.ContainsRune("\\`*_~|[]<", r) {
		return `\` + string(r)
	}
	return string(r)
}
