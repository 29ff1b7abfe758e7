package admin

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/logboom/logboom/pkg/clickhouse"
	"github.com/logboom/logboom/pkg/decode"
	"github.com/logboom/logboom/pkg/query"

	"github.com/logboom/logboom/pkg/record"
)

// maxCursor bounds a cursor, in bytes.
const maxCursor = 256

// logs answers a page of a project's logs, newest first.
func (s *Server) logs(r *request) error {
	q, err := readQuestion(r, record.KindLog)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(r.Request().Context(), s.cfg.QueryTimeout)
	defer cancel()
	page, err := s.deps.Reader.Logs(ctx, clickhouse.LogQuery{
		Project: r.project.ID, From: q.from, To: q.to, Filter: q.filter, Limit: q.limit, Cursor: q.cursor,
	})
	if err != nil {
		return err
	}
	return r.JSON(http.StatusOK, page)
}

// events answers a page of a project's events, newest first.
func (s *Server) events(r *request) error {
	q, err := readQuestion(r, record.KindEvent)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(r.Request().Context(), s.cfg.QueryTimeout)
	defer cancel()
	page, err := s.deps.Reader.Events(ctx, clickhouse.EventQuery{
		Project: r.project.ID, From: q.from, To: q.to, Filter: q.filter, Limit: q.limit, Cursor: q.cursor,
	})
	if err != nil {
		return err
	}
	return r.JSON(http.StatusOK, page)
}

// question is what the query parameters ask for.
type question struct {
	from, to time.Time
	filter   query.Query
	cursor   string
	limit    int
}

// fieldError says which parameter or field is wrong.
type fieldError struct {
	field, detail string
}

func (e *fieldError) Error() string { return e.field + ": " + e.detail }

func readQuestion(c echo.Context, kind record.Kind) (question, error) {
	q := question{cursor: c.QueryParam("cursor")}
	if len(q.cursor) > maxCursor {
		return q, &fieldError{"cursor", "not one that was given out"}
	}
	var err error
	if q.limit, err = readLimit(c); err != nil {
		return q, err
	}
	q.filter, q.from, q.to, err = readFilter(c, kind)
	return q, err
}

// readFilter reads what every question about records may name: a query and a
// time.
func readFilter(c echo.Context, kind record.Kind) (filter query.Query, from, to time.Time, err error) {
	text := c.QueryParam("q")
	if len(text) > query.MaxBytes {
		return filter, from, to, &fieldError{"q", "longer than " + strconv.Itoa(query.MaxBytes) + " bytes"}
	}
	if filter, err = query.Parse(kind, text); err != nil {
		return filter, from, to, err
	}
	from, to, err = between(c)
	return filter, from, to, err
}

// readNumber reads a whole number of a parameter.
func readNumber(c echo.Context, field string, otherwise, least, most int) (int, error) {
	text := c.QueryParam(field)
	if text == "" {
		return otherwise, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < least || n > most {
		return 0, &fieldError{field, "not a number from " + strconv.Itoa(least) + " to " + strconv.Itoa(most)}
	}
	return n, nil
}

// between reads the time that a question is about; zero bounds are not given.
func between(c echo.Context) (from, to time.Time, err error) {
	if from, err = instant(c, "from"); err != nil {
		return from, to, err
	}
	if to, err = instant(c, "to"); err != nil {
		return from, to, err
	}
	if !from.IsZero() && !to.IsZero() && to.Before(from) {
		return from, to, &fieldError{"to", "before from"}
	}
	return from, to, nil
}

// instant reads a time parameter: RFC 3339, or the epoch in s, ms, us or ns;
// zero where it is not given.
func instant(c echo.Context, field string) (time.Time, error) {
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
