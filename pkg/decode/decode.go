// Package decode turns HTTP bodies into records: one file a protocol, the
// guards on size, compression, depth and text once for all of them.
//
// It sits between ingest, which authenticates a request and answers it, and
// record, which puts what came out on the queue. A newcomer's usual mistake is
// to keep a record that was handed to emit: it and its strings borrow from the
// body and from the Decoder, and are valid only until emit returns.
package decode

import (
	"fmt"
	"time"

	"github.com/logboom/logboom/pkg/record"
)

// Codes of errors and rejections: part of the HTTP contract.
const (
	CodeInvalidJSON         = "invalid_json"         // not JSON, or not of the shape asked for
	CodeInvalidProtobuf     = "invalid_protobuf"     // not protobuf, or not of the message asked for
	CodeMissingField        = "missing_field"        // a required field is not there
	CodeInvalidField        = "invalid_field"        // a field has a value that cannot be understood
	CodeEmptyBody           = "empty_body"           // there is no entry at all
	CodeBodyTooLarge        = "body_too_large"       // the body, or one record, is over its limit
	CodeUnsupportedEncoding = "unsupported_encoding" // an unknown Content-Encoding
)

// Limits bound what one body may cost. All but Body count decoded bytes.
type Limits struct {
	Body       int64 // bytes as sent
	Decoded    int64 // bytes of the body once decompressed
	Record     int   // bytes of text in one record, as record.Log.Size counts them
	Keys       int   // metadata keys or tags of one record; those after are dropped and counted
	Key        int   // bytes of a key; longer ones are cut and marked
	Value      int   // bytes of a value or a name; longer ones are cut and marked
	Depth      int   // objects and arrays inside each other, the record's own being the first
	Rejections int   // rejections that are kept with their details; the others are only counted
}

// DefaultLimits returns the limits of the native routes.
func DefaultLimits() Limits {
	return Limits{
		Body:       10 << 20,
		Decoded:    64 << 20,
		Record:     1 << 20,
		Keys:       128,
		Key:        256,
		Value:      16 << 10,
		Depth:      64,
		Rejections: 100,
	}
}

// Defaults is what a record gets where its sender says nothing.
type Defaults struct {
	Now         time.Time // the time of receipt; timestamps may be ten minutes later at most
	Application string
	Oldest      time.Time // earlier timestamps are moved here; zero for no such limit
	StderrAs    string    // the severity of a container's lines on stderr that name none; empty for none
}

// Error says why a body gave no record. It never repeats the body.
type Error struct {
	Code   string
	Index  int   // the entry it is about, from 0; -1 for the whole body
	Offset int64 // bytes into the decoded body
	Detail string
}

// Error implements error.
func (e *Error) Error() string {
	if e.Index < 0 {
		return fmt.Sprintf("%s: %s", e.Code, e.Detail)
	}
	return fmt.Sprintf("%s: entry %d, byte %d: %s", e.Code, e.Index, e.Offset, e.Detail)
}

// Rejection says why one entry of a body became no record.
type Rejection struct {
	Index  int    `json:"index"` // counts the entries from 0; blank lines are none
	Code   string `json:"code"`
	Detail string `json:"detail"`
	Offset int64  `json:"offset"` // bytes into the decoded body
	Start  int64  `json:"-"`      // where the entry begins there
	End    int64  `json:"-"`      // and where what could not be used of it ends
}

// Result says what became of a body's entries.
type Result struct {
	Accepted      int
	Rejected      []Rejection // the first ones, as many as Limits.Rejections says
	RejectedTotal int
	Timed         bool // each record has a time that its sender gave it; HEC only

	refused    error // why the whole body is refused
	mayBeEmpty bool  // a body without entries is a good one
}

// Err is nil when a record was accepted. Otherwise it is an *Error: that of
// the first rejection, or empty_body where there was no entry.
func (r Result) Err() error {
	if r.refused != nil {
		return r.refused
	}
	if r.Accepted > 0 || r.mayBeEmpty && r.RejectedTotal == 0 {
		return nil
	}
	if len(r.Rejected) == 0 {
		return &Error{Code: CodeEmptyBody, Index: -1, Detail: "the body holds no entry"}
	}
	first := r.Rejected[0]
	return &Error{Code: first.Code, Index: first.Index, Offset: first.Offset, Detail: first.Detail}
}

