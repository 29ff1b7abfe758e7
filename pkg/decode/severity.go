package decode

import "strings"

// The severity of a log that names none.
const (
	defaultSeverity       = "INFO"
	defaultSeverityNumber = 9
)

// severityWord is the sender's own word without the brackets, colons and white
// space around it.
func severityWord(text string) string {
	return strings.TrimFunc(text, func(r rune) bool {
		return r == '[' || r == ']' || r == ':' || r == ' ' || '\t' <= r && r <= '\r'
	})
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
