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
	"github.com/logboom/logboom/pkg/token"
)

var (
	errMissingToken  = errors.New("the request has no Authorization: Bearer token")
	errWrongProject  = errors.New("the token belongs to another project")
	errDraining      = errors.New("the server is stopping")
	errAuthorization = errors.New("the Authorization header has an unknown form")
	errLongKey       = errors.New("the Idempotency-Key is longer than 128 characters")
)

// codeAuthorization is for container logs only: their clients use several forms
// of the header.
const codeAuthorization = "invalid_authorization"

const retryAfter = 2 * time.Second

// answerError answers with the problem that an error stands for, in the
// protocol's form. It logs the server's own errors; the client's are only
// counted.
func (s *Server) answerError(err error, c echo.Context) {
	if c.Response().Committed {
		return
	}
	p, id := problemOf(err), telemetry.RequestID(c)
	telemetry.SetCode(c, p.Code)
	if p.Status >= http.StatusInternalServerError && p.Code != "draining" {
		s.deps.Logger.Warn("request refused", "code", p.Code, "request_id", id, "err", err)
	}
	refuse := problem.Write
	if used, ok := c.Get(protocolKey).(*protocol); ok {
		refuse = used.refuse
	}
	if err := refuse(c.Response(), p, id); err != nil {
		s.deps.Logger.Debug("answer not sent", "request_id", id, "err", err)
	}
}

// problemOf returns the problem that an error stands for. No other function
// chooses a status.
func problemOf(err error) problem.Problem {
	var body *decode.Error
	var exceeded *quota.Exceeded
	var routing *echo.HTTPError
	switch {
	case errors.As(err, &body):
		return bodyProblem(body)
	case errors.As(err, &exceeded):
		return quotaProblem(exceeded)
	case errors.Is(err, errMissingToken):
		return problem.Problem{Status: http.StatusUnauthorized, Code: "missing_token", Detail: errMissingToken.Error()}
	case errors.Is(err, errAuthorization):
		return problem.Problem{Status: http.StatusUnauthorized, Code: codeAuthorization, Detail: errAuthorization.Error()}
	case errors.Is(err, token.ErrMalformed), errors.Is(err, token.ErrUnknown):
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

// queueProblem returns the problem of an error that is not the client's fault: it
// should try again.
func queueProblem(err error) problem.Problem {
	p := problem.Problem{Status: http.StatusServiceUnavailable, Code: "queue_unavailable", Detail: "the queue did not confirm the records", RetryAfter: retryAfter}
	switch {
	case errors.Is(err, errDraining), errors.Is(err, stream.ErrClosed):
		p.Code, p.Detail = "draining", errDraining.Error()
	case errors.Is(err, errBusy):
		p.Code, p.Detail = "queue_full", errBusy.Error()
	case errors.Is(err, stream.ErrFull), errors.Is(err, stream.ErrBusy):
		p.Code, p.Detail = "queue_full", "the queue accepts no more records now"
	case errors.Is(err, stream.ErrTooLarge):
		return problem.Problem{Status: http.StatusRequestEntityTooLarge, Code: decode.CodeBodyTooLarge, Detail: "the records are larger than a message on the queue may be"}
	case errors.Is(err, project.ErrUnavailable):
		p.Detail = "the token could not be checked"
	case errors.Is(err, telemetry.ErrPanic):
		return problem.Problem{Status: http.StatusInternalServerError, Code: "internal_error", Detail: "the request could not be handled"}
	}
	return p
}

func quotaProblem(e *quota.Exceeded) problem.Problem {
	p := problem.Problem{
		Status: http.StatusTooManyRequests, Code: "quota_exceeded", Detail: "the project's quota " + string(e.Quota) + " is used up",
		Quota:      &problem.Quota{Name: string(e.Quota), Limit: e.Limit, Remaining: e.Remaining, Reset: e.Reset.UTC()},
		RetryAfter: e.RetryAfter,
	}
	if e.Quota == quota.Rate {
		p.Code = "rate_limited"
	}
	return p
}

// isExceeded reports whether err is an exceeded quota.
func isExceeded(err error) bool {
	var exceeded *quota.Exceeded
	return errors.As(err, &exceeded)
}

// dropReason returns the name of the quota that an error is about.
func dropReason(err error) string {
	var exceeded *quota.Exceeded
	if errors.As(err, &exceeded) {
		return string(exceeded.Quota)
	}
	return "quota"
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
