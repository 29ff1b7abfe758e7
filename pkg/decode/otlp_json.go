package decode

import (
	"bytes"
	"math"
	"strconv"
	"strings"
)

const (
	// jsonPerLevel is how many JSON objects and arrays one level of AnyValue has:
	// {"kvlistValue":{"values":[{"value":…
	jsonPerLevel = 4
	// jsonAround is how many there are around a value and inside it, with some to
	// spare.
	jsonAround = 16
)

// jsonRequest reads a whole body. This and the functions below return false if the
// body is refused; then the scanner's failure or Decoder.refused says why.
func (d *Decoder) jsonRequest() bool {
	s := &d.scan
	if bytes.HasPrefix(s.body, []byte(byteOrderMark)) {
		s.pos = len(byteOrderMark)
	}
	if s.peek() != '{' {
		return s.fail(s.pos, "the body must be a JSON object")
	}
	ok := d.scan.members(func(key string) bool {
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

// eachShared reads an array of objects with shared attributes. It refuses the body
// if the value is anything else, because nothing in it could be read.
func (d *Decoder) eachShared(what string, read func(d *Decoder) bool) bool {
	s := &d.scan
	switch s.peek() {
	case 'n':
		return s.literal("null")
	case '[':
		return d.scan.elements(func() bool {
			if s.peek() != '{' {
				return s.fail(s.pos, what+" must hold objects")
			}
			d.start = s.pos
			return read(d)
		})
	}
	return s.fail(s.pos, what+" must be an array")
}

// group describes an object with a part that all entries of its list share.
type group struct {
	part, list, snake string                // keys; the list has two spellings
	begin             func(d *Decoder)      // called before the part, or before a list without a part
	readPart          func(d *Decoder) bool // reads the part's value
	readList          func(d *Decoder) bool // reads the list's value
}

func (d *Decoder) jsonResourceLogs() bool {
	return d.group(&group{"resource", "scopeLogs", "scope_logs", (*Decoder).clearShared, (*Decoder).jsonResource, (*Decoder).jsonScopes})
}

func (d *Decoder) jsonScopeLogs() bool {
	begin := func(d *Decoder) { d.restore(&d.otlp.resource) }
	return d.group(&group{"scope", "logRecords", "log_records", begin, (*Decoder).jsonScope, (*Decoder).jsonRecords})
}

// group reads the group's object. A JSON object has no order: if the list comes
// before the part, it is skipped and read at the end.
func (d *Decoder) group(g *group) bool {
	s := &d.scan
	begun, listed, later := false, false, -1
	ok := d.scan.members(func(key string) bool {
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

// readLater reads the group's list, which was skipped at index later.
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
		return d.scan.elements(d.jsonRecord)
	}
	return s.fail(s.pos, "logRecords must be an array")
}

// expect reports whether the next value is an array or an object, as the bracket
// says. Any other value is skipped, and makes the record invalid unless it is null.
func (d *Decoder) expect(bracket byte, what string) (found, ok bool) {
	s := &d.scan
	switch c := s.peek(); {
	case c == bracket:
		return true, true
	case c == 'n':
		return false, s.literal("null")
	case bracket == '[':
		d.invalidate(CodeInvalidField, what, " must be an array")
	default:
		d.invalidate(CodeInvalidField, what, " must be an object")
	}
	return false, s.skip(0)
}

func (d *Decoder) jsonResource() bool {
	found, ok := d.expect('{', "resource")
	if !found {
		return ok
	}
	return d.scan.members(func(key string) bool {
		if key == "attributes" {
			return d.jsonAttributes()
		}
		return d.scan.skip(0)
	})
}

func (d *Decoder) jsonScope() bool {
	found, ok := d.expect('{', "scope")
	if !found {
		return ok
	}
	name, version := "", ""
	ok = d.scan.members(func(key string) (ok bool) {
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

// jsonRecord reads one LogRecord and emits its log.
func (d *Decoder) jsonRecord() bool {
	o := d.otlp
	first := d.scan.peek()
	d.start = d.scan.pos
	d.restore(&o.scope)
	o.entry = otlpEntry{}
	if first == 'n' {
		d.invalidate(CodeInvalidField, "a log record", " must be an object")
	}
	found, ok := d.expect('{', "a log record")
	if found {
		ok = d.scan.members(d.jsonRecordField)
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

// jsonText reads a string; null is the empty string.
func (d *Decoder) jsonText(what string) (text string, ok bool) {
	f, ok := d.scan.value(0)
	if !ok || f.absent() {
		return "", ok
	}
	if f.kind != '"' {
		d.invalidate(CodeInvalidField, what, " must be a string")
		return "", true
	}
	return f.text, true
}

// jsonNumber reads a number, which may be in a string, and returns its text. It
// returns "" for null.
func (d *Decoder) jsonNumber(what string) (text string, ok bool) {
	f, ok := d.scan.value(0)
	if !ok || f.absent() {
		return "", ok
	}
	if f.kind != '"' && f.kind != '0' || f.text == "" {
		d.invalidate(CodeInvalidField, what, " must be a number")
		return "", true
	}
	return f.text, true
}

// jsonWhole reads a whole number from 0 to most.
func (d *Decoder) jsonWhole(what string, most uint64) (n uint64, ok bool) {
	text, ok := d.jsonNumber(what)
	if text == "" {
		return 0, ok
	}
	negative, n, good := wholeNumber(text)
	if !good || negative && n > 0 || n > most {
		d.invalidate(CodeInvalidField, what, " must be a whole number within its range")
		return 0, true
	}
	return n, true
}

// wholeNumber parses a whole number, written as 12, 12.0 or 1.2e1.
func wholeNumber(text string) (negative bool, n uint64, ok bool) {
	digits := strings.TrimPrefix(text, "-")
	negative = len(digits) < len(text)
	if digits == "" || !isDigit(digits[0]) {
		return false, 0, false
	}
	if n, err := strconv.ParseUint(digits, 10, 64); err == nil {
		return negative, n, true
	}
	f, err := strconv.ParseFloat(digits, 64)
	if err != nil || f != math.Trunc(f) || f >= 1<<64 {
		return false, 0, false
	}
	return negative, uint64(f), true
}

// jsonSeverity reads a SeverityNumber, as a number or a name. It returns 0 for an
// unknown name.
func (d *Decoder) jsonSeverity(what string) (number int64, ok bool) {
	text, ok := d.jsonNumber(what)
	if text == "" {
		return 0, ok
	}
	if c := text[0]; c != '-' && !isDigit(c) {
		return severityNamed(strings.TrimPrefix(text, "SEVERITY_NUMBER_")), ok
	}
	negative, n, good := wholeNumber(text)
	switch {
	case !good || n > math.MaxInt32:
		d.invalidate(CodeInvalidField, what, " must be a whole number within its range")
	case negative:
		number = -int64(n)
	default:
		number = int64(n)
	}
	return number, ok
}

// severityNamed returns the number of a canonical name, and 0 for any other.
func severityNamed(name string) int64 {
	for number := uint8(1); number <= 24; number++ {
		if canonicalSeverity(number) == name {
			return int64(number)
		}
	}
	return 0
}

// jsonID reads an id of length bytes in hexadecimal of either case. It returns ""
// for any other text.
func (d *Decoder) jsonID(what string, length int) (id string, ok bool) {
	text, ok := d.jsonText(what)
	if len(text) != 2*length {
		return "", ok
	}
	var lower [2 * traceBytes]byte
	for i := range len(text) {
		c := text[i]
		if 'A' <= c && c <= 'F' {
			c |= 0x20
		}
		if !isDigit(c) && (c < 'a' || c > 'f') {
			return "", ok
		}
		lower[i] = c
	}
	return realID(d.scan.keep(lower[:len(text)])), ok
}

// jsonData reads a record's body, an AnyValue.
func (d *Decoder) jsonData() bool {
	o := d.otlp
	o.nodes = o.nodes[:0]
	if !d.jsonValue(d.addNode(), 1) {
		return false
	}
	o.entry.data = d.nodeText(0)
	return true
}

func (d *Decoder) jsonAttributes() bool {
	found, ok := d.expect('[', "attributes")
	if !found {
		return ok
	}
	return d.scan.elements(func() bool {
		d.otlp.nodes = d.otlp.nodes[:0]
		if !d.jsonKeyValue(1) {
			return false
		}
		d.addAttribute()
		return true
	})
}

// jsonKeyValue reads a KeyValue into a new node.
func (d *Decoder) jsonKeyValue(level int) bool {
	i := d.addNode()
	found, ok := d.expect('{', "what attributes and maps hold")
	if !found {
		return ok
	}
	return d.scan.members(func(key string) (ok bool) {
		switch key {
		case "key":
			d.otlp.nodes[i].key, ok = d.jsonText(key)
			return ok
		case "value":
			return d.jsonValue(i, level)
		}
		return d.scan.skip(0)
	})
}

// jsonValue reads an AnyValue into node i, level values tooDeep. If several members are
// given, the last one counts.
func (d *Decoder) jsonValue(i, level int) bool {
	if d.tooDeep(level) {
		return d.scan.skip(0)
	}
	found, ok := d.expect('{', "a value")
	if !found {
		return ok
	}
	return d.scan.members(func(key string) bool {
		switch {
		case d.scan.peek() == 'n':
			return d.scan.literal("null")
		case key == "arrayValue" || key == "array_value":
			return d.jsonList(i, '[', level+1)
		case key == "kvlistValue" || key == "kvlist_value":
			return d.jsonList(i, '{', level+1)
		}
		return d.jsonScalar(i, key)
	})
}

// jsonScalar reads the value of a key of AnyValue that is not an array or a map.
func (d *Decoder) jsonScalar(i int, key string) bool {
	switch key {
	case "stringValue", "string_value", "bytesValue", "bytes_value":
		text, ok := d.jsonText(key)
		d.setNode(i, '"', text)
		return ok
	case "boolValue", "bool_value":
		f, ok := d.scan.value(0)
		if f.kind != 't' {
			d.invalidate(CodeInvalidField, key, " must be true or false")
		}
		d.setNode(i, '0', f.text)
		return ok
	case "intValue", "int_value":
		return d.jsonInt(i, key)
	case "doubleValue", "double_value":
		return d.jsonDouble(i, key)
	}
	return d.scan.skip(0)
}

func (d *Decoder) jsonInt(i int, what string) bool {
	text, ok := d.jsonNumber(what)
	negative, n, good := wholeNumber(text)
	switch {
	case !good || n > 1<<63 || n == 1<<63 && !negative:
		d.invalidate(CodeInvalidField, what, " must be a whole number of 64 bits")
	case negative:
		d.setInt(i, -int64(n))
	default:
		d.setInt(i, int64(n))
	}
	return ok
}

func (d *Decoder) jsonDouble(i int, what string) bool {
	text, ok := d.jsonNumber(what)
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		d.invalidate(CodeInvalidField, what, " must be a number")
		return ok
	}
	d.setDouble(i, f)
	return ok
}

// jsonList reads an ArrayValue or a KeyValueList, as the bracket says, into node i.
func (d *Decoder) jsonList(i int, bracket byte, level int) bool {
	d.openNode(i, bracket)
	found, ok := d.expect('{', "arrayValue and kvlistValue")
	if found {
		ok = d.scan.members(func(key string) bool {
			if key != "values" {
				return d.scan.skip(0)
			}
			return d.jsonListValues(bracket, level)
		})
	}
	d.closeNode(i)
	return ok
}

func (d *Decoder) jsonListValues(bracket byte, level int) bool {
	found, ok := d.expect('[', "values")
	if !found {
		return ok
	}
	return d.scan.elements(func() bool {
		if bracket == '{' {
			return d.jsonKeyValue(level)
		}
		return d.jsonValue(d.addNode(), level)
	})
}
