package api

import (
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
	for _, class := range []func(error) (problem.Problem, bool){fieldProblem, queryProblem, bodyProblem, callerProblem, letterProblem} {
		if p, ok := class(err); ok {
			return p
		}
	}
	return serverProblem(err)
}

// fieldProblem answers a parameter or field that is missing or wrong.
func fieldProblem(err error) (problem.Problem, bool) {
	p := problem.Problem{Status: http.StatusBadRequest, Code: "invalid_field", Detail: err.Error()}
	var field *fieldError
	var query *clickhouse.InvalidError
	var invalid *project.InvalidError
	var missing *missingError
	switch {
	case errors.As(err, &field):
		p.Field, p.Detail = field.field, field.Error()
	case errors.As(err, &query):
		p.Field, p.Detail = query.Field, query.Error()
	case errors.As(err, &invalid):
		p.Field, p.Detail = invalid.Field, invalid.Error()
	case errors.As(err, &missing):
		p.Field, p.Detail, p.Code = missing.field, missing.Error(), "missing_field"
	default:
		return p, false
	}
	return p, true
}

// queryProblem answers a text that is not a query. The offset is the byte at
// which the text is wrong.
func queryProblem(err error) (problem.Problem, bool) {
	var bad *query.Error
	if !errors.As(err, &bad) {
		return problem.Problem{}, false
	}
	offset := int64(bad.Position)
	return problem.Problem{Status: http.StatusBadRequest, Code: "invalid_query", Field: "q", Detail: bad.Error(), Offset: &offset}, true
}

// bodyProblem answers a body that cannot be read.
func bodyProblem(err error) (problem.Problem, bool) {
	p := problem.Problem{Status: http.StatusBadRequest, Code: "invalid_json", Detail: err.Error()}
	var syntax *syntaxError
	switch {
	case errors.As(err, &syntax):
		p.Offset = &syntax.offset
	case errors.Is(err, errBodyCut):
	case errors.Is(err, errBodyEmpty):
		p.Code = "empty_body"
	case errors.Is(err, errBodyTooLarge):
		p.Status, p.Code = http.StatusRequestEntityTooLarge, "body_too_large"
	case errors.Is(err, errEncoded):
		p.Status, p.Code = http.StatusUnsupportedMediaType, "unsupported_encoding"
	case errors.Is(err, errBodySlow):
		p.Status, p.Code = http.StatusRequestTimeout, "request_timeout"
	default:
		return p, false
	}
	return p, true
}

// callerProblem answers a valid request that cannot be carried out.
func callerProblem(err error) (problem.Problem, bool) {
	switch {
	case errors.Is(err, errMissingKey):
		return problem.Problem{Status: http.StatusUnauthorized, Code: "missing_token", Detail: errMissingKey.Error()}, true
	case errors.Is(err, people.ErrUnknownKey):
		return problem.Problem{Status: http.StatusUnauthorized, Code: "invalid_token", Detail: "the API key is unknown or revoked"}, true
	case errors.Is(err, admin.ErrForbidden):
		return problem.Problem{Status: http.StatusForbidden, Code: "forbidden", Detail: "the API key's role does not allow this"}, true
	case errors.Is(err, admin.ErrNoToken):
		return problem.Problem{Status: http.StatusNotFound, Code: "not_found", Detail: admin.ErrNoToken.Error()}, true
	case errors.Is(err, project.ErrNotFound):
		return problem.Problem{Status: http.StatusNotFound, Code: "not_found", Detail: "no such project"}, true
	case errors.Is(err, clickhouse.ErrNoLog):
		return problem.Problem{Status: http.StatusNotFound, Code: "not_found", Detail: clickhouse.ErrNoLog.Error()}, true
	case errors.Is(err, project.ErrNameTaken):
		return problem.Problem{Status: http.StatusConflict, Code: "name_taken", Detail: "there is a project with this name"}, true
	case errors.Is(err, project.ErrFull):
		return problem.Problem{Status: http.StatusConflict, Code: "limit_reached", Detail: project.ErrFull.Error()}, true
	case errors.Is(err, clickhouse.ErrTooExpensive):
		return problem.Problem{Status: http.StatusBadRequest, Code: "query_too_expensive", Detail: clickhouse.ErrTooExpensive.Error()}, true
	}
	return problem.Problem{}, false
}

func serverProblem(err error) problem.Problem {
	switch {
	case errors.Is(err, telemetry.ErrPanic):
		return problem.Problem{Status: http.StatusInternalServerError, Code: "internal_error", Detail: "the request could not be handled"}
	case errors.Is(err, project.ErrUnavailable), errors.Is(err, kv.ErrUnavailable):
		return problem.Problem{Status: http.StatusServiceUnavailable, Code: "queue_unavailable", Detail: "projects and keys could not be read or changed", RetryAfter: retryAfter}
	case errors.Is(err, project.ErrNoKey):
		return problem.Problem{Status: http.StatusServiceUnavailable, Code: "secret_key_missing", Detail: "webhook addresses are stored encrypted, and the server has no key for them: set LOGBOOM_SECRET_KEY"}
	case errors.Is(err, admin.ErrTailsFull):
		return problem.Problem{Status: http.StatusServiceUnavailable, Code: "too_many_tails", Detail: admin.ErrTailsFull.Error(), RetryAfter: retryAfter}
	case errors.Is(err, context.DeadlineExceeded):
		return problem.Problem{Status: http.StatusServiceUnavailable, Code: "query_timeout", Detail: "the query took too long; ask for a shorter time", RetryAfter: retryAfter}
	}
	return problem.Problem{Status: http.StatusServiceUnavailable, Code: "store_unavailable", Detail: "stored records could not be read", RetryAfter: retryAfter}
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
