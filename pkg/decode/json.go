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
// A bad entry is rejected alone, with one exception: a syntax error in an array
// refuses the whole body. Then Result.Err says why, and the caller discards what
// was emitted before.
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
	d.begin(body, def, protocol{logField, (*Decoder).member, finishLog})
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
	d.begin(body, def, protocol{eventField, (*Decoder).member, finishEvent})
	d.emitEvent = emit
	d.entries()
	return d.end()
}

// byteOrderMark is what some systems put before UTF-8.
const byteOrderMark = "\xEF\xBB\xBF"

// entries reads a whole body. Its first byte says whether it is an array.
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
			d.reject(CodeInvalidJSON, s.failAt, s.failure)
			s.pos = d.resumeAt()
			d.rejectTo(s.pos)
		}
	}
}

// array reads the entries of an array. A syntax error anywhere refuses the
// whole body, because nothing tells where the next entry begins.
func (d *Decoder) array() {
	s := &d.scan
	ok := d.elements(d.element)
	if ok && s.peek() != 0 {
		d.start = s.pos
		ok = s.fail(s.pos, "text after the end of the array")
	}
	if !ok {
		d.flush() // so that the index counts the pieces that are held
		d.refused = &Error{Code: CodeInvalidJSON, Index: d.index(), Offset: int64(s.failAt), Detail: s.failure + "; no entry of the array was accepted"}
	}
}

// element reads one entry of an array. An entry that is JSON, but not an object
// or nested too deeply, is rejected alone. JSON that is nested more than
// maxLineDepth deep cannot be told from a syntax error.
func (d *Decoder) element() bool {
	s := &d.scan
	s.peek()
	if d.entry() {
		return true
	}
	at, failure, depth := s.failAt, s.failure, s.depth
	s.pos, s.failure, s.depth = d.start, "", maxLineDepth
	ok := s.skip(0)
	s.depth = depth
	if ok {
		d.reject(CodeInvalidJSON, at, failure)
	}
	return ok
}

const noComma = "expected a comma or a closing bracket after an entry"

const (
	// After a broken entry the decoder reads some bytes again, because an entry
	// that was cut may have swallowed the entries after it. It reads at most
	// rescanFree plus rescanFactor times the body again, so that no body can
	// cost the square of its length.
	rescanFree   = 1 << 20
	rescanFactor = 2
)

// resumeAt returns where to go on after the broken entry at start: at the end
// of its line, or before that where an object begins right behind another.
func (d *Decoder) resumeAt() int {
	s := &d.scan
	if d.lineEnd < d.start {
		d.lineEnd = lineEnd(s.body, d.start)
	}
	if d.seam <= d.start {
		d.seam = gluedAt(s.body, d.start)
	}
	end := min(d.lineEnd, d.seam)
	d.rescans += max(s.failAt-end, 0)
	if d.rescans > rescanFree+rescanFactor*len(s.body) && s.failAt > end {
		d.lineEnd = lineEnd(s.body, s.failAt)
		end = d.lineEnd
	}
	return end
}

// lineEnd returns where the line ends that from is in.
func lineEnd(body []byte, from int) int {
	if n := bytes.IndexByte(body[from:], '\n'); n >= 0 {
		return from + n
	}
	return len(body)
}

// gluedAt returns where, after start, an object begins right behind another,
// with nothing but white space between them, or the body's length.
func gluedAt(body []byte, start int) int {
	s := scanner{body: body, pos: start}
	for {
		n := bytes.IndexByte(body[s.pos:], '}')
		if n < 0 {
			return len(body)
		}
		s.pos += n + 1
		if s.peek() != '{' {
			continue
		}
		brace := s.pos
		s.pos++
		if s.peek() == '"' {
			return brace
		}
	}
}

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
