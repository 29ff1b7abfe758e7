package notify

import (
	"strings"
	"unicode"
)

// maxPattern is how much of a message tells its group from others.
const maxPattern = 200

// pattern is a message with what changes from one to the next masked: quoted
// texts, and words that hold a digit, such as numbers, times, addresses, UUIDs
// and other ids. So "user 17 timed out after 30s" and "user 99 timed out after
// 2s" are of one group.
func pattern(message string) string {
	var b strings.Builder
	rest := message
	for rest != "" && b.Len() < maxPattern {
		r := rune(rest[0])
		switch {
		case r == '"' || r == '\'' || r == '`':
			if end := strings.IndexByte(rest[1:], rest[0]); end >= 0 {
				b.WriteString("<text>")
				rest = rest[end+2:]
				continue
			}
			rest = rest[1:]
		case unicode.IsSpace(r):
			b.WriteByte(' ')
			rest = strings.TrimLeftFunc(rest, unicode.IsSpace)
		default:
			word := firstWord(rest)
			b.WriteString(masked(word))
			rest = rest[len(word):]
		}
	}
	return strings.TrimSpace(b.String())
}

// firstWord ends before a space, a quote, or one of the marks that join a key
// with its value or one value with the next.
func firstWord(s string) string {
	end := strings.IndexFunc(s[1:], func(r rune) bool { return unicode.IsSpace(r) || strings.ContainsRune("\"'`=,;()[]{}", r) })
	if end < 0 {
		return s
	}
	return s[:end+1]
}

// masked is the word, or what stands for all words like it.
func masked(word string) string {
	digits, hex := 0, len(word) >= 8
	for _, r := range word {
		if '0' <= r && r <= '9' {
			digits++
		}
		hex = hex && strings.ContainsRune("0123456789abcdefABCDEF-", r)
	}
	switch {
	case hex && digits > 0:
		return "<id>"
	case digits > 0:
		return "<n>"
	}
	return word
}
