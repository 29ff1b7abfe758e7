package decode

import (
	"fmt"
	"strconv"

	"github.com/logboom/logboom/pkg/record"
)

// otlp is what a Decoder keeps for OpenTelemetry's bodies. Both of their forms
// are read into it: values into nodes, attributes into the Decoder's pairs, the
// rest of a record into entry.
type otlp struct {
	nodes    []node
	entry    otlpEntry
	app      string  // service.name so far, of resource, scope and record
	host     string  // host.name likewise
	bad      problem // why the record at hand, or each that shares what is at hand, becomes none
	resource shared
	scope    shared
	spent    int // bytes of text in the records so far
	asked    int // of these, for how many memory was asked
}

// otlpEntry is a LogRecord without its attributes.
type otlpEntry struct {
	time     uint64 // Unix nanoseconds; 0 for none
	observed uint64
	number   int64
	word     string
	data     string
	trace    string // in hexadecimal, empty for none
	span     string
	flags    uint32
	event    string
	dropped  uint64 // attributes that the sender's SDK dropped
}

// Keys of attributes that are fields of a log.
const (
	keyServiceName = "service.name"
	keyHostName    = "host.name"
)

// Keys of metadata for what a LogRecord has beside its attributes.
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

// askedAtOnce is how many bytes of records memory is asked for at a time.
const askedAtOnce = 256 << 10

// OTLPProto reads the logs of an ExportLogsServiceRequest in protobuf's binary
// form (opentelemetry-proto 1.x, collector/logs/v1) and hands each to emit. The
// body must stay as it is until OTLPProto returns.
//
//   - Attributes of resource, scope and record become metadata, the record's
//     over the scope's over the resource's; scope.name and scope.version are
//     the scope's own. Maps are flattened with dots, arrays are JSON text,
//     bytes base64, an empty value is the empty string.
//   - service.name becomes the application, host.name the host.
//   - The body is data: a string as it is, nothing as the empty string, any
//     other value as its JSON text.
//   - The severity's number is kept, with its canonical word where there is no
//     text. A text without a number is read as that of Logs. A record with
//     neither is INFO.
//   - The time is time_unix_nano, else observed_time_unix_nano, else that of
//     receipt, moved where Logs would move it.
//   - trace_id, span_id, trace_flags (two hexadecimal digits), event.name and
//     dropped_attributes_count are metadata where they are there.
//
// A body that is no such request gives nothing: Result.Err says why, and what
// was emitted before must be thrown away. So it is where the records together,
// each with all that it shares, have more text than Limits.Decoded; and for
// them as for a body memory is asked of the function given to Reserve. A record
// that breaks a limit is rejected alone. A request without records is a good
// one.
func (d *Decoder) OTLPProto(body []byte, def Defaults, emit func(*record.Log)) Result {
	d.beginOTLP(body, def, emit)
	if !d.protoRequest(body) && d.refused == nil {
		d.refuse(CodeInvalidProtobuf, "the body is not an ExportLogsServiceRequest: a field is cut or malformed")
	}
	return d.endOTLP()
}

// OTLPJSON reads what OTLPProto does from OTLP's JSON form: keys in lowerCamel
// or snake case, 64-bit numbers as numbers or strings, ids in hexadecimal,
// enums as numbers or names. Unknown keys are passed over. A record with a
// value of the wrong type is rejected alone.
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
	d.otlp.asked = len(body)
	d.start = 0
	d.scan.resetText()
	d.pairs.reset()
	d.path.reset()
}

// endOTLP gives up what the body made large and what is the caller's.
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

// refuse gives up the whole body, for something at start or behind it.
func (d *Decoder) refuse(code, detail string) {
	d.refused = &Error{Code: code, Index: -1, Offset: int64(d.start), Detail: fmt.Sprintf("%s (behind byte %d)", detail, d.start)}
}

// finishRecord makes the log of what was read of a record. It is false when the
// body is refused as a whole.
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
	d.spend(size)
	if size > d.limits.Record {
		return d.tooLarge(size)
	}
	return problem{}
}

// spend bounds what a body's records hold together. Without it, a resource of
// a megabyte that a million empty records share would be a million megabytes.
func (d *Decoder) spend(size int) {
	o := d.otlp
	o.spent += size
	if int64(o.spent) > d.limits.Decoded {
		d.refuse(CodeBodyTooLarge, fmt.Sprintf("the records hold more than %d bytes, counting for each the attributes that it shares: send fewer at once", d.limits.Decoded))
		return
	}
	for o.asked < o.spent {
		if err := d.bodies.room(askedAtOnce); err != nil {
			d.refused = err
			return
		}
		o.asked += askedAtOnce
	}
}

// otlpSeverity is the record's number and word, each made of the other where
// only that is there. A number that OpenTelemetry does not have is kept as
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

// canonicalSeverity is the name of a number from 1 to 24.
func canonicalSeverity(number uint8) string {
	const names = "TRACE TRACE2TRACE3TRACE4DEBUG DEBUG2DEBUG3DEBUG4INFO  INFO2 INFO3 INFO4 WARN  WARN2 WARN3 WARN4 ERROR ERROR2ERROR3ERROR4FATAL FATAL2FATAL3FATAL4"
	const width = len(names) / 24
	name := names[int(number-1)*width:][:width]
	for name[len(name)-1] == ' ' {
		name = name[:len(name)-1]
	}
	return name
}

// otlpTime is the record's time, as Decoder.timestamp has it.
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

// addIdentity adds what names the record beside its attributes, last of all.
func (d *Decoder) addIdentity() {
	e := &d.otlp.entry
	if e.trace != "" {
		d.pairs.setLast(keyTraceID, e.trace)
	}
	if e.span != "" {
		d.pairs.setLast(keySpanID, e.span)
	}
	if flags := byte(e.flags); flags != 0 { // the others are reserved
		d.pairs.setLast(keyTraceFlags, d.scan.keepHex([]byte{flags}))
	}
	if e.event != "" {
		d.pairs.setLast(keyEventName, d.scan.cut(e.event, d.limits.Value))
	}
	if e.dropped > 0 {
		d.pairs.setLast(keyDropped, d.scan.keepNumber(int(e.dropped)))
	}
}
