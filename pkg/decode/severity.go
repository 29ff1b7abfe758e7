package decode

import (
	"strings"
	"unsafe"

	"github.com/logboom/logboom/pkg/record"
)

// The severity of a log that has none of its own.
const (
	defaultSeverity       = "INFO"
	defaultSeverityNumber = 9
)

// severityWord returns the client's word without the brackets, colons and white
// space around it.
func severityWord(text string) string {
	return strings.TrimFunc(text, func(r rune) bool {
		return r == '[' || r == ']' || r == ':' || r == ' ' || '\t' <= r && r <= '\r'
	})
}

// schemeNumber returns OpenTelemetry's severity number for a bare number whose
// scheme the client names in metadata: syslog 0 to 7, otel 1 to 24, pino 10 to
// 60. It returns 0 for anything else.
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

// smallNumber returns the number that one or two digits stand for, and -1 for any
// other text.
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

const (
	// levelWithin is how many bytes of a line are searched for a level word.
	levelWithin = 64
	// logfmtWithin is how many are searched for level=, and jsonWithin how many of a
	// JSON object. A level comes early, and a long line must not cost more.
	logfmtWithin = 1 << 10
	jsonWithin   = 64 << 10
)

// levelFinder finds the severity that a line names. A result is valid until the
// line is reused or the next call.
type levelFinder struct {
	scan scanner
}

// severity returns the number and the word of the line's severity, or 0 and "" if
// the line names none. It looks for these, in this order: a key such as level in
// a JSON line; <N> as in syslog; I0102 15:04:05 as in klog; level=word as in
// logfmt; a level word in brackets or in capitals; any other level word.
func (f *levelFinder) severity(line string) (number uint8, word string) {
	line = trimLeft(line)
	if len(line) < len("err") {
		return 0, ""
	}
	switch c := line[0]; {
	case c == '{':
		if number, word, ok := f.json(line); ok {
			return number, word
		}
	case c == '<':
		if number, word := syslogPrefix(line); number != 0 {
			return number, word
		}
	case 'E' <= c && c <= 'W':
		if number, word := klogPrefix(line); number != 0 {
			return number, word
		}
	}
	if number, word := logfmtLevel(line[:min(len(line), logfmtWithin)]); number != 0 {
		return number, word
	}
	return levelWord(line)
}

// trimLeft removes leading white space and the escape sequences of colours.
func trimLeft(line string) string {
	for line != "" {
		if n := escapeSequence(line); n > 0 {
			line = line[n:]
			continue
		}
		if line[0] > ' ' {
			break
		}
		line = line[1:]
	}
	return line
}

// escapeSequence returns the length of the ANSI sequence that text begins with.
func escapeSequence(text string) int {
	if len(text) < 2 || text[0] != 0x1b || text[1] != '[' {
		return 0
	}
	for i := 2; i < min(len(text), 16); i++ {
		if '@' <= text[i] && text[i] <= '~' {
			return i + 1
		}
	}
	return 0
}

// json searches the keys of a JSON object. ok is false if line is not an object.
func (f *levelFinder) json(line string) (number uint8, word string, ok bool) {
	s := &f.scan
	s.resetText()
	s.body, s.pos = unsafe.Slice(unsafe.StringData(line), min(len(line), jsonWithin)), 1
	for first := true; ; first = false {
		key, more := s.key(first)
		if !more {
			return 0, "", s.ok()
		}
		if !isLevelKey(key) || s.peek() != '"' {
			if !s.skip(1) {
				return 0, "", false
			}
			continue
		}
		value, ok := s.value(1)
		if !ok {
			return 0, "", false
		}
		word := severityWord(value.text)
		if number := record.SeverityNumber(word); number != 0 {
			return number, word, true
		}
	}
}

