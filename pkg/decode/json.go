package decode

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/logboom/logboom/pkg/record"
)

// protocol says which fields an entry has and how it becomes a record.
type protocol struct {
	field  func(key string) int              // the index in Decoder.fields for a key, or fieldNone for metadata
	member func(d *Decoder, key string) bool // reads the value of one key of an entry
	finish func(d *Decoder) problem          // makes a record of the entry's fields and emits it
}

// Indexes in Decoder.fields: first those of a log, then those of an event, then
// those of both. Those of container logs are in hec.go.
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

// problem is why an entry becomes no record. Without a code there is no problem.
type problem struct {
	code   string
	at     int
	detail string
}

// Logs reads the logs of a body and calls emit for each: one object, an array of
// objects, or objects one after another, usually one a line. The body must not
// change until Logs returns.
//
// A bad entry is rejected alone, with one exception: a syntax error in an array
// refuses the whole body. Then Result.Err says why, and the caller discards what
// was emitted before.
//
// A log has these fields. A field that is null counts as missing, except data.
//
//   - data, required: a string, which may be empty. Any other value, including
//     null, is kept as its JSON text.
//   - application, host, source: text. A number, true or false is kept as its JSON
//     text. A missing application is that of the defaults.
//   - severity: a word, kept without the brackets, colons and white space around
//     it. Its number is 0 if the word is not known. A missing severity is INFO.
//     For a bare number, metadata.severity_scheme may name the scheme: syslog,
//     otel or pino.
//   - timestamp: RFC 3339 or an epoch in s, ms, us or ns, as a number or a string.
//     A time outside the allowed range is moved to the nearest allowed time, and a
//     text that is not a time becomes the time of receipt. In both cases the
//     original is kept as metadata timestamp_original.
//   - metadata: an object. Objects in it are flattened with dots, arrays are kept
//     as JSON text, and all other values become strings: 1.50, true, null.
//   - Every other field is metadata too, and so are host and source if they are
//     objects or arrays.
//
// If a field is given twice, the last one counts. If metadata is given twice, its
// keys are joined; if a key is given twice, its last value counts.
func (d *Decoder) Logs(body []byte, def Defaults, emit func(*record.Log)) Result {
	d.begin(body, def, protocol{logField, (*Decoder).member, finishLog})
	d.emitLog = emit
	d.entries()
	return d.end()
}

// Events reads the events of a body as Logs reads logs. An event has these fields:
//
//   - channel and title, required: text that is not blank. event is another name
//     of title; if both are given, event is a tag.
//   - description: text. Any other value is kept as its JSON text.
//   - icon: text.
//   - notify: true or false, or one of these words in a string. Missing means
//     false.
//   - tags: like a log's metadata, and so is every other field.
//   - timestamp: like a log's.
func (d *Decoder) Events(body []byte, def Defaults, emit func(*record.Event)) Result {
	d.begin(body, def, protocol{eventField, (*Decoder).member, finishEvent})
	d.emitEvent = emit
	d.entries()
	return d.end()
}

// byteOrderMark is what some systems write before UTF-8.
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

