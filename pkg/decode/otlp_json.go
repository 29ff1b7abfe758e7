package decode

import (
	"bytes"
	"math"
)

const (
	// jsonPerLevel is how many JSON objects and arrays one level of AnyValue
	// takes: {"kvlistValue":{"values":[{"value":…
	jsonPerLevel = 4
	// jsonAround is how many are around and inside a value, with some to spare.
	jsonAround = 16
)

// jsonRequest reads a whole body. Like all below it is false when the body
// gives nothing; then the scanner's failure or Decoder.refused says why.
func (d *Decoder) jsonRequest() bool {
	s := &d.scan
	if bytes.HasPrefix(s.body, []byte("\xEF\xBB\xBF")) {
		s.pos = 3
	}
	if s.peek() != '{' {
		return s.fail(s.pos, "the body must be a JSON object")
	}
	ok := d.members(func(key string) bool {
		if key == "resourceLogs" || key == "resource_logs" {
			return d.eachShared(key, (*Decoder).jsonResourceLogs)
		}
		return s.skip(0)
	})
	if s.peek(); ok && s.pos < len(s.body) {
		return s.fail(s.pos, "text after the end of the request")
	}
	return ok
}

// members calls visit at the value of each of an object's keys.
func (d *Decoder) members(visit func(key string) bool) bool {
	s := &d.scan
	s.pos++
	for first := true; ; first = false {
		key, more := s.key(first)
		if !more {
			return s.ok()
		}
		if !visit(key) {
			return false
		}
	}
}

// elements calls visit at each value of an array.
func (d *Decoder) elements(visit func() bool) bool {
	s := &d.scan
	s.pos++
	if s.peek() == ']' {
		s.pos++
		return true
	}
	for visit() {
		switch s.peek() {
		case ']':
			s.pos++
			return true
		case ',':
			s.pos++
		default:
			return s.fail(s.pos, noComma)
		}
	}
	return false
}

// eachShared reads an array of objects that have something to share. Where it
// is anything else, there is nothing that could be read at all.
func (d *Decoder) eachShared(what string, read func(d *Decoder) bool) bool {
	s := &d.scan
	switch s.peek() {
	case 'n':
		return s.literal("null")
	case '[':
		return d.elements(func() bool {
			if s.peek() != '{' {
				return s.fail(s.pos, what+" must hold objects")
			}
			d.start = s.pos
			return read(d)
		})
	}
	return s.fail(s.pos, what+" must be an array")
}

// group is an object with a part that all entries of its list share.
type group struct {
	part, list, snake string                // keys; the list has two
	begin             func(d *Decoder)      // before the part, or a list without one
	readPart          func(d *Decoder) bool // reads the part's value
	readList          func(d *Decoder) bool // reads the list's value
}

func (d *Decoder) jsonResourceLogs() bool {
	return d.group(&group{"resource", "scopeLogs", "scope_logs", (*Decoder).forget, (*Decoder).jsonResource, (*Decoder).jsonScopes})
}

func (d *Decoder) jsonScopeLogs() bool {
	begin := func(d *Decoder) { d.restore(&d.otlp.resource) }
	return d.group(&group{"scope", "logRecords", "log_records", begin, (*Decoder).jsonScope, (*Decoder).jsonRecords})
}

// group reads the group's object. Where the list comes first, it is passed over
// and read at the end, for a JSON object has no order.
func (d *Decoder) group(g *group) bool {
	s := &d.scan
	begun, listed, later := false, false, -1
	ok := d.members(func(key string) bool {
		isList := key == g.list || key == g.snake
		switch {
		case key == g.part && !begun:
			begun = true
			g.begin(d)
			return g.readPart(d)
		case isList && !listed && begun:
			listed = true
			return g.readList(d)
		case isList && !listed:
			listed, later = true, s.pos
			return s.skip(0)
		case isList || key == g.part:
			return s.fail(s.pos, key+" is given twice")
		}
		return s.skip(0)
	})
	if !ok || later < 0 {
		return ok
	}
	return d.readLater(g, begun, later)
}

