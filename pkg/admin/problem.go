package admin

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/logboom/logboom/pkg/clickhouse"
	"github.com/logboom/logboom/pkg/problem"
	"github.com/logboom/logboom/pkg/project"
	"github.com/logboom/logboom/pkg/telemetry"
)

const retryAfter = 2 * time.Second

// problemOf is the one place where errors become answers.
func problemOf(err error) problem.Problem {
	var field *fieldError
	var query *clickhouse.InvalidError
	var routing *echo.HTTPError
	switch {
	case errors.As(err, &field):
		return problem.Problem{Status: http.StatusBadRequest, Code: "invalid_field", Detail: field.Error(), Field: field.field}
	case errors.As(err, &query):
		return problem.Problem{Status: http.StatusBadRequest, Code: "invalid_field", Detail: query.Error(), Field: query.Field}
	case errors.Is(err, clickhouse.ErrTooExpensive):
		return problem.Problem{Status: http.StatusBadRequest, Code: "query_too_expensive", Detail: clickhouse.ErrTooExpensive.Error()}
	case errors.Is(err, errMissingKey):
		return problem.Problem{Status: http.StatusUnauthorized, Code: "missing_token", Detail: errMissingKey.Error()}
	case errors.Is(err, project.ErrUnknownKey):
		return problem.Problem{Status: http.StatusUnauthorized, Code: "invalid_token", Detail: "the API key is unknown or revoked"}
	case errors.Is(err, project.ErrNotFound):
		return problem.Problem{Status: http.StatusNotFound, Code: "not_found", Detail: "no such project"}
	case errors.As(err, &routing):
		return routingProblem(routing)
	}
	return serverProblem(err)
}

func routingProblem(err *echo.HTTPError) problem.Problem {
	if err.Code == http.StatusMethodNotAllowed {
		return problem.Problem{Status: err.Code, Code: "method_not_allowed", Detail: "the route does not take this method"}
	}
	return problem.Problem{Status: http.StatusNotFound, Code: "not_found", Detail: "no such route"}
}

func serverProblem(err error) problem.Problem {
	switch {
	case errors.Is(err, telemetry.ErrPanic):
		return problem.Problem{Status: http.StatusInternalServerError, Code: "internal_error", Detail: "the request could not be handled"}
	case errors.Is(err, project.ErrUnavailable):
		return problem.Problem{Status: http.StatusServiceUnavailable, Code: "queue_unavailable", Detail: "projects and keys could not be read", RetryAfter: retryAfter}
	case errors.Is(err, context.DeadlineExceeded):
		return problem.Problem{Status: http.StatusServiceUnavailable, Code: "query_timeout", Detail: "the question took too long; ask for a shorter time", RetryAfter: retryAfter}
	}
	return problem.Problem{Status: http.StatusServiceUnavailable, Code: "store_unavailable", Detail: "stored records could not be read", RetryAfter: retryAfter}
}

// answerError writes the problem that an error is. What is the server's own
// fault is logged; what is the asker's is counted only.
func (s *Server) answerError(err error, c echo.Context) {
	if c.Response().Committed {
		return
	}
	p, id := problemOf(err), telemetry.RequestID(c)
	telemetry.SetCode(c, p.Code)
	if p.Status >= http.StatusInternalServerError {
		s.deps.Logger.Warn("request refused", "code", p.Code, "request_id", id, "err", err)
	}
	if err := problem.Write(c.Response(), p, id); err != nil {
		s.deps.Logger.Debug("answer not sent", "request_id", id, "err", err)
	}
}
