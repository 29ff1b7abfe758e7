package ingest

import (
	"errors"
	"net/http"
	"os"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/logboom/logboom/pkg/decode"
	"github.com/logboom/logboom/pkg/problem"
	"github.com/logboom/logboom/pkg/project"
	"github.com/logboom/logboom/pkg/quota"
	"github.com/logboom/logboom/pkg/stream"
	"github.com/logboom/logboom/pkg/telemetry"
)

var (
	errMissingToken  = errors.New("no Authorization: Bearer token in the request")
	errWrongProject  = errors.New("the token is not of this project")
	errDraining      = errors.New("the server is stopping")
	errAuthorization = errors.New("the Authorization header is of no form that is taken here")
	errLongKey       = errors.New("Idempotency-Key: longer than 128 characters")
)

// codeAuthorization is of container logs only: their senders know several forms
// of the header.
const codeAuthorization = "invalid_authorization"

const retryAfter = 2 * time.Second

// problemOf is the one place where errors become answers.
func problemOf(err error) problem.Problem {
	var body *decode.Error
	var spent *quota.Exceeded
	var routing *echo.HTTPError
	switch {
	case errors.As(err, &body):
		return bodyProblem(body)
	case errors.As(err, &spent):
		return quotaProblem(spent)
	case errors.Is(err, errMissingToken):
		return problem.Problem{Status: http.StatusUnauthorized, Code: "missing_token", Detail: errMissingToken.Error()}
	case errors.Is(err, errAuthorization):
		return problem.Problem{Status: http.StatusUnauthorized, Code: codeAuthorization, Detail: errAuthorization.Error()}
	case errors.Is(err, project.ErrMalformed), errors.Is(err, project.ErrUnknownToken):
		return problem.Problem{Status: http.StatusUnauthorized, Code: "invalid_token", Detail: "the token is unknown, malformed or revoked"}
	case errors.Is(err, errWrongProject):
		return problem.Problem{Status: http.StatusForbidden, Code: "wrong_project", Detail: errWrongProject.Error()}
	case errors.Is(err, errLongKey):
		return problem.Problem{Status: http.StatusBadRequest, Code: "invalid_field", Detail: errLongKey.Error()}
	case errors.Is(err, os.ErrDeadlineExceeded):
		return problem.Problem{Status: http.StatusRequestTimeout, Code: "request_timeout", Detail: "the body did not arrive in time"}
	case errors.As(err, &routing):
		return problem.OfRoute(routing.Code)
	}
	return queueProblem(err)
}

// queueProblem is for what is not the sender's doing: try again.
func queueProblem(err error) problem.Problem {
	p := problem.Problem{Status: http.StatusServiceUnavailable, Code: "queue_unavailable", Detail: "the queue did not confirm the records", RetryAfter: retryAfter}
	switch {
	case errors.Is(err, errDraining), errors.Is(err, stream.ErrClosed):
		p.Code, p.Detail = "draining", errDraining.Error()
	case errors.Is(err, errBusy):
		p.Code, p.Detail = "queue_full", errBusy.Error()
	case errors.Is(err, stream.ErrFull), errors.Is(err, stream.ErrBusy):
		p.Code, p.Detail = "queue_full", "the queue takes no more records at present"
	case errors.Is(err, stream.ErrTooLarge):
		return problem.Problem{Status: http.StatusRequestEntityTooLarge, Code: decode.CodeBodyTooLarge, Detail: "the records are larger than a message of the queue may be"}
	case errors.Is(err, project.ErrUnavailable):
		p.Detail = "the token could not be checked"
	case errors.Is(err, telemetry.ErrPanic):
		return problem.Problem{Status: http.StatusInternalServerError, Code: "internal_error", Detail: "the request could not be handled"}
	}
	return p
}

func quotaProblem(spent *quota.Exceeded) problem.Problem {
	p := problem.Problem{
		Status: http.StatusTooManyRequests, Code: "quota_exceeded", Detail: "the project's quota " + string(spent.Quota) + " is spent",
		Quota:      &problem.Quota{Name: string(spent.Quota), Limit: spent.Limit, Remaining: spent.Remaining, Reset: spent.Reset.UTC()},
		RetryAfter: spent.RetryAfter,
	}
	if spent.Quota == quota.Rate {
		p.Code = "rate_limited"
	}
	return p
}

func bodyProblem(err *decode.Error) problem.Problem {
	p := problem.Problem{Status: http.StatusBadRequest, Code: err.Code, Detail: err.Detail}
	switch err.Code {
	case decode.CodeBodyTooLarge:
		p.Status = http.StatusRequestEntityTooLarge
	case decode.CodeUnsupportedEncoding:
		p.Status = http.StatusUnsupportedMediaType
	}
	if err.Index >= 0 {
		p.Index, p.Offset = &err.Index, &err.Offset
	}
	return p
}
