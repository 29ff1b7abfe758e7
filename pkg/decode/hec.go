package decode

import (
	"strings"

	"github.com/logboom/logboom/pkg/record"
)

// Indexes in Decoder.fields of what only container logs have. Host, source, time
// and fields have the indexes of the other protocols.
const (
	fieldContent = 0 // event
	fieldLine    = 1 // event.line
	fieldTag     = 2 // event.tag
	fieldStream  = 5 // event.source
	fieldType    = 8
	fieldIndex   = 9
	fieldAttrs   = 10 // event.attrs
)

// maxLineDepth is how deeply the JSON that a container printed may be nested.
// Docker cuts lines at 16 KiB, so no line is nested more deeply; Docker would
// send a refused line again and again. The line is kept as text.
const maxLineDepth = 16 << 10

// Keys of metadata for a container log's own fields.
const (
	keySourceType = "sourcetype"
	keyIndex      = "index"
)

// HEC reads the events of a body in the form that Docker's splunk log driver and
// other clients of the HTTP Event Collector protocol use, and calls emit with
// each as a log: objects one after another, with or without space between them,
// or an array of objects. Sources: docs.splunk.com "Format events for HTTP Event
// Collector" and moby's daemon/logger/splunk.
//
//   - event, required and not blank: a string. Any other value is kept as its
//     JSON text. An object with message or msg, and with level or severity,
//     becomes data and severity, and its other keys become metadata.
//   - event.line, if present, takes the place of event, and may be empty. Then
//     event.tag is the application, event.source is the source (and a source
//     beside event is metadata), and the keys of event.attrs and all other keys
//     of event are metadata.
//   - time: a number or a string, an epoch in s, ms, us or ns, or RFC 3339.
//   - host and source: text. sourcetype and index: metadata.
//   - fields: an object; its keys are metadata. Every other field is metadata
//     too.
//   - An event without time, host, source, sourcetype or index inherits it from
//     the events before it.
//
// If an event does not name a severity, it is looked for in the line; see
// levelFinder. A line that names none has none, or that of Defaults.StderrAs.
// The pieces of a long line are joined.
//
// Bad entries are treated as by Logs.
func (d *Decoder) HEC(body []byte, def Defaults, emit func(*record.Log)) Result {
	d.begin(body, def, protocol{hecField, (*Decoder).hecMember, finishHEC})
	d.emitLog = emit
	d.entries()
	d.flush()
	d.result.Timed = d.untimed == 0
	return d.end()
}

// hecField returns the index in Decoder.fields for an event's key.
func hecField(key string) int {
	switch key {
	case "event":
		return fieldContent
	case "time":
		return fieldTimestamp
	case "host":
		return fieldHost
	case "source":
		return fieldSource
	case "sourcetype":
		return fieldType
	case "index":
		return fieldIndex
	case "fields":
		return fieldPairs
	}
	return fieldNone
}

// hecMember reads the value of one of an event's keys.
func (d *Decoder) hecMember(key string) bool {
	if key == "event" && d.scan.peek() == '{' {
		return d.content()
	}
	return d.member(key)
}

// contentField returns the index in Decoder.fields for a key inside event.
func contentField(key string) int {
	switch key {
	case "line":
		return fieldLine
	case "source":
		return fieldStream
	case "tag":
		return fieldTag
	case "attrs":
		return fieldAttrs
	}
	return fieldNone
}

// content reads an event that is an object: the fields of a line, and whether it
// has other keys. finishHEC decides what it becomes.
func (d *Decoder) content() bool {
	s, f := &d.scan, &d.fields
	f[fieldLine], f[fieldTag], f[fieldStream], f[fieldAttrs] = field{}, field{}, field{}, field{}
	d.others = false
	at := s.pos
	ok := s.members(func(key string) (ok bool) {
		i := contentField(key)
		if i == fieldNone {
			d.others = true
			return s.skip(2)
		}
		depth := s.depth
		if i == fieldLine {
			s.depth = maxLineDepth
		}
		f[i], ok = s.value(2)
		s.depth = depth
		return ok
	})
	f[fieldContent] = field{kind: '{', at: at, text: view(s.body[at:s.pos])}
	return ok
}

