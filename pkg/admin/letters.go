package admin

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/logboom/logboom/pkg/problem"
	"github.com/logboom/logboom/pkg/project"
	"github.com/logboom/logboom/pkg/stream"
)

// Letters are the messages that could not be stored; stream.Letters are.
type Letters interface {
	List(ctx context.Context, after uint64, limit int) (stream.LetterPage, error)
	Replay(ctx context.Context, id uint64) (stream.Ack, error)
}

// noLetters stands where the service was given none.
type noLetters struct{}

func (noLetters) List(context.Context, uint64, int) (stream.LetterPage, error) {
	return stream.LetterPage{}, stream.ErrUnavailable
}

func (noLetters) Replay(context.Context, uint64) (stream.Ack, error) {
	return stream.Ack{}, stream.ErrUnavailable
}

// deadLetter is what is shown of a letter: never what it holds.
type deadLetter struct {
	ID     string    `json:"id"`
	Reason string    `json:"reason"`
	Stream string    `json:"stream"`
	Seq    uint64    `json:"seq"`
	Time   time.Time `json:"time"`
	Bytes  int       `json:"bytes"`
	Detail string    `json:"detail"`
}

// deadLetterPage is one page of letters, the oldest first.
type deadLetterPage struct {
	DeadLetters []deadLetter `json:"dead_letters"`
	Next        string       `json:"next"` // cursor of the next page, "" when this is the last
}

// replayedLetter is what became of a letter.
type replayedLetter struct {
	ID    string `json:"id"`
	State string `json:"state"`
}

// letterID is a letter's place as it is shown and asked for.
func letterID(id uint64) string { return strconv.FormatUint(id, 10) }

func (s *Server) listLetters(r *request) error {
	limit, err := readLimit(r)
	if err != nil {
		return err
	}
	after := uint64(0)
	if cursor := r.QueryParam("cursor"); cursor != "" {
		if after, err = strconv.ParseUint(cursor, 10, 63); err != nil {
			return &fieldError{"cursor", "not one that was given out"}
		}
	}
	found, err := s.deps.Letters.List(r.Request().Context(), after, limit)
	if err != nil {
		return err
	}
	page := deadLetterPage{DeadLetters: []deadLetter{}}
	for _, l := range found.Letters {
		page.DeadLetters = append(page.DeadLetters, shownLetter(l))
	}
	if found.Next != 0 {
		page.Next = letterID(found.Next)
	}
	return r.JSON(http.StatusOK, page)
}

func shownLetter(l stream.Letter) deadLetter {
	return deadLetter{
		ID: letterID(l.ID), Reason: l.Reason, Stream: l.Stream, Seq: l.Seq, Time: l.Time.UTC(), Bytes: l.Bytes, Detail: l.Detail,
	}
}

func (s *Server) replayLetter(r *request) error {
	id, err := strconv.ParseUint(r.Param("id"), 10, 63)
	if err != nil {
		return stream.ErrNoLetter
	}
	ctx, cancel := r.changing()
	defer cancel()
	_, err = s.deps.Letters.Replay(ctx, id)
	if err != nil && !errors.Is(err, stream.ErrNotRemoved) {
		return err
	}
	s.changed(r, LetterReplayed, project.Project{}, letterID(id))
	if err != nil {
		return err
	}
	return r.JSON(http.StatusOK, replayedLetter{ID: letterID(id), State: "replayed"})
}

// letterProblem is a letter that is not there or could not be replayed. In each
// case it stays where it is.
func letterProblem(err error) (problem.Problem, bool) {
	switch {
	case errors.Is(err, stream.ErrNoLetter):
		return problem.Problem{Status: http.StatusNotFound, Code: "not_found", Detail: stream.ErrNoLetter.Error()}, true
	case errors.Is(err, stream.ErrNeverQueued):
		return problem.Problem{Status: http.StatusConflict, Code: "not_replayable", Detail: stream.ErrNeverQueued.Error()}, true
	case errors.Is(err, stream.ErrUnsettled):
		return problem.Problem{Status: http.StatusConflict, Code: "not_settled", Detail: stream.ErrUnsettled.Error() + ": try again later"}, true
	case errors.Is(err, stream.ErrNotRemoved):
		return problem.Problem{Status: http.StatusServiceUnavailable, Code: "not_removed", Detail: stream.ErrNotRemoved.Error()}, true
	case errors.Is(err, stream.ErrTooLarge):
		return problem.Problem{Status: http.StatusConflict, Code: "message_too_large", Detail: stream.ErrTooLarge.Error()}, true
	case errors.Is(err, stream.ErrFull):
		return problem.Problem{Status: http.StatusServiceUnavailable, Code: "queue_full", Detail: stream.ErrFull.Error(), RetryAfter: retryAfter}, true
	case errors.Is(err, stream.ErrUnavailable), errors.Is(err, stream.ErrBusy):
		return problem.Problem{Status: http.StatusServiceUnavailable, Code: "queue_unavailable",
			Detail:     "dead letters could not be read or replayed; what could not be stays among them, and repeating it at once stores nothing twice",
			RetryAfter: retryAfter}, true
	}
	return problem.Problem{}, false
}