// Decoder decodes one body after another and keeps its buffers and
// decompressors in between: hold some in a pool. It is for one goroutine at a
// time.
type Decoder struct {
	limits Limits
	bodies decompressors

	scan     scanner
	pairs    pairSet
	path     keyPath
	fields   [fieldCount]field
	protocol protocol
	now      int64 // Unix nanoseconds, as are the two below
	oldest   int64
	latest   int64
	app      string
	start    int   // where the entry at hand begins
	timed    bool  // the record at hand has its sender's time
	rescans  int   // bytes that were read again after errors
	lineEnd  int   // where the line ends in which the last broken entry began
	seam     int   // where the first object after that entry begins right behind another
	refused  error // why the whole body is refused; what was emitted is then discarded
	result   Result

	log       record.Log
	event     record.Event
	emitLog   func(*record.Log)
	emitEvent func(*record.Event)

	// Of container logs only.
	line     levelFinder
	sticky   [len(stickyFields)]sticky
	pieces   [outputs]pieces
	stderrAs string
	others   bool // the event at hand has more than what a line has
	untimed  int  // logs without a time of their sender
	joined   int  // entries that became part of another one's log

	otlp *otlp // nil until a body of OpenTelemetry comes
}

// NewDecoder returns a Decoder that holds bodies to the limits.
func NewDecoder(l Limits) *Decoder {
	d := &Decoder{limits: l}
	d.scan.depth = l.Depth
	d.scan.textLimit = textPerRecord * l.Record
	d.line.scan.depth = l.Depth
	d.line.scan.textLimit = jsonWithin
	d.pairs.limit = l.Keys
	d.path.limit = l.Key
	return d
}

// begin readies the decoder for a body.
func (d *Decoder) begin(body []byte, def Defaults, p protocol) {
	d.scan.body, d.scan.pos, d.scan.lastStr = body, 0, 0
	d.protocol = p
	d.app = def.Application
	d.now = def.Now.UnixNano()
	d.latest = def.Now.Add(maxAhead).UnixNano()
	d.oldest = oldestTime
	if !def.Oldest.IsZero() {
		d.oldest = def.Oldest.UnixNano()
	}
	d.start, d.rescans, d.lineEnd, d.seam = 0, 0, -1, -1
	d.stderrAs, d.untimed, d.joined = def.StderrAs, 0, 0
	d.result = Result{}
}

// end lets go of everything that is the caller's and of a buffer that one
// unusual body made large.
func (d *Decoder) end() Result {
	result := d.result
	if d.refused != nil {
		result = Result{refused: d.refused}
	}
	d.result, d.refused = Result{}, nil
	d.scan.release()
	d.line.scan.release()
	d.forgetSticky()
	d.pairs.release()
	d.fields = [fieldCount]field{}
	d.app, d.stderrAs, d.log, d.event = "", "", record.Log{}, record.Event{}
	d.emitLog, d.emitEvent = nil, nil
	return result
}

// reject notes that the entry at hand becomes no record.
func (d *Decoder) reject(code string, at int, detail string) {
	d.flush() // the pieces of a line are next to each other
	r := &d.result
	if len(r.Rejected) < max(1, d.limits.Rejections) {
		r.Rejected = append(r.Rejected, Rejection{Index: d.index(), Code: code, Detail: detail, Offset: int64(at), Start: int64(d.start), End: int64(d.scan.pos)})
	}
	r.RejectedTotal++
}

// index returns the number of the entry at hand, from 0.
func (d *Decoder) index() int { return d.result.Accepted + d.result.RejectedTotal + d.joined }

// rejectTo is told where reading goes on after an entry that was just rejected.
func (d *Decoder) rejectTo(end int) {
	if n := len(d.result.Rejected); n > 0 && n == d.result.RejectedTotal {
		last := &d.result.Rejected[n-1]
		last.End = max(int64(end), last.Start)
	}
}
