package ingest

import (
	"net/http"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/logboom/logboom/pkg/decode"
	"github.com/logboom/logboom/pkg/problem"
)

// hecCode is a number that senders of container logs know, from Splunk's
// "Troubleshoot HTTP Event Collector".
type hecCode int

// The codes in use. 1 (token disabled) is not: nobody can tell a revoked token
// from one that never was.
const (
	hecSuccess       hecCode = 0
	hecTokenRequired hecCode = 2
	hecAuthorization hecCode = 3
	hecInvalidToken  hecCode = 4
	hecNoData        hecCode = 5
	hecInvalidData   hecCode = 6
	hecInternal      hecCode = 8
	hecBusy          hecCode = 9
	hecEventRequired hecCode = 12
	hecEventBlank    hecCode = 13
	hecHealthy       hecCode = 17
	hecUnhealthy     hecCode = 18
	hecDraining      hecCode = 23
)

func (c hecCode) text() string {
	switch c {
	case hecSuccess:
		return "Success"
	case hecTokenRequired:
		return "Token is required"
	case hecAuthorization:
		return "Invalid authorization"
	case hecInvalidToken:
		return "Invalid token"
	case hecNoData:
		return "No data"
	case hecInvalidData:
		return "Invalid data format"
	case hecBusy:
		return "Server is busy"
	case hecEventRequired:
		return "Event field is required"
	case hecEventBlank:
		return "Event field cannot be blank"
	case hecHealthy:
		return "HEC is healthy"
	case hecUnhealthy:
		return "HEC is unhealthy, queues are full"
	case hecDraining:
		return "Server is shutting down"
	}
	return "Internal server error"
}

// append spells the answer's body, without its end, as Splunk does.
func (c hecCode) append(dst []byte) []byte {
	dst = append(dst, `{"text":"`...)
	dst = append(dst, c.text()...)
	dst = append(dst, `","code":`...)
	return strconv.AppendInt(dst, int64(c), 10)
}

// hecOf is what a problem is to a sender of container logs. Docker takes
// anything but 200 as "send it again later", so the statuses are for the others,
// which do drop what is answered with 4xx.
func hecOf(p problem.Problem) (status int, code hecCode) {
	switch p.Code {
	case "missing_token":
		return http.StatusUnauthorized, hecTokenRequired
	case codeAuthorization:
		return http.StatusUnauthorized, hecAuthorization
	case "invalid_token":
		return http.StatusForbidden, hecInvalidToken
	case decode.CodeEmptyBody:
		return http.StatusBadRequest, hecNoData
	case decode.CodeMissingField:
		return http.StatusBadRequest, hecEventRequired
	case decode.CodeInvalidField:
		if p.Index != nil { // otherwise it is of the head
			return http.StatusBadRequest, hecEventBlank
		}
	case "rate_limited", "quota_exceeded", "queue_full", "queue_unavailable":
		return http.StatusServiceUnavailable, hecBusy
	case "draining":
		return http.StatusServiceUnavailable, hecDraining
	case "internal_error":
		return http.StatusInternalServerError, hecInternal
	}
	return p.Status, hecInvalidData // damaged, too large, too slow, of an unknown compression, with too long a key
}

// writeHEC answers a problem as senders of container logs know it.
func writeHEC(w http.ResponseWriter, p problem.Problem, _ string) error {
	status, code := hecOf(p)
	if p.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int((p.RetryAfter+time.Second-1)/time.Second)))
	}
	if status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", "Splunk")
	}
	body := code.append(nil)
	if p.Index != nil {
		body = append(body, `,"invalid-event-number":`...)
		body = strconv.AppendInt(body, int64(*p.Index), 10)
	}
	return writeHECBody(w, status, append(body, '}'))
}

// hecAccepted answers that the queue has the events, in the very bytes that
// Splunk does.
func hecAccepted(c echo.Context, _ *request, _ decode.Result) error {
	return answerHEC(c.Response(), http.StatusOK, hecSuccess)
}

func answerHEC(w http.ResponseWriter, status int, code hecCode) error {
	return writeHECBody(w, status, append(code.append(nil), '}'))
}

func writeHECBody(w http.ResponseWriter, status int, body []byte) error {
	w.Header().Set(echo.HeaderContentType, "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, err := w.Write(body)
	return err
}