// isLevelKey reports whether JSON and logfmt use the key for the severity.
func isLevelKey(key string) bool {
	if len(key) < len("@l") || len(key) > len("severity_text") {
		return false
	}
	switch key[0] | 0x20 {
	case 'l':
		return isOneOf(key, "level", "lvl", "loglevel", "log_level", "log.level", "log-level", "levelname", "level_name")
	case 's':
		return isOneOf(key, "severity", "sev", "severity_text", "severitytext")
	case '@' | 0x20:
		return isOneOf(key, "@level", "@l")
	}
	return false
}

func isOneOf(key string, names ...string) bool {
	for _, name := range names {
		if len(key) == len(name) && strings.EqualFold(key, name) {
			return true
		}
	}
	return false
}

// syslogWords are the severities of RFC 5424, by number.
var syslogWords = [...]string{"emerg", "alert", "crit", "err", "warning", "notice", "info", "debug"}

// maxPriority is syslog's largest priority: 23 facilities × 8 + 7.
const maxPriority = 191

// syslogPrefix reads <N>, a priority of syslog or of the kernel.
func syslogPrefix(line string) (number uint8, word string) {
	priority := 0
	for i := 1; i < min(len(line), len("<191>")); i++ {
		switch c := line[i]; {
		case isDigit(c):
			priority = priority*10 + int(c-'0')
		case c == '>' && i > 1 && priority <= maxPriority:
			word = syslogWords[priority&7]
			return record.SeverityNumber(word), word
		default:
			return 0, ""
		}
	}
	return 0, ""
}

// klogPrefix reads the start of a line of klog or glog: I0102 15:04:05.
func klogPrefix(line string) (number uint8, word string) {
	const form = "L0000 00:00:00"
	if len(line) < len(form) {
		return 0, ""
	}
	for i := 1; i < len(form); i++ {
		if form[i] == '0' && !isDigit(line[i]) || form[i] != '0' && form[i] != line[i] {
			return 0, ""
		}
	}
	switch line[0] {
	case 'I':
		word = "INFO"
	case 'W':
		word = "WARNING"
	case 'E':
		word = "ERROR"
	case 'F':
		word = "FATAL"
	}
	return record.SeverityNumber(word), word
}

// logfmtLevel looks for level=word, with or without quotes.
func logfmtLevel(line string) (number uint8, word string) {
	for at := 0; ; at++ {
		n := strings.IndexByte(line[at:], '=')
		if n < 0 {
			return 0, ""
		}
		at += n
		from := at
		for from > 0 && isKeyByte(line[from-1]) && at-from <= len("severity_text") {
			from--
		}
		if !isLevelKey(line[from:at]) {
			continue
		}
		word = wordAt(strings.TrimLeft(line[at+1:], `"'`))
		if number = record.SeverityNumber(word); number != 0 {
			return number, word
		}
	}
}

func isKeyByte(c byte) bool {
	return isLetter(c) || isDigit(c) || c == '_' || c == '.' || c == '-' || c == '@'
}

func isLetter(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }

// wordAt returns the letters that text begins with.
func wordAt(text string) string {
	n := 0
	for n < len(text) && isLetter(text[n]) {
		n++
	}
	return text[:n]
}

// levelWord finds a level word in the first bytes of a line. A word in brackets or
// in capitals is meant as a level. A word in small letters may be prose, so it
// counts only if there is no other.
func levelWord(line string) (number uint8, word string) {
	for i := 0; i < min(len(line), levelWithin); {
		c := line[i]
		if !isLetter(c) {
			i += max(1, escapeSequence(line[i:]))
			continue
		}
		end := i + 1
		for end < len(line) && isLetter(line[end]) {
			end++
		}
		if end > levelWithin {
			break
		}
		if couldBeLevel(line[i:end]) {
			n, certain := levelOfWord(line, i, end)
			if certain {
				return n, line[i:end]
			}
			if n != 0 && number == 0 {
				number, word = n, line[i:end]
			}
		}
		i = end
	}
	return number, word
}