// readLater reads the group's list, which was passed over.
func (d *Decoder) readLater(g *group, begun bool, later int) bool {
	if !begun {
		g.begin(d)
	}
	end := d.scan.pos
	d.scan.pos = later
	ok := g.readList(d)
	if ok {
		d.scan.pos = end
	}
	return ok
}

func (d *Decoder) jsonScopes() bool {
	d.save(&d.otlp.resource)
	return d.eachShared("scopeLogs", (*Decoder).jsonScopeLogs)
}

func (d *Decoder) jsonRecords() bool {
	d.save(&d.otlp.scope)
	s := &d.scan
	switch s.peek() {
	case 'n':
		return s.literal("null")
	case '[':
		return d.elements(d.jsonRecord)
	}
	return s.fail(s.pos, "logRecords must be an array")
}

// fits says whether the next value is an array or an object, as the bracket
// says. Of anything else but null it blames the record, and moves over it.
func (d *Decoder) fits(bracket byte, what string) (fits, ok bool) {
	s := &d.scan
	switch c := s.peek(); {
	case c == bracket:
		return true, true
	case c == 'n':
		return false, s.literal("null")
	case bracket == '[':
		d.blame(CodeInvalidField, what, " must be an array")
	default:
		d.blame(CodeInvalidField, what, " must be an object")
	}
	return false, s.skip(0)
}

func (d *Decoder) jsonResource() bool {
	fits, ok := d.fits('{', "resource")
	if !fits {
		return ok
	}
	return d.members(func(key string) bool {
		if key == "attributes" {
			return d.jsonAttributes()
		}
		return d.scan.skip(0)
	})
}

func (d *Decoder) jsonScope() bool {
	fits, ok := d.fits('{', "scope")
	if !fits {
		return ok
	}
	name, version := "", ""
	ok = d.members(func(key string) (ok bool) {
		switch key {
		case "attributes":
			return d.jsonAttributes()
		case "name":
			name, ok = d.jsonText(key)
			return ok
		case "version":
			version, ok = d.jsonText(key)
			return ok
		}
		return d.scan.skip(0)
	})
	d.addScope(name, version)
	return ok
}

// jsonRecord reads one LogRecord and makes its log.
func (d *Decoder) jsonRecord() bool {
	o := d.otlp
	first := d.scan.peek()
	d.start = d.scan.pos
	d.restore(&o.scope)
	o.entry = otlpEntry{}
	if first == 'n' {
		d.blame(CodeInvalidField, "a log record", " must be an object")
	}
	fits, ok := d.fits('{', "a log record")
	if fits {
		ok = d.members(d.jsonRecordField)
	}
	return ok && d.finishRecord()
}

func (d *Decoder) jsonRecordField(key string) (ok bool) {
	e := &d.otlp.entry
	switch key {
	case "attributes":
		return d.jsonAttributes()
	case "body":
		return d.jsonData()
	case "timeUnixNano", "time_unix_nano":
		e.time, ok = d.jsonWhole(key, math.MaxUint64)
	case "observedTimeUnixNano", "observed_time_unix_nano":
		e.observed, ok = d.jsonWhole(key, math.MaxUint64)
	case "severityNumber", "severity_number":
		e.number, ok = d.jsonSeverity(key)
	case "severityText", "severity_text":
		e.word, ok = d.jsonText(key)
	case "traceId", "trace_id":
		e.trace, ok = d.jsonID(key, traceBytes)
	case "spanId", "span_id":
		e.span, ok = d.jsonID(key, spanBytes)
	case "flags":
		flags, good := d.jsonWhole(key, math.MaxUint32)
		e.flags, ok = uint32(flags), good
	case "eventName", "event_name":
		e.event, ok = d.jsonText(key)
	case "droppedAttributesCount", "dropped_attributes_count":
		e.dropped, ok = d.jsonWhole(key, math.MaxUint32)
	default:
		ok = d.scan.skip(0)
	}
	return ok
}
