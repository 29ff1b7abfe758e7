package api

import (
	"net/http"
	"strconv"
	"time"

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
