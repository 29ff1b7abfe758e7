package ingest

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/logboom/logboom/pkg/decode"
	"github.com/logboom/logboom/pkg/stream"
)

// Burier keeps what cannot be stored, with the reason; stream.Topology does.
type Burier interface {
	Bury(ctx context.Context, letter stream.DeadLetter) error
}

const (
	// letterStream stands where a letter names the stream that its message was
	// on: an entry that was never a record has been on none.
	letterStream = "ingest"
	// maxLetterBytes is how much of a bad entry its letter holds.
	maxLetterBytes = 16 << 10
	// buryAtOnce is how many letters of a request are on their way together.
	buryAtOnce = 8
	// buryTimeout bounds all letters of one request.
	buryTimeout = 5 * time.Second
)

// bury counts the bad entries of a body whose good ones were taken, and keeps
// those that the result lists as dead letters. Their sender is told nothing, or
// he would send the whole body again for ever; so a letter that cannot be kept
// is lost, counted and logged.
func (s *Server) bury(ctx context.Context, r *request, body []byte, result decode.Result) {
	s.countRejected(r, result)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.burial)
	defer cancel()
	var group errgroup.Group
	group.SetLimit(buryAtOnce)
	for _, rejection := range result.Rejected {
		group.Go(func() error { return s.deps.Letters.Bury(ctx, s.letter(r, body, rejection)) })
	}
	if err := group.Wait(); err != nil {
		s.deps.Logger.Warn("bad entries not kept as dead letters", "project", r.identity.ProjectID, "err", err)
	}
}

// letter is the dead letter of a bad entry.
func (s *Server) letter(r *request, body []byte, rejection decode.Rejection) stream.DeadLetter {
	entry := body[rejection.Start:rejection.End]
	return stream.DeadLetter{
		Reason: rejection.Code,
		Stream: letterStream,
		Time:   s.deps.Now(),
		Data:   entry[:min(len(entry), maxLetterBytes)],
		Detail: fmt.Sprintf("project %s: event %d of a request, %d bytes: %s", r.identity.ProjectName, rejection.Index, len(entry), rejection.Detail),
	}
}

// countRejected adds the bad entries to what the project's usage shows as
// dropped. Of those that are not listed only the number is known; they count as
// the last that is.
func (s *Server) countRejected(r *request, result decode.Result) {
	unlisted := result.RejectedTotal - len(result.Rejected)
	for i, rejection := range result.Rejected {
		n := 1
		if i == len(result.Rejected)-1 {
			n += unlisted
		}
		s.drops.add(r.identity, rejection.Code, n, rejection.End-rejection.Start)
	}
}
