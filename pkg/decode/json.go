package decode

import (
	"bytes"
	"fmt"

	"github.com/logboom/logboom/pkg/record"
)

// protocol says which fields an entry has and what becomes of them.
type protocol struct {
	field  func(key string) int              // which of a Decoder's fields a key means, fieldNone for metadata
	member func(d *Decoder, key string) bool // reads the value of one of an entry's keys
	finish func(d *Decoder) problem          // makes the record of an entry's fields and emits it
	glued  bool                              // entries usually have nothing between them, not even a line's end
}

// Places in Decoder.fields: first a log's, then an event's, then those that
// both have. Those of container logs are in hec.go.
const (
	fieldNone = -1

	fieldData        = 0
	fieldApplication = 1
	fieldSeverity    = 2
	fieldHost        = 3
	fieldSource      = 4

	fieldChannel     = 0
	fieldTitle       = 1
	fieldEvent       = 2
	fieldDescription = 3
	fieldIcon        = 4
	fieldNotify      = 5

	fieldTimestamp = 6
	fieldPairs     = 7
	fieldCount     = 11
)

// problem is why an entry becomes no record; without a code there is none.
type problem struct {
	code   string
	at     int
	detail string
}

// Logs reads the logs of a body and hands each to emit: one object, an array
// of objects, or objects one after another, usually a line each. The body must
// stay as it is until Logs returns.
//
// A log has these fields; null is the same as leaving one out, save in data.
//
//   - data, required: a string, which may be empty. Any other value, null
//     included, is kept as its JSON text.
//   - application, host, source: text; a number or a truth value is its JSON
//     text. Without an application it is that of the defaults.
//   - severity: a word, trimmed of brackets, colons and white space and kept as
//     it is; its number is 0 when it is not known. Without one it is INFO. Of a
//     bare number, metadata.severity_scheme may name the scheme: syslog, otel
//     or pino.
//   - timestamp: RFC 3339 or an epoch in s, ms, us or ns, as a number or a
//     string. Outside of what the defaults allow it is moved to the nearest
//     time; one that cannot be read is the time of receipt. Either way what
//     was sent is kept as metadata timestamp_original.
//   - metadata: an object. Objects in it are flattened with dots, arrays are
//     kept as JSON text, all other values become strings: 1.50, true, null.
//   - Every other field is metadata too, and so are a host and a source that
//     are objects or arrays.
//
// Where a field is given twice the last one counts; where metadata is, its
// keys are joined, and of a key given twice the last value counts.
func (d *Decoder) Logs(body []byte, def Defaults, emit func(*record.Log)) Result {
	d.begin(body, def, protocol{logField, (*Decoder).member, finishLog, false})
	d.emitLog = emit
	d.entries()
	return d.end()
}

// Events reads the events of a body as Logs does logs. An event has these
// fields:
//
//   - channel and title, required: text that is not blank. event is another
//     name of title; where both are given, event is a tag.
//   - description: text; any other value is kept as its JSON text.
//   - icon: text.
//   - notify: true, false or one of these words in a string; otherwise false.
//   - tags: as a log's metadata, and so is every other field.
//   - timestamp: as a log's.
func (d *Decoder) Events(body []byte, def Defaults, emit func(*record.Event)) Result {
	d.begin(body, def, protocol{eventField, (*Decoder).member, finishEvent, false})
	d.emitEvent = emit
	d.entries()
	return d.end()
}

// byteOrderMark is what some systems put before UTF-8.
const byteOrderMark = "\xEF\xBB\xBF"

// entries reads a whole body. Its first byte tells how.
func (d *Decoder) entries() {
	s := &d.scan
	if bytes.HasPrefix(s.body, []byte(byteOrderMark)) {
		s.pos = len(byteOrderMark)
	}
	if s.peek() == '[' {
		d.array()
		return
	}
	for s.peek(); s.pos < len(s.body); s.peek() {
		if !d.entry() {
			d.mendLines(d.start)
			d.rejectTo(s.pos)
		}
	}
}

// array reads the entries of an array and whatever wrongly follows it.
func (d *Decoder) array() {
	s := &d.scan
	s.pos++
	if s.peek() == ']' {
		s.pos++
	} else {
		for more := true; more; {
			more = d.element()
		}
	}
	if s.peek(); s.pos < len(s.body) {
		d.start = s.pos
		d.reject(CodeInvalidJSON, s.pos, "text after the end of the array")
		d.rejectTo(len(s.body))
	}
}

// element reads one entry of an array and what parts it from the next. It is
// false after the last.
func (d *Decoder) element() bool {
	s := &d.scan
	s.peek()
	if !d.entry() {
		return d.mendElement()
	}
	switch s.peek() {
	case ',':
		s.pos++
		return true
	case ']':
		s.pos++
		return false
	case '{': // only a comma is missing, so the next entry begins here
		d.start = s.pos
		d.reject(CodeInvalidJSON, s.pos, noComma)
		return true
	}
	d.start = s.pos
	s.fail(s.pos, noComma)
	return d.mendElement()
}

// mendElement goes on behind the broken entry at start.
func (d *Decoder) mendElement() (more bool) {
	more = d.mendArray(d.start)
	d.rejectTo(d.scan.pos)
	return more
}

const noComma = "expected a comma or a closing bracket after an entry"

// entry reads the entry at pos. It is false when that is no JSON object; then
// failAt and failure say why, and it has not been rejected yet.
func (d *Decoder) entry() bool {
	s := &d.scan
	s.resetText()
	d.pairs.reset()
	d.path.reset()
	d.fields = [fieldCount]field{}
	d.start = s.pos
	if s.peek() != '{' {
		return s.fail(s.pos, "an entry must be a JSON object")
	}
	if !d.object() {
		return false
	}
	if p := d.finish(); p.code != "" {
		d.reject(p.code, p.at, p.detail)
	}
	return true
}

// object reads an entry's fields. It is at the opening brace.
func (d *Decoder) object() bool {
	s := &d.scan
	s.pos++
	for first := true; ; first = false {
		key, more := s.key(first)
		if !more {
			return s.ok()
		}
		if !d.protocol.member(d, key) {
			return false
		}
	}
}

// member reads the value of one of an entry's keys.
func (d *Decoder) member(key string) (ok bool) {
	s := &d.scan
	c := s.peek()
	i := d.protocol.field(key)
	switch {
	case i == fieldNone:
		return d.pair(key, 1)
	case i == fieldPairs && c == '{':
		d.fields[i] = field{kind: c, at: s.pos}
		return d.pairsOf(1)
	case (key == "host" || key == "source") && (c == '{' || c == '['):
		return d.pair(key, 1)
	}
	d.fields[i], ok = s.value(1)
	return ok
}

// finish makes the entry's record, unless its text was too much to hold.
func (d *Decoder) finish() problem {
	if p := d.overflow(); p.code != "" {
		return p
	}
	return d.protocol.finish(d)
}

// overflow says whether the text of the entry at hand was too much to hold.
func (d *Decoder) overflow() problem {
	if !d.scan.overflow {
		return problem{}
	}
	return problem{CodeBodyTooLarge, d.start, fmt.Sprintf("the record has more than %d bytes of text", d.limits.Record)}
}
