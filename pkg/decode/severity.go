package decode

import "strings"

// The severity of a log that names none.
const (
	defaultSeverity       = "INFO"
	defaultSeverityNumber = 9
)

// longestSeverity is the length of the longest word that is known.
const longestSeverity = len("informational")

// severityWord is the sender's own word without the brackets, colons and white
// space around it.
func severityWord(text string) string {
	return strings.TrimFunc(text, func(r rune) bool {
		return r == '[' || r == ']' || r == ':' || r == ' ' || '\t' <= r && r <= '\r'
	})
}

// SeverityNumber is the number that a log with this severity word has:
// OpenTelemetry's 1 to 24, or 0 for a word that is not known.
func SeverityNumber(word string) uint8 { return severityNumber(severityWord(word)) }

// severityNumber is OpenTelemetry's number of a word in any case, 0 for a word
// that is not known. Bare numbers are not: what 3 means depends on who says it.
func severityNumber(word string) uint8 {
	var lower [longestSeverity]byte
	if len(word) > len(lower) {
		return 0
	}
	for i := range len(word) {
		c := word[i]
		if 'A' <= c && c <= 'Z' {
			c |= 0x20
		}
		lower[i] = c
	}
	switch string(lower[:len(word)]) {
	case "trace", "trce", "finest", "verbose", "vrb":
		return 1
	case "debug", "dbg", "fine", "d":
		return 5
	case "info", "information", "informational", "inf", "i":
		return 9
	case "notice":
		return 10
	case "warn", "warning", "wrn", "w":
		return 13
	case "error", "err", "severe", "e":
		return 17
	case "critical", "crit", "dpanic":
		return 18
	case "alert", "panic":
		return 19
	case "fatal", "ftl", "emerg", "emergency", "f":
		return 21
	}
	return 0
}

// schemeNumber is OpenTelemetry's number of a bare number whose scheme the
// sender names in metadata: syslog 0 to 7, otel 1 to 24, pino 10 to 60. It is
// 0 for anything else.
func schemeNumber(word, scheme string) uint8 {
	n := smallNumber(word)
	switch {
	case n < 0:
	case strings.EqualFold(scheme, "syslog") && n <= 7:
		return [...]uint8{21, 19, 18, 17, 13, 10, 9, 5}[n]
	case strings.EqualFold(scheme, "otel") && 1 <= n && n <= 24:
		return uint8(n)
	case strings.EqualFold(scheme, "pino") && n%10 == 0 && 10 <= n && n <= 60:
		return [...]uint8{1, 5, 9, 13, 17, 21}[n/10-1]
	}
	return 0
}

// smallNumber is the number that one or two digits make, otherwise -1.
func smallNumber(word string) int {
	if len(word) == 0 || len(word) > 2 {
		return -1
	}
	n := 0
	for i := range len(word) {
		if !isDigit(word[i]) {
			return -1
		}
		n = n*10 + int(word[i]-'0')
	}
	return n
}
