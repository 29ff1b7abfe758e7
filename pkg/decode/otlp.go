package decode

import (
	"encoding/hex"
	"fmt"
	"strconv"

	"github.com/logboom/logboom/pkg/record"
)

// otlp holds what a Decoder reads of an OpenTelemetry body, in both forms: values
// are read into nodes, attributes into the Decoder's pairs, and the rest of a
// record into entry.
type otlp struct {
	nodes     []node
	entry     otlpEntry
	app       string  // service.name of the resource, scope or record, whichever was read last
	host      string  // host.name, in the same way
	bad       problem // why the current record, or each record under the current resource or scope, is invalid
	resource  shared
	scope     shared
	textBytes int // bytes of text in the records so far
	reserved  int // for how many of these bytes memory was reserved
}

// otlpEntry is a LogRecord without its attributes.
type otlpEntry struct {
	time     uint64 // Unix nanoseconds; 0 if missing
	observed uint64
	number   int64
	word     string
	data     string
	trace    string // in hexadecimal; empty if missing
	span     string
	flags    uint32
	event    string
	dropped  uint64 // attributes that the client's SDK dropped
}

// Keys of attributes that are fields of a log.
const (
	keyServiceName = "service.name"
	keyHostName    = "host.name"
)

// Keys of metadata for the fields of a LogRecord.
const (
	keyScopeName      = "scope.name"
	keyScopeVersion   = "scope.version"
	keyTraceID        = "trace_id"
	keySpanID         = "span_id"
	keyTraceFlags     = "trace_flags"
	keyEventName      = "event.name"
	keyDropped        = "dropped_attributes_count"
	keySeverityNumber = "severity_number"
)

// reserveStep is how many bytes of memory are reserved at a time.
const reserveStep = 256 << 10

// OTLPProto reads the logs of an ExportLogsServiceRequest in protobuf's binary form
// (opentelemetry-proto 1.x, collector/logs/v1) and calls emit for each. The body
// must not change until OTLPProto returns.
//
//   - Attributes of resource, scope and record become metadata. For equal keys the
//     record's attribute counts, then the scope's. scope.name and scope.version are
//     the scope's own. Maps are flattened with dots, arrays are JSON text, bytes
//     are base64, and an empty value is the empty string.
//   - service.name becomes the application, and host.name the host.
//   - The body is data: a string as it is, a missing body as the empty string, any
//     other value as its JSON text.
//   - The severity's number is kept; without a text it gets its canonical word. A
//     text without a number is read as by Logs. A record with neither is INFO.
//   - The time is time_unix_nano, or else observed_time_unix_nano, or else the time
//     of receipt, limited as by Logs.
//   - trace_id, span_id, trace_flags (two hexadecimal digits), event.name and
//     dropped_attributes_count become metadata if they are present.
//
// A body that is not such a request is refused as a whole: Result.Err says why, and
// the caller discards what was emitted before. It is also refused if the records
// together, each with its shared attributes, have more text than Limits.Decoded.
// Memory for the records is reserved as for a body. A record that breaks a limit is
// rejected alone. A request without records is valid.
func (d *Decoder) OTLPProto(body []byte, def Defaults, emit func(*record.Log)) Result {
	d.beginOTLP(body, def, emit)
	if !d.protoRequest(body) && d.refused == nil {
		d.refuse(CodeInvalidProtobuf, "the body is not an ExportLogsServiceRequest: a field is cut or malformed")
	}
	return d.endOTLP()
}

// OTLPJSON reads OTLP's JSON form as OTLPProto reads protobuf: keys in lowerCamel or
// snake case, 64-bit numbers as numbers or strings, ids in hexadecimal, enums as
// numbers or names. Unknown keys are ignored. A record with a value of the wrong
// type is rejected alone.
func (d *Decoder) OTLPJSON(body []byte, def Defaults, emit func(*record.Log)) Result {
	d.beginOTLP(body, def, emit)
	d.scan.depth = jsonPerLevel*d.limits.Depth + jsonAround
	if !d.jsonRequest() && d.refused == nil {
		d.start = d.scan.failAt
		d.refuse(CodeInvalidJSON, d.scan.failure)
	}
	d.scan.depth = d.limits.Depth
	return d.endOTLP()
}

func (d *Decoder) beginOTLP(body []byte, def Defaults, emit func(*record.Log)) {
	d.begin(body, def, protocol{})
	d.emitLog = emit
	if d.otlp == nil {
		d.otlp = new(otlp)
	}
	d.otlp.reserved = len(body)
	d.start = 0
	d.scan.resetText()
	d.pairs.reset()
	d.path.reset()
}

