package decode

import (
	"math"
	"strconv"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
)

// The tags of the fields of opentelemetry-proto 1.x that are read: number and wire
// type. To protobuf, a field of another wire type is an unknown field.
const (
	wireVarint  = uint64(protowire.VarintType)
	wireFixed64 = uint64(protowire.Fixed64Type)
	wireBytes   = uint64(protowire.BytesType)
	wireFixed32 = uint64(protowire.Fixed32Type)

	requestResourceLogs = 1<<3 | wireBytes

	resourceLogsResource  = 1<<3 | wireBytes
	resourceLogsScopeLogs = 2<<3 | wireBytes

	scopeLogsScope   = 1<<3 | wireBytes
	scopeLogsRecords = 2<<3 | wireBytes

	resourceAttributes = 1<<3 | wireBytes

	scopeName       = 1<<3 | wireBytes
	scopeVersion    = 2<<3 | wireBytes
	scopeAttributes = 3<<3 | wireBytes

	logTime       = 1<<3 | wireFixed64
	logNumber     = 2<<3 | wireVarint
	logWord       = 3<<3 | wireBytes
	logBody       = 5<<3 | wireBytes
	logAttributes = 6<<3 | wireBytes
	logDropped    = 7<<3 | wireVarint
	logFlags      = 8<<3 | wireFixed32
	logTrace      = 9<<3 | wireBytes
	logSpan       = 10<<3 | wireBytes
	logObserved   = 11<<3 | wireFixed64
	logEvent      = 12<<3 | wireBytes

	keyValueKey   = 1<<3 | wireBytes
	keyValueValue = 2<<3 | wireBytes

	anyString = 1<<3 | wireBytes
	anyBool   = 2<<3 | wireVarint
	anyInt    = 3<<3 | wireVarint
	anyDouble = 4<<3 | wireFixed64
	anyArray  = 5<<3 | wireBytes
	anyMap    = 6<<3 | wireBytes
	anyBytes  = 7<<3 | wireBytes
	anyIndex  = 8<<3 | wireVarint // an index into a table that only profiles have

	listValues = 1<<3 | wireBytes
)

// message reads the fields of a protobuf message. The zero tag is none of the fields
// above.
type message struct {
	left   []byte
	tag    uint64
	raw    []byte // of a field with a length
	bits   uint64 // of a field without a length
	broken bool   // the bytes are not valid protobuf
}

// next reads the next field. It returns false at the end and if the message is
// broken.
func (m *message) next() bool {
	if len(m.left) == 0 {
		return false
	}
	tag, n := protowire.ConsumeVarint(m.left)
	if number := tag >> 3; n < 0 || number < uint64(protowire.MinValidNumber) || number > uint64(protowire.MaxValidNumber) {
		m.broken = true
		return false
	}
	m.tag, m.left = tag, m.left[n:]
	if n = m.value(); n < 0 {
		m.broken = true
		return false
	}
	m.left = m.left[n:]
	return true
}

// value reads the value of the current field and returns its length, which is
// negative if the value is broken.
func (m *message) value() (n int) {
	number, kind := protowire.DecodeTag(m.tag)
	switch kind {
	case protowire.BytesType:
		m.raw, n = protowire.ConsumeBytes(m.left)
	case protowire.VarintType:
		m.bits, n = protowire.ConsumeVarint(m.left)
	case protowire.Fixed64Type:
		m.bits, n = protowire.ConsumeFixed64(m.left)
	case protowire.Fixed32Type:
		var bits uint32
		bits, n = protowire.ConsumeFixed32(m.left)
		m.bits = uint64(bits)
	default:
		n = protowire.ConsumeFieldValue(number, kind, m.left)
	}
	return n
}

// offsetOf returns the offset of a part of the body. A slice of the body reaches to
// the body's end.
func (d *Decoder) offsetOf(part []byte) int { return cap(d.scan.body) - cap(part) }

// concat returns the message that is given in two parts: protobuf joins them. Nearly
// always there is only one part.
func (d *Decoder) concat(before, part []byte) []byte {
	s := &d.scan
	if len(before) == 0 || !s.room(len(before)+len(part)) {
		return part
	}
	from := len(s.text)
	s.text = append(append(s.text, before...), part...)
	return s.text[from:len(s.text):len(s.text)]
}

// protoRequest reads a whole body. This and the functions below return false if the
// body is refused.
func (d *Decoder) protoRequest(body []byte) bool {
	m := message{left: body}
	for m.next() {
		if m.tag == requestResourceLogs && !d.protoResourceLogs(m.raw) {
			return false
		}
	}
	return !m.broken
}

// protoResourceLogs reads the message twice, because the resource may stand behind
// the logs that share it.
func (d *Decoder) protoResourceLogs(raw []byte) bool {
	d.start = d.offsetOf(raw)
	d.clearShared()
	var resource []byte
	m := message{left: raw}
	for m.next() {
		if m.tag == resourceLogsResource {
			resource = d.concat(resource, m.raw)
		}
	}
	if m.broken || !d.protoAttributes(resource, resourceAttributes) {
		return false
	}
	d.save(&d.otlp.resource)
	for m = (message{left: raw}); m.next(); {
		if m.tag == resourceLogsScopeLogs && !d.protoScopeLogs(m.raw) {
			return false
		}
	}
	return true
}

func (d *Decoder) protoScopeLogs(raw []byte) bool {
	d.start = d.offsetOf(raw)
	m := message{left: raw}
	records := 0
	for m.next() {
		if m.tag == scopeLogsRecords {
			records++
		}
	}
	if m.broken || records == 0 { // an empty scope must not cost a copy of a large resource
		return !m.broken
	}
	d.restore(&d.otlp.resource)
	var scope []byte
	for m = (message{left: raw}); m.next(); {
		if m.tag == scopeLogsScope {
			scope = d.concat(scope, m.raw)
		}
	}
	if !d.protoScope(scope) {
		return false
	}
	d.save(&d.otlp.scope)
	for m = (message{left: raw}); m.next(); {
		if m.tag == scopeLogsRecords && !d.protoRecord(m.raw) {
			return false
		}
	}
	return true
}