// finishHEC makes a log of the event's fields and emits it.
func finishHEC(d *Decoder) problem {
	d.inherit()
	f, l := &d.fields, &d.log
	content := &f[fieldContent]
	switch {
	case content.absent():
		return problem{CodeMissingField, d.start, "event is required"}
	case content.kind == '"' && strings.TrimSpace(content.text) == "":
		return problem{CodeInvalidField, content.at, "event must not be blank"}
	}
	*l = record.Log{Application: d.app}
	whole := true // the data is a line as it was printed
	switch {
	case content.kind != '{':
		l.Data = content.text
	case f[fieldLine].kind != 0:
		whole = d.lineToLog(l)
	default:
		whole = false
		d.objectToLog(l, content, 2)
	}
	return d.finishContainer(l, whole)
}

// lineToLog fills the log with a line that a container printed. It returns false
// if the line was an object that became data, severity and metadata.
func (d *Decoder) lineToLog(l *record.Log) (whole bool) {
	f := &d.fields
	if tag := d.name(fieldTag); tag != "" {
		l.Application = tag
	}
	if attrs := &f[fieldAttrs]; attrs.kind == '{' {
		d.reread(attrs.at, func() bool { return d.pairsOf(2) })
	} else if !attrs.absent() {
		d.setPair("attrs", attrs.text)
	}
	if d.others {
		d.othersToPairs(f[fieldContent].at, 2, func(key string) bool { return contentField(key) != fieldNone })
	}
	line := &f[fieldLine]
	if line.kind == '{' {
		return !d.objectToLog(l, line, 3)
	}
	l.Data = line.text
	return true
}

// finishContainer fills the rest of a log whose data and application are set,
// for an event or a raw line, and emits it or holds it.
func (d *Decoder) finishContainer(l *record.Log, whole bool) problem {
	f := &d.fields
	l.Host = d.name(fieldHost)
	l.Source = d.name(fieldSource)
	if stream := d.name(fieldStream); stream != "" {
		if l.Source != "" {
			d.setPair("source", l.Source)
		}
		l.Source = stream
	}
	if pairs := &f[fieldPairs]; pairs.kind != '{' && !pairs.absent() {
		d.setPair("fields", pairs.text)
	}
	if text := d.name(fieldType); text != "" {
		d.setPair(keySourceType, text)
	}
	if text := d.name(fieldIndex); text != "" {
		d.setPair(keyIndex, text)
	}
	l.Timestamp = d.timestamp(&f[fieldTimestamp])
	if !d.timed {
		d.untimed++
	}
	d.severityFromPairs(l)
	d.addMarks()
	l.Metadata = d.pairs.list
	if size := l.Size(); size > d.limits.Record {
		return d.tooLarge(size)
	}
	d.emitOrHold(l, whole)
	return problem{}
}

// setPair adds a pair if there is room for one.
func (d *Decoder) setPair(key, value string) {
	if i, _ := d.pairs.slot(key); i >= 0 {
		d.pairs.list[i].Value = d.scan.cut(value, d.limits.Value)
	}
}

// severityFromPairs sets the severity that the event has among its fields.
func (d *Decoder) severityFromPairs(l *record.Log) {
	if l.Severity != "" || len(d.pairs.list) == 0 {
		return
	}
	for _, key := range [...]string{"severity", "level"} {
		word := severityWord(d.pairs.value(key))
		if number := record.SeverityNumber(word); number != 0 {
			l.SeverityNumber, l.Severity = number, word
			return
		}
	}
}

