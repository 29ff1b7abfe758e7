package ingest

import (
	"net/http"
	"time"

	"github.com/logboom/logboom/pkg/decode"
	"github.com/logboom/logboom/pkg/project"
	"github.com/logboom/logboom/pkg/record"
)

// maxSectionBytes is where a body's rows are cut into another section, so that
// no message outgrows the queue: 512 KiB is where one disk sync serves most
// bytes, and a single record of the largest size still fits beside it.
const maxSectionBytes = 512 << 10

// keptBytes is the largest buffer that goes back into the pool; what a huge
// body needed is given back to the runtime instead.
const keptBytes = 1 << 20

// request is the scratch memory of one request, reused by later ones: body,
// rows and answer live in it until the request is answered.
type request struct {
	identity project.Identity
	budget   *budget
	reserved int64 // of the budget
	decoder  *decode.Decoder
	body     []byte
	batches  []*record.Batch // one a section; only the first used are of this request
	used     int
	encoded  []byte
	sections [][]byte
	answer   []byte
	kind     record.Kind
	notify   bool  // an event wants people told
	size     int64 // bytes of text in the records, as quotas count them
}

func newRequest(limits decode.Limits, b *budget) *request {
	r := &request{budget: b, decoder: decode.NewDecoder(limits)}
	r.decoder.Reserve(r.reserve)
	return r
}

// take is a request's scratch memory, from the pool.
func (s *Server) take(p *protocol, identity project.Identity) *request {
	r := p.requests.Get().(*request)
	r.kind, r.identity = record.KindLog, identity
	if p.kind == record.KindEvent {
		r.kind = record.KindEvent
	}
	r.used, r.notify, r.size = 0, false, 0
	return r
}

// give returns the scratch memory, unless a huge body blew it up.
func (s *Server) give(p *protocol, r *request) {
	s.budget.give(r.reserved)
	r.reserved = 0
	if cap(r.body) > keptBytes || cap(r.encoded) > keptBytes || len(r.batches) > 2 {
		return
	}
	p.requests.Put(r)
}

// read is the request's body, decompressed; valid until the request is given
// back.
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
	return decode.Defaults{Now: now, Application: r.identity.TokenName, Oldest: now.Add(-retention(r.identity)), StderrAs: r.identity.StderrAs}
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

// batch is where the next record of the size goes: the last section, or a new
// one where that would outgrow its bound.
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

// parts is the request's records in the queue's form, a section each; valid
// until the request is given back.
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
