// Package decode turns HTTP bodies into records. It has one file a protocol, and
// one set of limits on size, compression, depth and text for all of them.
//
// ingest authenticates a request, calls this package and answers; record encodes
// the result for the queue. A newcomer might keep a record that emit was called
// with: the record and its strings point into the body and the Decoder, and are
// valid only until emit returns.
package decode

import (
	"fmt"
	"time"

	"github.com/logboom/logboom/pkg/record"
)

// Codes of errors and rejections. They are part of the HTTP API.
const (
	CodeInvalidJSON         = "invalid_json"         // not JSON, or not the expected shape
	CodeInvalidProtobuf     = "invalid_protobuf"     // not protobuf, or not the expected message
	CodeMissingField        = "missing_field"        // a required field is missing
	CodeInvalidField        = "invalid_field"        // a field has an invalid value
	CodeEmptyBody           = "empty_body"           // the body has no entry
	CodeBodyTooLarge        = "body_too_large"       // the body, or one record, is over its limit
	CodeUnsupportedEncoding = "unsupported_encoding" // an unknown Content-Encoding
)

// Limits bound what one body may cost. All but Body count decoded bytes.
type Limits struct {
	Body       int64 // bytes as sent
	Decoded    int64 // bytes of the decompressed body
	Record     int   // bytes of text in one record, as record.Log.Size counts them
	Keys       int   // metadata keys or tags of one record; more are dropped and counted
	Key        int   // bytes of a key; longer keys are cut and marked
	Value      int   // bytes of a value or a name; longer texts are cut and marked
	Depth      int   // nested objects and arrays, counting the record itself
	Rejections int   // rejections listed with their details; more are only counted
}

// DefaultLimits returns the limits of Logboom's own routes.
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

// Defaults are what a record gets if the client does not say otherwise.
type Defaults struct {
	Now         time.Time // the time of receipt; later timestamps are limited to ten minutes after it
	Application string
	Oldest      time.Time // earlier timestamps are moved here; zero means no limit
	StderrAs    string    // the severity of a container's lines on stderr that name none; may be empty
}

// Error says why a body gave no record. It never quotes the body.
type Error struct {
	Code   string
	Index  int   // of the entry, from 0; -1 for the whole body
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
	Index  int    `json:"index"` // of the entry, from 0; blank lines do not count
	Code   string `json:"code"`
	Detail string `json:"detail"`
	Offset int64  `json:"offset"` // bytes into the decoded body
	Start  int64  `json:"-"`      // where the entry begins there
	End    int64  `json:"-"`      // where the unusable part of it ends
}

// Result says what became of a body's entries.
type Result struct {
	Accepted      int
	Rejected      []Rejection // the first Limits.Rejections of them
	RejectedTotal int
	Timed         bool // the client gave every record a time; HEC only

	refused    error // why the whole body is refused
	mayBeEmpty bool  // a body without entries is valid
}

// Err returns nil if a record was accepted. Otherwise it returns an *Error: that
// of the first rejection, or empty_body if the body has no entry.
func (r Result) Err() error {
	if r.refused != nil {
		return r.refused
	}
	if r.Accepted > 0 || r.mayBeEmpty && r.RejectedTotal == 0 {
		return nil
	}
	if len(r.Rejected) == 0 {
		return &Error{Code: CodeEmptyBody, Index: -1, Detail: "the body has no entry"}
	}
	first := r.Rejected[0]
	return &Error{Code: first.Code, Index: first.Index, Offset: first.Offset, Detail: first.Detail}
}

// Decoder decodes one body after another and reuses its buffers and decompressors:
// keep some in a pool. A Decoder is for one goroutine at a time.
type Decoder struct {
	limits Limits
	bodies decompressors

	scan     scanner
	pairs    pairSet
	path     keyPath
	fields   [fieldCount]field
	protocol protocol
	now      int64 // Unix nanoseconds, like the two fields below
	oldest   int64
	latest   int64
	app      string
	start    int   // where the current entry begins
	timed    bool  // the client gave the current record a time
	rescans  int   // bytes that were read again after errors
	lineEnd  int   // where the line ends in which the last broken entry began
	adjacent int   // where the first object after that entry begins right behind another
	refused  error // why the whole body is refused; what was emitted is then discarded
	result   Result

	log       record.Log
	event     record.Event
	emitLog   func(*record.Log)
	emitEvent func(*record.Event)

	// For container logs only.
	line      levelFinder
	inherited [len(inheritedFields)]inherited
	pieces    [outputs]pieces
	stderrAs  string
	others    bool // the current event has other keys than those of a line
	untimed   int  // logs without a time from the client
	joined    int  // entries that became part of another entry's log

	otlp *otlp // nil until the first OpenTelemetry body
}

// NewDecoder returns a Decoder with these limits.
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

// begin prepares the decoder for a body.
func (d *Decoder) begin(body []byte, def Defaults, p protocol) {
	d.scan.body, d.scan.pos = body, 0
	d.protocol = p
	d.app = def.Application
	d.now = def.Now.UnixNano()
	d.latest = def.Now.Add(maxAhead).UnixNano()
	d.oldest = oldestTime
	if !def.Oldest.IsZero() {
		d.oldest = def.Oldest.UnixNano()
	}
	d.start, d.rescans, d.lineEnd, d.adjacent = 0, 0, -1, -1
	d.stderrAs, d.untimed, d.joined = def.StderrAs, 0, 0
	d.result = Result{}
}

// end returns the result. It drops all references to the caller's memory and the
// buffers that an unusual body made large.
func (d *Decoder) end() Result {
	result := d.result
	if d.refused != nil {
		result = Result{refused: d.refused}
	}
	d.result, d.refused = Result{}, nil
	d.scan.release()
	d.line.scan.release()
	d.clearInherited()
	d.pairs.release()
	d.fields = [fieldCount]field{}
	d.app, d.stderrAs, d.log, d.event = "", "", record.Log{}, record.Event{}
	d.emitLog, d.emitEvent = nil, nil
	return result
}

// reject records that the current entry becomes no record.
func (d *Decoder) reject(code string, at int, detail string) {
	d.flush() // pieces of one line have no other entry between them
	r := &d.result
	if len(r.Rejected) < max(1, d.limits.Rejections) {
		r.Rejected = append(r.Rejected, Rejection{Index: d.index(), Code: code, Detail: detail, Offset: int64(at), Start: int64(d.start), End: int64(d.scan.pos)})
	}
	r.RejectedTotal++
}

// index returns the number of the current entry, from 0.
func (d *Decoder) index() int { return d.result.Accepted + d.result.RejectedTotal + d.joined }

// rejectTo sets where the entry ends that was just rejected.
func (d *Decoder) rejectTo(end int) {
	if n := len(d.result.Rejected); n > 0 && n == d.result.RejectedTotal {
		last := &d.result.Rejected[n-1]
		last.End = max(int64(end), last.Start)
	}
}