// emitContainer emits a log that no further piece can follow.
func (d *Decoder) emitContainer(l *record.Log) {
	if l.Severity == "" {
		l.SeverityNumber, l.Severity = d.line.severity(l.Data)
	}
	if l.Severity == "" && l.Source == "stderr" {
		l.SeverityNumber, l.Severity = record.SeverityNumber(d.stderrAs), d.stderrAs
	}
	d.emitLog(l)
	d.result.Accepted++
}

// messageAndLevel are the keys by which an object becomes data and severity.
type messageAndLevel struct{ message, level field }

// place returns where the value of the key goes, or nil. Of two messages or
// levels the first counts.
func (m *messageAndLevel) place(key string) *field {
	switch {
	case (key == "message" || key == "msg") && m.message.kind == 0:
		return &m.message
	case (key == "level" || key == "severity") && m.level.kind == 0:
		return &m.level
	}
	return nil
}

func (m *messageAndLevel) complete() bool {
	return m.message.kind == '"' && strings.TrimSpace(m.message.text) != "" &&
		!m.level.absent() && !m.level.nested() && severityWord(m.level.text) != ""
}

// objectToLog fills the log with an object. If the object has both a message and
// a level, they become data and severity, and its other keys become metadata.
// Otherwise, or if the object is nested too deeply, its JSON text becomes data;
// then objectToLog returns false. depth is the number of objects open inside it.
func (d *Decoder) objectToLog(l *record.Log, object *field, depth int) bool {
	s := &d.scan
	var found messageAndLevel
	ok := d.reread(object.at, func() bool {
		return s.members(func(key string) (ok bool) {
			place := found.place(key)
			if place == nil {
				return s.skip(depth)
			}
			*place, ok = s.value(depth)
			return ok
		})
	})
	if !ok || !found.complete() {
		l.Data = s.valid(s.body[object.at : object.at+len(object.text)])
		return false
	}
	l.Data = found.message.text
	var used messageAndLevel
	d.othersToPairs(object.at, depth, func(key string) bool {
		place := used.place(key)
		if place != nil {
			place.kind = 'n'
		}
		return place != nil
	})
	l.SeverityNumber, l.Severity = d.severity(&found.level)
	return true
}

// othersToPairs adds an object's keys to the metadata, except those for which
// known returns true. The object has been read before, and only the values of
// known keys may be nested deeply.
func (d *Decoder) othersToPairs(at, depth int, known func(key string) bool) {
	s := &d.scan
	limit := s.depth
	s.depth = maxLineDepth
	defer func() { s.depth = limit }()
	d.reread(at, func() bool {
		return s.members(func(key string) bool {
			if known(key) {
				return s.skip(depth)
			}
			return d.pair(key, depth)
		})
	})
}

// reread reads a value that was read before, and returns the scanner to its
// place.
func (d *Decoder) reread(at int, read func() bool) bool {
	s := &d.scan
	pos := s.pos
	s.pos = at
	ok := read()
	s.pos, s.failure = pos, ""
	return ok
}

// inheritedFields are the fields that an event inherits from the events before
// it.
var inheritedFields = [...]int{fieldTimestamp, fieldHost, fieldSource, fieldType, fieldIndex}

// inherited is one of these fields, as it was last given.
type inherited struct {
	field  field
	buffer []byte // holds the field's text, because that of the event is reused
}

// inherit fills the fields that the current event lacks from the events before
// it, and keeps those that it has for the events after it.
func (d *Decoder) inherit() {
	for i, at := range inheritedFields {
		f, kept := &d.fields[at], &d.inherited[i]
		if f.absent() {
			*f = kept.field
			continue
		}
		f.text = d.scan.cut(f.text, d.limits.Value)
		kept.field.kind = f.kind
		if kept.field.text != f.text {
			kept.buffer = append(kept.buffer[:0], f.text...)
			kept.field.text = view(kept.buffer)
		}
	}
}

// clearInherited ends the inheritance at the end of a body.
func (d *Decoder) clearInherited() {
	for i := range d.inherited {
		d.inherited[i].field = field{}
	}
}
