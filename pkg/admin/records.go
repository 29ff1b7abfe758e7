package admin

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/logboom/logboom/pkg/clickhouse"
	"github.com/logboom/logboom/pkg/decode"
)

// Bounds of a question.
const (
	defaultLimit = 100
	maxLimit     = 1000
	maxQuery     = 1024 // bytes of q
	maxCursor    = 256
)

// logs answers a page of a project's logs, newest first.
func (s *Server) logs(c echo.Context) error {
	found, err := s.authorize(c)
	if err != nil {
		return err
	}
	q, err := s.question(c)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(c.Request().Context(), s.cfg.QueryTimeout)
	defer cancel()
	page, err := s.deps.Reader.Logs(ctx, clickhouse.LogQuery{
		Project: found.ID, From: q.from, To: q.to, Contains: q.contains, Limit: q.limit, Cursor: q.cursor,
	})
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, page)
}

// events answers a page of a project's events, newest first.
func (s *Server) events(c echo.Context) error {
	found, err := s.authorize(c)
	if err != nil {
		return err
	}
	q, err := s.question(c)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(c.Request().Context(), s.cfg.QueryTimeout)
	defer cancel()
	page, err := s.deps.Reader.Events(ctx, clickhouse.EventQuery{
		Project: found.ID, From: q.from, To: q.to, Contains: q.contains, Limit: q.limit, Cursor: q.cursor,
	})
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, page)
}

// question is what the query parameters ask for.
type question struct {
	from, to         time.Time
	contains, cursor string
	limit            int
}

// fieldError says which parameter is wrong.
type fieldError struct {
	field, detail string
}

func (e *fieldError) Error() string { return e.field + ": " + e.detail }

func (s *Server) question(c echo.Context) (question, error) {
	q := question{contains: c.QueryParam("q"), cursor: c.QueryParam("cursor"), limit: defaultLimit}
	if len(q.contains) > maxQuery {
		return q, &fieldError{"q", "longer than " + strconv.Itoa(maxQuery) + " bytes"}
	}
	if len(q.cursor) > maxCursor {
		return q, &fieldError{"cursor", "not one that was given out"}
	}
	var err error
	if text := c.QueryParam("limit"); text != "" {
		q.limit, err = strconv.Atoi(text)
		if err != nil || q.limit < 1 || q.limit > maxLimit {
			return q, &fieldError{"limit", "not a number from 1 to " + strconv.Itoa(maxLimit)}
		}
	}
	if q.from, err = s.instant(c, "from"); err != nil {
		return q, err
	}
	if q.to, err = s.instant(c, "to"); err != nil {
		return q, err
	}
	if !q.from.IsZero() && !q.to.IsZero() && q.to.Before(q.from) {
		return q, &fieldError{"to", "before from"}
	}
	return q, nil
}

// instant reads a time parameter: RFC 3339, or the epoch in s, ms, us or ns;
// zero where it is not given.
func (s *Server) instant(c echo.Context, field string) (time.Time, error) {
	text := c.QueryParam(field)
	if text == "" {
		return time.Time{}, nil
	}
	nanoseconds, ok := decode.ParseTimestamp(text)
	if !ok {
		return time.Time{}, &fieldError{field, "neither an RFC 3339 time nor an epoch number"}
	}
	return time.Unix(0, nanoseconds).UTC(), nil
}