// levelLengths has, by first letter, a bit for each length that a level word can
// have. It rules out most words of a line.
var levelLengths = ['z' - 'a' + 1]uint16{
	0:         1 << 5, // a
	'c' - 'a': 1<<4 | 1<<8,
	'd' - 'a': 1<<1 | 1<<3 | 1<<5 | 1<<6,
	'e' - 'a': 1<<1 | 1<<3 | 1<<5 | 1<<9,
	'f' - 'a': 1<<1 | 1<<3 | 1<<4 | 1<<5 | 1<<6,
	'i' - 'a': 1<<1 | 1<<3 | 1<<4 | 1<<11 | 1<<13,
	'n' - 'a': 1 << 6,
	'p' - 'a': 1 << 5,
	's' - 'a': 1 << 6,
	't' - 'a': 1<<4 | 1<<5,
	'v' - 'a': 1<<3 | 1<<7,
	'w' - 'a': 1<<1 | 1<<3 | 1<<4 | 1<<7,
}

func couldBeLevel(word string) bool {
	return len(word) <= record.MaxSeverityBytes && levelLengths[word[0]|0x20-'a']&(1<<len(word)) != 0
}

// levelOfWord returns the number of the word at line[from:end], or 0 if it is not
// a level there. certain means that the word is surely meant as one.
func levelOfWord(line string, from, end int) (number uint8, certain bool) {
	word := line[from:end]
	number = record.SeverityNumber(word)
	if number == 0 || isPartOfWord(line, from, end) {
		return 0, false
	}
	capitals := isCapitals(word)
	bracketed := inBrackets(line, from, end)
	switch {
	case len(word) == 1 && !(bracketed && capitals):
		return 0, false
	case bracketed || capitals:
		return number, true
	case isPartOfName(line, from, end) || isProse(word):
		return 0, false
	}
	return number, false
}

func isCapitals(word string) bool {
	for i := range len(word) {
		if word[i] > 'Z' {
			return false
		}
	}
	return true
}

// isPartOfWord reports whether line[from:end] is only a part of a word.
func isPartOfWord(line string, from, end int) bool {
	before, after := around(line, from, end)
	return isWordByte(after) || isWordByte(before) && !endsEscape(line[:from])
}

func isWordByte(c byte) bool { return isLetter(c) || isDigit(c) || c == '_' || c >= 0x80 }

// endsEscape reports whether text ends in an ANSI sequence. The sequence's last
// letter is not part of the word after it.
func endsEscape(text string) bool {
	at := strings.LastIndexByte(text, 0x1b)
	return at >= 0 && escapeSequence(text[at:]) == len(text)-at
}

// isPartOfName reports whether the word is part of a path, a name or a pair.
func isPartOfName(line string, from, end int) bool {
	const marks = `./\-=@`
	before, after := around(line, from, end)
	if after == '.' && (end+1 == len(line) || line[end+1] == ' ') {
		after = ' ' // the end of a sentence
	}
	return strings.IndexByte(marks, before) >= 0 || strings.IndexByte(marks, after) >= 0
}

// around returns the bytes beside the word, or spaces at the line's ends.
func around(line string, from, end int) (before, after byte) {
	before, after = ' ', ' '
	if from > 0 {
		before = line[from-1]
	}
	if end < len(line) {
		after = line[end]
	}
	return before, after
}

// inBrackets reports whether the word stands alone between brackets.
func inBrackets(line string, from, end int) bool {
	for from > 0 && line[from-1] == ' ' {
		from--
	}
	for end < len(line) && line[end] == ' ' {
		end++
	}
	if from == 0 || end == len(line) {
		return false
	}
	switch line[from-1] {
	case '[':
		return line[end] == ']'
	case '(':
		return line[end] == ')'
	case '<':
		return line[end] == '>'
	}
	return false
}

// isProse reports whether a level word usually has another meaning.
func isProse(word string) bool {
	return isOneOf(word, "fine", "finest", "severe", "verbose", "information", "informational")
}