// array reads the entries of an array. A syntax error refuses the whole body,
// because nothing says where the next entry begins.
func (d *Decoder) array() {
	s := &d.scan
	ok := d.scan.elements(d.element)
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

// resumeAt returns where to go on after the broken entry at start: at the end of
// its line, or before that where an object begins right behind another.
func (d *Decoder) resumeAt() int {
	s := &d.scan
	if d.lineEnd < d.start {
		d.lineEnd = lineEnd(s.body, d.start)
	}
	if d.adjacent <= d.start {
		d.adjacent = nextAdjacent(s.body, d.start)
	}
	end := min(d.lineEnd, d.adjacent)
	d.rescans += max(s.failAt-end, 0)
	if d.rescans > rescanFree+rescanFactor*len(s.body) && s.failAt > end {
		d.lineEnd = lineEnd(s.body, s.failAt)
		end = d.lineEnd
	}
	return end
}

// lineEnd returns the end of the line that contains from.
func lineEnd(body []byte, from int) int {
	if n := bytes.IndexByte(body[from:], '\n'); n >= 0 {
		return from + n
	}
	return len(body)
}

// nextAdjacent returns where, after start, an object begins right behind another
// object, with nothing but white space between them, or the length of the body.
func nextAdjacent(body []byte, start int) int {
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

// entry reads the entry at pos. It returns false if that is not a JSON object;
// then failAt and failure say why, and the entry has not been rejected yet.
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
	if !d.scan.members(func(key string) bool { return d.protocol.member(d, key) }) {
		return false
	}
	p := d.overflow()
	if p.code == "" {
		p = d.protocol.finish(d)
	}
	if p.code != "" {
		d.reject(p.code, p.at, p.detail)
	}
	return true
}

// member reads the value of one key of an entry.
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

// overflow returns a problem if the text of the current entry was too large to
// hold.
func (d *Decoder) overflow() problem {
	if !d.scan.overflow {
		return problem{}
	}
	return problem{CodeBodyTooLarge, d.start, fmt.Sprintf("the record has more than %d bytes of text", d.limits.Record)}
}

// logField returns the index in Decoder.fields for a log's key. Keys are
// case-sensitive, as JSON's are.
func logField(key string) int {
	switch key {
	case "data":
		return fieldData
	case "application":
		return fieldApplication
	case "severity":
		return fieldSeverity
	case "host":
		return fieldHost
	case "source":
		return fieldSource
	case "timestamp":
		return fieldTimestamp
	case "metadata":
		return fieldPairs
	}
	return fieldNone
}

// eventField returns the index in Decoder.fields for an event's key.
func eventField(key string) int {
	switch key {
	case "channel":
		return fieldChannel
	case "title":
		return fieldTitle
	case "event":
		return fieldEvent
	case "description":
		return fieldDescription
	case "icon":
		return fieldIcon
	case "notify":
		return fieldNotify
	case "timestamp":
		return fieldTimestamp
	case "tags":
		return fieldPairs
	}
	return fieldNone
}

// finishLog makes a log of the entry's fields and emits it.
func finishLog(d *Decoder) problem {
	f := &d.fields
	switch {
	case f[fieldData].kind == 0:
		return problem{CodeMissingField, d.start, "data is required"}
	case f[fieldApplication].nested():
		return problem{CodeInvalidField, f[fieldApplication].at, "application must be text"}
	case !f[fieldPairs].absent() && f[fieldPairs].kind != '{':
		return problem{CodeInvalidField, f[fieldPairs].at, "metadata must be an object"}
	}
	l := &d.log
	l.Data = f[fieldData].text
	l.Application = d.name(fieldApplication)
	if l.Application == "" {
		l.Application = d.app
	}
	l.Host = d.name(fieldHost)
	l.Source = d.name(fieldSource)
	l.SeverityNumber, l.Severity = d.severity(&f[fieldSeverity])
	l.Timestamp = d.timestamp(&f[fieldTimestamp])
	d.addMarks()
	l.Metadata = d.pairs.list
	if size := l.Size(); size > d.limits.Record {
		return d.tooLarge(size)
	}
	d.emitLog(l)
	d.result.Accepted++
	return problem{}
}

// finishEvent makes an event of the entry's fields and emits it.
func finishEvent(d *Decoder) problem {
	if p := d.checkEvent(); p.code != "" {
		return p
	}
	f := &d.fields
	e := &d.event
	e.Channel = d.name(fieldChannel)
	e.Title = f[fieldTitle].text
	e.Description = ""
	if !f[fieldDescription].absent() {
		e.Description = f[fieldDescription].text
	}
	e.Icon = d.name(fieldIcon)
	e.Notify = strings.EqualFold(f[fieldNotify].text, "true")
	e.Timestamp = d.timestamp(&f[fieldTimestamp])
	d.addMarks()
	e.Tags = d.pairs.list
	if size := e.Size(); size > d.limits.Record {
		return d.tooLarge(size)
	}
	d.emitEvent(e)
	d.result.Accepted++
	return problem{}
}

// checkEvent checks the fields of an event and chooses its title from title and
// event.
func (d *Decoder) checkEvent() problem {
	f := &d.fields
	switch {
	case f[fieldTitle].absent():
		f[fieldTitle] = f[fieldEvent]
	case !f[fieldEvent].absent():
		d.pairs.set("event", d.scan.cut(f[fieldEvent].text, d.limits.Value))
	}
	if p := d.required(fieldChannel, "channel"); p.code != "" {
		return p
	}
	if p := d.required(fieldTitle, "title"); p.code != "" {
		return p
	}
	notify := &f[fieldNotify]
	switch {
	case f[fieldIcon].nested():
		return problem{CodeInvalidField, f[fieldIcon].at, "icon must be text"}
	case !notify.absent() && !strings.EqualFold(notify.text, "true") && !strings.EqualFold(notify.text, "false"):
		return problem{CodeInvalidField, notify.at, "notify must be true or false"}
	case !f[fieldPairs].absent() && f[fieldPairs].kind != '{':
		return problem{CodeInvalidField, f[fieldPairs].at, "tags must be an object"}
	}
	return problem{}
}

// required checks that a field is present and not blank.
func (d *Decoder) required(i int, name string) problem {
	f := &d.fields[i]
	switch {
	case f.absent():
		return problem{CodeMissingField, d.start, name + " is required"}
	case f.nested():
		return problem{CodeInvalidField, f.at, name + " must be text"}
	case strings.TrimSpace(f.text) == "":
		return problem{CodeInvalidField, f.at, name + " must not be blank"}
	}
	return problem{}
}
