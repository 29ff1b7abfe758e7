package decode

import (
	"strings"
	"unsafe"

	"github.com/logboom/logboom/pkg/record"
)

const (
	// levelWithin is how many bytes of a line may hold a level by itself.
	levelWithin = 64
	// logfmtWithin is how many are searched for level=, jsonWithin how many of a
	// JSON object: a level comes early, and a long line must not cost more.
	logfmtWithin = 1 << 10
	jsonWithin   = 64 << 10
)

// levelFinder finds the severity that a line names itself. What it finds is
// valid until the line is gone or it is asked again.
type levelFinder struct {
	scan scanner
}

// severity is the number and the word of the line's severity, 0 and empty where
// it names none. In this order: a JSON line's key such as level; <N> as syslog
// has it; klog's I0102 15:04:05; level=word as logfmt has it; a level word that
// stands in brackets or in capitals, else any that stands alone.
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

// trimLeft drops white space and the escape sequences of colours.
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

// escapeSequence is the length of the ANSI sequence that text begins with.
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

// json looks through the keys of an object. ok is false where it is none.
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

// isLevelKey knows what writers of JSON and logfmt call the severity.
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

// syslogWords are RFC 5424's severities, by number.
var syslogWords = [...]string{"emerg", "alert", "crit", "err", "warning", "notice", "info", "debug"}

// maxPriority is syslog's largest: 23 facilities times 8, and 7.
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

// klogPrefix reads the head of a line of klog or glog: I0102 15:04:05.
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

// logfmtLevel looks for level=word, with quotes or without.
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

// wordAt is the run of letters that text begins with.
func wordAt(text string) string {
	n := 0
	for n < len(text) && isLetter(text[n]) {
		n++
	}
	return text[:n]
}
