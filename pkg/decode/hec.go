package decode

import (
	"strings"

	"github.com/logboom/logboom/pkg/record"
)

// Places in Decoder.fields of what only container logs have. Host, source,
// time and fields are where other protocols have them.
const (
	fieldContent = 0 // event
	fieldLine    = 1 // event.line, and so on
	fieldTag     = 2
	fieldStream  = 5 // event.source
	fieldType    = 8
	fieldIndex   = 9
	fieldAttrs   = 10
)

// maxLineDepth is how deeply the JSON that a container printed may be nested:
// Docker cuts lines at 16 KiB, so none of them is deeper, and one that was
// refused would come again and again. It is kept as text and never taken apart.
const maxLineDepth = 16 << 10

// Keys of metadata that a container log's own fields become.
const (
	keySourceType = "sourcetype"
	keyIndex      = "index"
)

// HEC reads the events of a body in the form that Docker's splunk log driver
// and other senders of the HTTP Event Collector protocol use, and hands each to
// emit as a log: objects one after another with or without space between them,
// or an array of them. Source: docs.splunk.com "Format events for HTTP Event
// Collector" and moby's daemon/logger/splunk.
//
//   - event, required and not blank: a string; any other value is its JSON text.
//     An object with message or msg and with level or severity is taken apart:
//     these become data and severity, all else metadata.
//   - event.line, where there is one, is what event is otherwise, and may be
//     empty. Then event.tag is the application, event.source the source (and a
//     source beside event is metadata), what event.attrs holds and every other
//     key of event is metadata.
//   - time: a number or a string, an epoch in s, ms, us or ns, or RFC 3339.
//   - host and source: text. sourcetype and index: metadata.
//   - fields: an object; its keys are metadata, and so is every other field.
//   - time, host, source, sourcetype and index of one event are those of the
//     events after it that have none.
//
// A severity that the event does not name is looked for in the line; see
// levelFinder. A line that names none has none, or that of Defaults.StderrAs.
// Pieces of one long line are joined.
func (d *Decoder) HEC(body []byte, def Defaults, emit func(*record.Log)) Result {
	d.begin(body, def, protocol{hecField, (*Decoder).hecMember, finishHEC})
	d.emitLog = emit
	d.entries()
	d.flush()
	d.result.Timed = d.untimed == 0
	return d.end()
}

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

// content reads an event that is an object: what a line would have, and whether
// there is anything else. What it becomes is settled when all of it is known.
func (d *Decoder) content() bool {
	s, f := &d.scan, &d.fields
	f[fieldLine], f[fieldTag], f[fieldStream], f[fieldAttrs] = field{}, field{}, field{}, field{}
	d.others = false
	at := s.pos
	s.pos++
	for first := true; ; first = false {
		key, more := s.key(first)
		if !more {
			f[fieldContent] = field{kind: '{', at: at, text: view(s.body[at:s.pos])}
			return s.ok()
		}
		if !d.contentMember(key) {
			return false
		}
	}
}

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

func (d *Decoder) contentMember(key string) (ok bool) {
	s := &d.scan
	i := contentField(key)
	if i == fieldNone {
		d.others = true
		return s.skip(2)
	}
	depth := s.depth
	if i == fieldLine {
		s.depth = maxLineDepth
	}
	d.fields[i], ok = s.value(2)
	s.depth = depth
	return ok
}

func finishHEC(d *Decoder) problem {
	d.inherit()
	if p := d.checkContent(); p.code != "" {
		return p
	}
	f, l := &d.fields, &d.log
	*l = record.Log{Application: d.app}
	whole := true // data is a line as it was printed
	switch content := &f[fieldContent]; {
	case content.kind != '{':
		l.Data = content.text
	case f[fieldLine].kind != 0:
		whole = d.printed(l)
	default:
		whole = false
		d.take(l, content, 2)
	}
	return d.container(l, whole)
}

func (d *Decoder) checkContent() problem {
	content := &d.fields[fieldContent]
	switch {
	case content.absent():
		return problem{CodeMissingField, d.start, "event is required"}
	case content.kind == '"' && strings.TrimSpace(content.text) == "":
		return problem{CodeInvalidField, content.at, "event must not be blank"}
	}
	return problem{}
}

// printed makes a log of a line that a container printed. It is false where the
// line was taken apart.
func (d *Decoder) printed(l *record.Log) (whole bool) {
	f := &d.fields
	if tag := d.name(fieldTag); tag != "" {
		l.Application = tag
	}
	if attrs := &f[fieldAttrs]; attrs.kind == '{' {
		d.again(attrs.at, func() bool { return d.pairsOf(2) })
	} else if !attrs.absent() {
		d.setPair("attrs", attrs.text)
	}
	if d.others {
		d.rest(f[fieldContent].at, 2, func(key string) bool { return contentField(key) != fieldNone })
	}
	line := &f[fieldLine]
	if line.kind == '{' {
		return !d.take(l, line, 3)
	}
	l.Data = line.text
	return true
}

// container makes the rest of a log whose data and application are known, be it
// of an event or of a raw line.
func (d *Decoder) container(l *record.Log, whole bool) problem {
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
	d.namedSeverity(l)
	d.addMarks()
	l.Metadata = d.pairs.list
	if size := l.Size(); size > d.limits.Record {
		return d.tooLarge(size)
	}
	d.passOn(l, whole)
	return problem{}
}

// setPair adds a pair where there is room for one.
func (d *Decoder) setPair(key, value string) {
	if i, _ := d.pairs.slot(key); i >= 0 {
		d.pairs.list[i].Value = d.scan.cut(value, d.limits.Value)
	}
}

// namedSeverity takes the severity that the event has among its fields.
func (d *Decoder) namedSeverity(l *record.Log) {
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

// send emits a log once nothing more comes to it.
func (d *Decoder) send(l *record.Log) {
	if l.Severity == "" {
		l.SeverityNumber, l.Severity = d.line.severity(l.Data)
	}
	if l.Severity == "" && l.Source == "stderr" {
		l.SeverityNumber, l.Severity = record.SeverityNumber(d.stderrAs), d.stderrAs
	}
	d.emitLog(l)
	d.result.Accepted++
}
