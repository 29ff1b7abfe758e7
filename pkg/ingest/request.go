package ingest

import (
	"errors"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/logboom/logboom/pkg/decode"
	"github.com/logboom/logboom/pkg/record"
	"github.com/logboom/logboom/pkg/token"
)

const (
	// maxSectionBytes is where a body's rows continue in another section, so that
	// no message is too large for the queue. At 512 KiB one disk sync serves most
	// bytes, and a record of the largest size still fits beside it.
	maxSectionBytes = 512 << 10

	// keptBytes is the largest buffer that is reused. Larger ones are freed.
	keptBytes = 1 << 20
)

// request is the memory that one request uses: body, rows and answer. Later
// requests reuse it.
type request struct {
	identity token.Identity
	budget   *budget
	reserved int64 // of the budget
	decoder  *decode.Decoder
	body     []byte
	batches  []*record.Batch // one a section; only the first used belong to this request
	used     int
	encoded  []byte
	sections [][]byte
	answer   []byte
	kind     record.Kind
	notify   bool  // an event asks for a notification
	size     int64 // bytes of text in the records, as quotas count them
}

// newRequest takes a request's memory from the pool.
func (s *Server) newRequest(p *protocol, identity token.Identity) *request {
	r := p.requests.Get().(*request)
	r.kind, r.identity = p.kind, identity
	r.used, r.notify, r.size = 0, false, 0
	return r
}

// release returns the memory to the pool, unless a large body made it too large.
func (s *Server) release(p *protocol, r *request) {
	s.budget.release(r.reserved)
	r.reserved = 0
	if cap(r.body) > keptBytes || cap(r.encoded) > keptBytes || len(r.batches) > 2 {
		return
	}
	p.requests.Put(r)
}

// read returns the request's decompressed body, which is valid until release.
func (r *request) read(req *http.Request) ([]byte, error) {
	body, err := r.decoder.ReadBody(r.body[:0], req.Body, req.Header.Get("Content-Encoding"))
	if err != nil {
		return nil, err
	}
	r.body = body
	return body, nil
}

// decodeLogs turns the body into rows of logs.
func (r *request) decodeLogs(_ *http.Request, body []byte, now time.Time) decode.Result {
	return r.decoder.Logs(body, r.defaults(now), r.addLog)
}

// decodeEvents turns the body into rows of events.
func (r *request) decodeEvents(_ *http.Request, body []byte, now time.Time) decode.Result {
	return r.decoder.Events(body, r.defaults(now), r.addEvent)
}

func (r *request) defaults(now time.Time) decode.Defaults {
	retention := time.Duration(r.identity.RetentionDays) * 24 * time.Hour
	return decode.Defaults{Now: now, Application: r.identity.TokenName, Oldest: now.Add(-retention), StderrAs: r.identity.StderrAs}
}

func (r *request) addLog(l *record.Log) {
	size := l.Size()
	r.size += int64(size)
	r.batch(size).AppendLog(l)
}

func (r *request) addEvent(e *record.Event) {
	size := e.Size()
	r.size += int64(size)
	r.notify = r.notify || e.Notify
	r.batch(size).AppendEvent(e)
}

// batch returns the batch for the next record of this size: that of the last
// section, or of a new one if the last would become too large.
func (r *request) batch(size int) *record.Batch {
	if r.used > 0 {
		last := r.batches[r.used-1]
		if last.Size()+size <= maxSectionBytes {
			return last
		}
	}
	if r.used == len(r.batches) {
		r.batches = append(r.batches, new(record.Batch))
	}
	next := r.batches[r.used]
	next.Reset(r.kind, r.identity.ProjectID, r.identity.RetentionDays)
	r.used++
	return next
}

// parts returns the request's records as the queue stores them, one part a
// section. They are valid until release.
func (r *request) parts() [][]byte {
	r.encoded, r.sections = r.encoded[:0], r.sections[:0]
	ends := make([]int, 0, 8)
	for _, b := range r.batches[:r.used] {
		r.encoded = record.AppendBatch(r.encoded, b)
		ends = append(ends, len(r.encoded))
	}
	start := 0
	for _, end := range ends {
		r.sections = append(r.sections, r.encoded[start:end])
		start = end
	}
	return r.sections
}

// errBusy means that the requests in progress hold as much memory as they may.
var errBusy = errors.New("the server has no memory for another body now")

// bodyWeight is how many bytes a request holds for each byte of its body: the
// body itself, and the rows made of it.
const bodyWeight = 2

// budget bounds the memory of all requests together, so that many large bodies
// at once are refused instead of ending the process.
type budget struct {
	limit int64
	held  atomic.Int64
}

// newBudget returns a budget for bodies of limit bytes. It has room for one byte
// more, so that a body of more than limit bytes is refused as too large, and not
// with the advice to try again.
func newBudget(limit int64) *budget { return &budget{limit: limit + bodyWeight} }

// reserve reports whether there is room, and takes it.
func (b *budget) reserve(bytes int64) bool {
	if b.held.Add(bytes) <= b.limit {
		return true
	}
	b.held.Add(-bytes)
	return false
}

func (b *budget) release(bytes int64) { b.held.Add(-bytes) }

// reserve takes memory for a growing body. release returns it.
func (r *request) reserve(bytes int) error {
	n := int64(bytes) * bodyWeight
	if !r.budget.reserve(n) {
		return errBusy
	}
	r.reserved += n
	return nil
}