// protoAttributes reads the attributes that a message has under the tag.
func (d *Decoder) protoAttributes(raw []byte, tag uint64) bool {
	m := message{left: raw}
	for m.next() {
		if m.tag == tag && !d.protoAttribute(m.raw) {
			return false
		}
	}
	return !m.broken
}

func (d *Decoder) protoScope(raw []byte) bool {
	if !d.protoAttributes(raw, scopeAttributes) {
		return false
	}
	name, version := "", ""
	m := message{left: raw}
	for m.next() {
		switch m.tag {
		case scopeName:
			name = d.scan.valid(m.raw)
		case scopeVersion:
			version = d.scan.valid(m.raw)
		}
	}
	d.addScope(name, version)
	return true
}

// protoRecord reads one LogRecord and emits its log.
func (d *Decoder) protoRecord(raw []byte) bool {
	o := d.otlp
	d.start = d.offsetOf(raw)
	d.restore(&o.scope)
	o.entry = otlpEntry{}
	var body []byte
	m := message{left: raw}
	for m.next() {
		switch m.tag {
		case logAttributes:
			if !d.protoAttribute(m.raw) {
				return false
			}
		case logBody:
			body = d.concat(body, m.raw)
		default:
			d.protoField(&m)
		}
	}
	d.scan.pos = d.start + len(raw)
	return !m.broken && d.protoData(body) && d.finishRecord()
}

// protoField reads a field of a LogRecord that is a single value.
func (d *Decoder) protoField(m *message) {
	e := &d.otlp.entry
	switch m.tag {
	case logTime:
		e.time = m.bits
	case logObserved:
		e.observed = m.bits
	case logNumber:
		e.number = int64(int32(m.bits)) // an enum has 32 bits
	case logWord:
		e.word = d.scan.valid(m.raw)
	case logFlags:
		e.flags = uint32(m.bits)
	case logTrace:
		e.trace = d.protoID(m.raw, traceBytes)
	case logSpan:
		e.span = d.protoID(m.raw, spanBytes)
	case logEvent:
		e.event = d.scan.valid(m.raw)
	case logDropped:
		e.dropped = uint64(uint32(m.bits))
	}
}

// Lengths of ids. By the comment in logs.proto, an id of another length or of zeros
// only counts as missing.
const (
	traceBytes = 16
	spanBytes  = 8
)

func (d *Decoder) protoID(raw []byte, length int) string {
	if len(raw) != length || !d.scan.room(2*length) {
		return ""
	}
	return realID(d.scan.keepHex(raw))
}

// realID returns an id in hexadecimal, or "" if it consists of zeros.
func realID(id string) string {
	if strings.Trim(id, "0") == "" {
		return ""
	}
	return id
}

// protoData reads a record's body, an AnyValue.
func (d *Decoder) protoData(raw []byte) bool {
	if len(raw) == 0 {
		return true
	}
	o := d.otlp
	o.nodes = o.nodes[:0]
	if !d.protoValue(d.addNode(), raw, 1) {
		return false
	}
	o.entry.data = d.nodeText(0)
	return true
}

func (d *Decoder) protoAttribute(raw []byte) bool {
	d.otlp.nodes = d.otlp.nodes[:0]
	if !d.protoKeyValue(raw, 1) {
		return false
	}
	d.addAttribute()
	return true
}

// protoKeyValue reads a KeyValue into a new node.
func (d *Decoder) protoKeyValue(raw []byte, level int) bool {
	i := d.addNode()
	m := message{left: raw}
	for m.next() {
		switch m.tag {
		case keyValueKey:
			d.otlp.nodes[i].key = d.scan.valid(m.raw)
		case keyValueValue:
			if !d.protoValue(i, m.raw, level) {
				return false
			}
		}
	}
	return !m.broken
}

// protoValue reads an AnyValue into node i, level values tooDeep. If several members
// are given, the last one counts.
func (d *Decoder) protoValue(i int, raw []byte, level int) bool {
	if d.tooDeep(level) {
		return true // the record is invalid regardless of the rest
	}
	m := message{left: raw}
	for m.next() {
		switch m.tag {
		case anyString:
			d.setNode(i, '"', d.scan.valid(m.raw))
		case anyBool:
			d.setNode(i, '0', strconv.FormatBool(m.bits != 0))
		case anyInt:
			d.setInt(i, int64(m.bits))
		case anyDouble:
			d.setDouble(i, math.Float64frombits(m.bits))
		case anyBytes:
			d.setBytes(i, m.raw)
		case anyIndex:
			d.setNode(i, 0, "")
		case anyArray, anyMap:
			if !d.protoList(i, m.raw, m.tag == anyMap, level+1) {
				return false
			}
		}
	}
	return !m.broken
}

// protoList reads an ArrayValue or a KeyValueList into node i.
func (d *Decoder) protoList(i int, raw []byte, keyed bool, level int) (ok bool) {
	if keyed {
		d.openNode(i, '{')
	} else {
		d.openNode(i, '[')
	}
	m := message{left: raw}
	for m.next() {
		if m.tag != listValues {
			continue
		}
		if keyed {
			ok = d.protoKeyValue(m.raw, level)
		} else {
			ok = d.protoValue(d.addNode(), m.raw, level)
		}
		if !ok {
			return false
		}
	}
	d.closeNode(i)
	return !m.broken
}