// endOTLP returns the result. It drops all references to the caller's memory and
// the buffers that the body made large.
func (d *Decoder) endOTLP() Result {
	o := d.otlp
	d.result.mayBeEmpty = true
	clear(o.nodes[:cap(o.nodes)])
	o.resource.release()
	o.scope.release()
	*o = otlp{nodes: o.nodes[:0], resource: shared{pairs: o.resource.pairs}, scope: shared{pairs: o.scope.pairs}}
	if cap(o.nodes) > keptNodes {
		o.nodes = nil
	}
	return d.end()
}

// refuse refuses the whole body, because of something behind start.
func (d *Decoder) refuse(code, detail string) {
	d.refused = &Error{Code: code, Index: -1, Offset: int64(d.start), Detail: fmt.Sprintf("%s (after byte %d)", detail, d.start)}
}

// finishRecord makes and emits the log of the current record, or rejects the
// record. It returns false if the whole body is refused.
func (d *Decoder) finishRecord() bool {
	p := d.otlpProblem()
	if p.code == "" {
		p = d.makeLog()
	}
	if d.refused != nil {
		return false
	}
	if p.code != "" {
		d.reject(p.code, p.at, p.detail)
		return true
	}
	d.emitLog(&d.log)
	d.result.Accepted++
	return true
}

func (d *Decoder) otlpProblem() problem {
	if d.otlp.bad.code != "" {
		return d.otlp.bad
	}
	if d.scan.overflow {
		return problem{CodeBodyTooLarge, d.start, fmt.Sprintf("the record has more than %d bytes of text", d.limits.Record)}
	}
	return problem{}
}

// makeLog fills the Decoder's log.
func (d *Decoder) makeLog() problem {
	o, l := d.otlp, &d.log
	e := &o.entry
	l.Data = e.data
	l.Application = d.app
	if o.app != "" {
		l.Application = d.scan.cut(o.app, d.limits.Value)
	}
	l.Host = d.scan.cut(o.host, d.limits.Value)
	l.SeverityNumber, l.Severity = d.otlpSeverity()
	l.Timestamp = d.otlpTime()
	d.addMarks()
	d.addIdentity()
	l.Metadata = d.pairs.list
	size := l.Size()
	d.countText(size)
	if size > d.limits.Record {
		return d.tooLarge(size)
	}
	return problem{}
}

// countText bounds the text of all records of a body together. Without it, a
// resource of a megabyte that a million empty records share would take a million
// megabytes.
func (d *Decoder) countText(size int) {
	o := d.otlp
	o.textBytes += size
	if int64(o.textBytes) > d.limits.Decoded {
		d.refuse(CodeBodyTooLarge, fmt.Sprintf("the records have more than %d bytes of text, counting the shared attributes for each: send fewer records at once", d.limits.Decoded))
		return
	}
	for o.reserved < o.textBytes {
		if err := d.bodies.reserveBytes(reserveStep); err != nil {
			d.refused = err
			return
		}
		o.reserved += reserveStep
	}
}

// otlpSeverity returns the record's severity number and word, and derives one from
// the other if only one is given. A number outside OpenTelemetry's range is kept as
// metadata.
func (d *Decoder) otlpSeverity() (number uint8, word string) {
	e := &d.otlp.entry
	if e.number < 0 || e.number > 24 {
		d.pairs.set(keySeverityNumber, d.scan.keepNumber(int(e.number)))
	} else {
		number = uint8(e.number)
	}
	word = severityWord(e.word)
	switch {
	case word == "" && number == 0:
		return defaultSeverityNumber, defaultSeverity
	case word == "":
		return number, canonicalSeverity(number)
	case number == 0:
		number = record.SeverityNumber(word)
	}
	return number, d.scan.cut(word, d.limits.Value)
}

// canonicalSeverity returns OpenTelemetry's name of a number from 1 to 24.
func canonicalSeverity(number uint8) string {
	const names = "TRACE TRACE2TRACE3TRACE4DEBUG DEBUG2DEBUG3DEBUG4INFO  INFO2 INFO3 INFO4 WARN  WARN2 WARN3 WARN4 ERROR ERROR2ERROR3ERROR4FATAL FATAL2FATAL3FATAL4"
	const width = len(names) / 24
	name := names[int(number-1)*width:][:width]
	for name[len(name)-1] == ' ' {
		name = name[:len(name)-1]
	}
	return name
}

