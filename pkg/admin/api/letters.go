package api

import (
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/logboom/logboom/pkg/problem"
	"github.com/logboom/logboom/pkg/stream"
)

// deadLetter is what is shown of a dead letter, without its content.
type deadLetter struct {
	ID     string    `json:"id"`
	Reason string    `json:"reason"`
	Stream string    `json:"stream"`
	Seq    uint64    `json:"seq"`
	Time   time.Time `json:"time"`
	Bytes  int       `json:"bytes"`
	Detail string    `json:"detail"`
}

// deadLetterPage is one page of dead letters, the oldest first.
type deadLetterPage struct {
	DeadLetters []deadLetter `json:"dead_letters"`
	Next        string       `json:"next"` // cursor of the next page, "" on the last
}

// replayedLetter is the result of a replay.
type replayedLetter struct {
	ID    string `json:"id"`
	State string `json:"state"`
}

func letterID(id uint64) string { return strconv.FormatUint(id, 10) }

func (a *API) listLetters(r *request) error {
	limit, err := readLimit(r)
	if err != nil {
		return err
	}
	after := uint64(0)
	if cursor := r.QueryParam("cursor"); cursor != "" {
		if after, err = strconv.ParseUint(cursor, 10, 63); err != nil {
			return errCursor
		}
	}
	found, err := a.service.DeadLetters(r.Request().Context(), after, limit)
	if err != nil {
		return err
	}
	page := deadLetterPage{DeadLetters: []deadLetter{}}
	for _, l := range found.Letters {
		page.DeadLetters = append(page.DeadLetters, deadLetter{
			ID: letterID(l.ID), Reason: l.Reason, Stream: l.Stream, Seq: l.Seq, Time: l.Time.UTC(), Bytes: l.Bytes, Detail: l.Detail,
		})
	}
	if found.Next != 0 {
		page.Next = letterID(found.Next)
	}
	return r.JSON(http.StatusOK, page)
}

func (a *API) replayLetter(r *request) error {
	id, err := strconv.ParseUint(r.Param("id"), 10, 63)
	if err != nil {
		return stream.ErrNoLetter
	}
	if err := a.service.ReplayDeadLetter(r.Request().Context(), r.caller, id); err != nil {
		return err
	}
	return r.JSON(http.StatusOK, replayedLetter{ID: letterID(id), State: "replayed"})
}

// letterProblem answers a dead letter that does not exist or could not be
// replayed. In each case it stays where it is.
func letterProblem(err error) (problem.Problem, bool) {
	switch {
	case errors.Is(err, stream.ErrNoLetter):
		return problem.Problem{Status: http.StatusNotFound, Code: "not_found", Detail: stream.ErrNoLetter.Error()}, true
	case errors.Is(err, stream.ErrNeverQueued):
		return problem.Problem{Status: http.StatusConflict, Code: "not_replayable", Detail: stream.ErrNeverQueued.Error()}, true
	case errors.Is(err, stream.ErrNotCommitted):
		return problem.Problem{Status: http.StatusConflict, Code: "not_settled", Detail: stream.ErrNotCommitted.Error() + ": try again later"}, true
	case errors.Is(err, stream.ErrNotRemoved):
		return problem.Problem{Status: http.StatusServiceUnavailable, Code: "not_removed", Detail: stream.ErrNotRemoved.Error()}, true
	case errors.Is(err, stream.ErrTooLarge):
		return problem.Problem{Status: http.StatusConflict, Code: "message_too_large", Detail: stream.ErrTooLarge.Error()}, true
	case errors.Is(err, stream.ErrFull):
		return problem.Problem{Status: http.StatusServiceUnavailable, Code: "queue_full", Detail: stream.ErrFull.Error(), RetryAfter: retryAfter}, true
	case errors.Is(err, stream.ErrUnavailable), errors.Is(err, stream.ErrBusy):
		return problem.Problem{Status: http.StatusServiceUnavailable, Code: "queue_unavailable",
			Detail:     "dead letters could not be read or replayed; a letter that was not replayed stays, and retrying at once stores nothing twice",
			RetryAfter: retryAfter}, true
	}
	return problem.Problem{}, false
}
