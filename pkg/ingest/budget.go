package ingest

import (
	"errors"
	"sync/atomic"
)

// errBusy says that the process holds as many bodies as it may.
var errBusy = errors.New("the server holds as many bodies as it has room for")

// bodyWeight is how many bytes a request holds for each byte of its body: the
// body itself, and the rows that it becomes.
const bodyWeight = 2

// budget bounds the memory of all requests together, so that many large bodies
// at once are refused rather than end the process.
type budget struct {
	limit int64
	held  atomic.Int64
}

// newBudget has room for bodies of limit bytes, and for the one byte more that
// tells a body that is too large: it is to be refused for that and not as if it
// could come later.
func newBudget(limit int64) *budget { return &budget{limit: limit + bodyWeight} }

// take asks for room; false: there is none.
func (b *budget) take(bytes int64) bool {
	if b.held.Add(bytes) <= b.limit {
		return true
	}
	b.held.Add(-bytes)
	return false
}

func (b *budget) give(bytes int64) { b.held.Add(-bytes) }

// reserve takes room for a body that grows; it is given back with the request.
func (r *request) reserve(bytes int) error {
	n := int64(bytes) * bodyWeight
	if !r.budget.take(n) {
		return errBusy
	}
	r.reserved += n
	return nil
}