// otlpTime returns the record's time, limited as by Decoder.timestamp.
func (d *Decoder) otlpTime() int64 {
	sent := d.otlp.entry.time
	if sent == 0 {
		sent = d.otlp.entry.observed
	}
	if sent == 0 {
		return d.now
	}
	nanos := int64(min(sent, uint64(newestTime)))
	used := min(max(nanos, d.oldest), d.latest)
	if uint64(used) != sent {
		var digits [20]byte
		d.pairs.set(keyOriginalTime, d.scan.keep(strconv.AppendUint(digits[:0], sent, 10)))
	}
	return used
}

// addIdentity adds the metadata of trace, event and dropped attributes. It must be
// called last.
func (d *Decoder) addIdentity() {
	e := &d.otlp.entry
	if e.trace != "" {
		d.pairs.setLast(keyTraceID, e.trace)
	}
	if e.span != "" {
		d.pairs.setLast(keySpanID, e.span)
	}
	if flags := byte(e.flags); flags != 0 { // the other bits are reserved
		d.pairs.setLast(keyTraceFlags, d.scan.keepHex([]byte{flags}))
	}
	if e.event != "" {
		d.pairs.setLast(keyEventName, d.scan.cut(e.event, d.limits.Value))
	}
	if e.dropped > 0 {
		d.pairs.setLast(keyDropped, d.scan.keepNumber(int(e.dropped)))
	}
}

// shared is what the records of a resource or a scope have in common. It is read
// once, and each record begins as a copy of it.
type shared struct {
	pairs     []record.Pair
	textBytes int // length of the scanner's text, which the pairs point into
	replaced  int
	dropped   int
	overflow  bool
	app, host string
	bad       problem
}

func (sh *shared) release() { clear(sh.pairs[:cap(sh.pairs)]) }

// save keeps the attributes read so far as shared.
func (d *Decoder) save(sh *shared) {
	o := d.otlp
	sh.pairs = append(sh.pairs[:0], d.pairs.list...)
	sh.textBytes, sh.replaced, sh.overflow = len(d.scan.text), d.scan.replaced, d.scan.overflow
	sh.dropped = d.pairs.dropped
	sh.app, sh.host, sh.bad = o.app, o.host, o.bad
}

// restore returns to the shared attributes. The current attributes must have begun
// as a copy of them.
func (d *Decoder) restore(sh *shared) {
	o := d.otlp
	d.pairs.rewind(sh.pairs, sh.dropped)
	d.scan.text = d.scan.text[:sh.textBytes]
	d.scan.replaced, d.scan.overflow = sh.replaced, sh.overflow
	o.app, o.host, o.bad = sh.app, sh.host, sh.bad
}

// clearShared drops all attributes, at the start of a resource.
func (d *Decoder) clearShared() {
	d.pairs.reset()
	d.restore(&shared{})
}

// addScope adds the scope's name and version to its attributes.
func (d *Decoder) addScope(name, version string) {
	if name != "" {
		d.pairs.set(keyScopeName, d.scan.cut(name, d.limits.Value))
	}
	if version != "" {
		d.pairs.set(keyScopeVersion, d.scan.cut(version, d.limits.Value))
	}
}

// rewind resets the set to the given pairs, which must be its first ones. It copies
// them and removes the others from the index: rebuilding an index of many pairs
// would cost more than the rest of the record.
func (p *pairSet) rewind(pairs []record.Pair, dropped int) {
	switch {
	case len(p.list) < indexedPairs: // there is no index yet
	case len(pairs) < indexedPairs:
		clear(p.index)
	default:
		for i := range p.list[len(pairs):] {
			delete(p.index, p.list[len(pairs)+i].Key)
		}
	}
	p.list = append(p.list[:0], pairs...)
	p.dropped = dropped
}

// setLast is set for keys after which the set is rewound. It does not index them: a
// record that just exceeds indexedPairs would need a new index. Measured: a quarter
// of the whole decoding.
func (p *pairSet) setLast(key, value string) {
	for i := range p.list {
		if p.list[i].Key == key {
			p.list[i].Value = value
			return
		}
	}
	p.list = append(p.list, record.Pair{Key: key, Value: value})
}

// keepHex returns raw in hexadecimal as a text of the record.
func (s *scanner) keepHex(raw []byte) string {
	from := len(s.text)
	s.text = hex.AppendEncode(s.text, raw)
	return view(s.text[from:])
}
