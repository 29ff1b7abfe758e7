package api

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/logboom/logboom/pkg/admin"
	"github.com/logboom/logboom/pkg/clickhouse"
	"github.com/logboom/logboom/pkg/kv"
	"github.com/logboom/logboom/pkg/people"
	"github.com/logboom/logboom/pkg/problem"
	"github.com/logboom/logboom/pkg/project"
	"github.com/logboom/logboom/pkg/query"
	"github.com/logboom/logboom/pkg/stream"
	"github.com/logboom/logboom/pkg/telemetry"
)

const retryAfter = 2 * time.Second

// problemOf returns the answer to an error. It is the one place that chooses
// status codes.
func problemOf(err error) problem.Problem {
	var routing *echo.HTTPError
	if errors.As(err, &routing) {
		return problem.OfRoute(routing.Code)
	}
	if p, ok := invalidProblem(err); ok {
		return p
	}
	for _, known := range []struct {
		err        error
		status     int
		code       string
		detail     string // "": the text of the error
		retryAfter time.Duration
	}{
		{err: errBodyCut, status: http.StatusBadRequest, code: "invalid_json"},
		{err: errBodyEmpty, status: http.StatusBadRequest, code: "empty_body"},
		{err: errBodyTooLarge, status: http.StatusRequestEntityTooLarge, code: "body_too_large"},
		{err: errEncoded, status: http.StatusUnsupportedMediaType, code: "unsupported_encoding"},
		{err: errBodySlow, status: http.StatusRequestTimeout, code: "request_timeout"},

		{err: errMissingKey, status: http.StatusUnauthorized, code: "missing_token"},
		{err: people.ErrUnknownKey, status: http.StatusUnauthorized, code: "invalid_token", detail: "the API key is unknown or revoked"},
		{err: admin.ErrForbidden, status: http.StatusForbidden, code: "forbidden", detail: "the API key's role does not allow this"},
		{err: admin.ErrNoToken, status: http.StatusNotFound, code: "not_found"},
		{err: project.ErrNotFound, status: http.StatusNotFound, code: "not_found", detail: "no such project"},
		{err: clickhouse.ErrNoLog, status: http.StatusNotFound, code: "not_found"},
		{err: project.ErrNameTaken, status: http.StatusConflict, code: "name_taken", detail: "there is a project with this name"},
		{err: project.ErrFull, status: http.StatusConflict, code: "limit_reached"},
		{err: clickhouse.ErrTooExpensive, status: http.StatusBadRequest, code: "query_too_expensive"},

		{err: stream.ErrNoLetter, status: http.StatusNotFound, code: "not_found"},
		{err: stream.ErrNeverQueued, status: http.StatusConflict, code: "not_replayable"},
		{err: stream.ErrNotCommitted, status: http.StatusConflict, code: "not_settled", detail: stream.ErrNotCommitted.Error() + ": try again later"},
		{err: stream.ErrNotRemoved, status: http.StatusServiceUnavailable, code: "not_removed"},
		{err: stream.ErrTooLarge, status: http.StatusConflict, code: "message_too_large"},
		{err: stream.ErrFull, status: http.StatusServiceUnavailable, code: "queue_full", retryAfter: retryAfter},
		{err: stream.ErrUnavailable, status: http.StatusServiceUnavailable, code: "queue_unavailable", detail: lettersUnavailable, retryAfter: retryAfter},
		{err: stream.ErrBusy, status: http.StatusServiceUnavailable, code: "queue_unavailable", detail: lettersUnavailable, retryAfter: retryAfter},

		{err: telemetry.ErrPanic, status: http.StatusInternalServerError, code: "internal_error", detail: "the request could not be handled"},
		{err: project.ErrUnavailable, status: http.StatusServiceUnavailable, code: "queue_unavailable", detail: projectsUnavailable, retryAfter: retryAfter},
		{err: kv.ErrUnavailable, status: http.StatusServiceUnavailable, code: "queue_unavailable", detail: projectsUnavailable, retryAfter: retryAfter},
		{err: project.ErrNoKey, status: http.StatusServiceUnavailable, code: "secret_key_missing", detail: "webhook addresses are stored encrypted, and the server has no key for them: set LOGBOOM_SECRET_KEY"},
		{err: admin.ErrTailsFull, status: http.StatusServiceUnavailable, code: "too_many_tails", retryAfter: retryAfter},
		{err: context.DeadlineExceeded, status: http.StatusServiceUnavailable, code: "query_timeout", detail: "the query took too long; ask for a shorter time", retryAfter: retryAfter},
	} {
		if errors.Is(err, known.err) {
			return problem.Problem{Status: known.status, Code: known.code, Detail: cmp.Or(known.detail, known.err.Error()), RetryAfter: known.retryAfter}
		}
	}
	return problem.Problem{Status: http.StatusServiceUnavailable, Code: "store_unavailable", Detail: "stored records could not be read", RetryAfter: retryAfter}
}

const (
	lettersUnavailable  = "dead letters could not be read or replayed; a letter that was not replayed stays, and retrying at once stores nothing twice"
	projectsUnavailable = "projects and keys could not be read or changed"
)

// invalidProblem answers a parameter, a field, a query or a body that is wrong.
// The offset is the byte at which it is wrong.
func invalidProblem(err error) (problem.Problem, bool) {
	p := problem.Problem{Status: http.StatusBadRequest, Code: "invalid_field"}
	var field *fieldError
	var parameter *clickhouse.InvalidError
	var invalid *project.InvalidError
	var missing *missingError
	var bad *query.Error
	var syntax *syntaxError
	switch {
	case errors.As(err, &field):
		p.Field, p.Detail = field.field, field.Error()
	case errors.As(err, &parameter):
		p.Field, p.Detail = parameter.Field, parameter.Error()
	case errors.As(err, &invalid):
		p.Field, p.Detail = invalid.Field, invalid.Error()
	case errors.As(err, &missing):
		p.Field, p.Detail, p.Code = missing.field, missing.Error(), "missing_field"
	case errors.As(err, &bad):
		offset := int64(bad.Position)
		p.Field, p.Detail, p.Code, p.Offset = "q", bad.Error(), "invalid_query", &offset
	case errors.As(err, &syntax):
		p.Detail, p.Code, p.Offset = syntax.Error(), "invalid_json", &syntax.offset
	default:
		return p, false
	}
	return p, true
}

// AnswerError writes the problem that answers an error; it is the server's
// echo.HTTPErrorHandler. Only errors of the server are logged.
func (a *API) AnswerError(err error, c echo.Context) {
	if c.Response().Committed {
		return
	}
	p, id := problemOf(err), telemetry.RequestID(c)
	telemetry.SetCode(c, p.Code)
	if p.Status >= http.StatusInternalServerError {
		a.logger.Warn("request refused", "code", p.Code, "request_id", id, "err", err)
	}
	if err := problem.Write(c.Response(), p, id); err != nil {
		a.logger.Debug("answer not sent", "request_id", id, "err", err)
	}
}
