// Package problem is the form of an error's answer, RFC 9457's
// application/problem+json with a stable code, the same from every service.
//
// Each service decides in one function of its own which error is which
// problem. What a newcomer would get wrong: a problem goes to whoever sent the
// request, so it holds no token, no payload and no address of an engine.
package problem

import (
	"encoding/json"
	"net/http"
	"strconv"
	"time"
)

// ContentType is the media type of a problem.
const ContentType = "application/problem+json"

// Problem is what went wrong. Index and Offset are there where an entry of the
// body is at fault, Field where a parameter or field is, Quota where one is
// spent.
type Problem struct {
	Status     int           `json:"status"`
	Code       string        `json:"code"`
	Detail     string        `json:"detail"`
	Field      string        `json:"field,omitempty"`
	Index      *int          `json:"index,omitempty"`
	Offset     *int64        `json:"offset,omitempty"`
	*Quota                   // nil: none is spent
	RetryAfter time.Duration `json:"-"` // 0: no such header; sent in whole seconds, at least one
}

// Quota is which quota is spent and when it is there again. Limit and
// Remaining are in the quota's own unit; they are sent as RateLimit-* headers.
type Quota struct {
	Name      string    `json:"quota"`
	Limit     int64     `json:"limit"`
	Remaining int64     `json:"remaining"`
	Reset     time.Time `json:"reset"`
}

// setHeader adds the three headers of rate limits. Reset is in seconds from
// now, as Retry-After is.
func (q *Quota) setHeader(header http.Header, wait time.Duration) {
	header.Set("RateLimit-Limit", strconv.FormatInt(q.Limit, 10))
	header.Set("RateLimit-Remaining", strconv.FormatInt(max(0, q.Remaining), 10))
	header.Set("RateLimit-Reset", strconv.Itoa(seconds(wait)))
}

// seconds is a wait in whole seconds, rounded up, at least one.
func seconds(wait time.Duration) int {
	return max(1, int((wait+time.Second-1)/time.Second))
}

// document adds what the standard asks for and what finds the request again.
type document struct {
	Type  string `json:"type"`
	Title string `json:"title"`
	Problem
	RequestID string `json:"request_id"`
}

// OfRoute is the problem of a request that met no route: the router's own
// status says whether the path is unknown or only the method.
func OfRoute(status int) Problem {
	if status == http.StatusMethodNotAllowed {
		return Problem{Status: status, Code: "method_not_allowed", Detail: "the route does not take this method"}
	}
	return Problem{Status: http.StatusNotFound, Code: "not_found", Detail: "no such route"}
}

// Write answers with the problem. Its error is the connection's.
func Write(w http.ResponseWriter, p Problem, requestID string) error {
	body, err := json.Marshal(document{Type: "about:blank", Title: http.StatusText(p.Status), Problem: p, RequestID: requestID})
	if err != nil {
		return err
	}
	header := w.Header()
	header.Set("Content-Type", ContentType)
	header.Set("Cache-Control", "no-store")
	if p.RetryAfter > 0 {
		header.Set("Retry-After", strconv.Itoa(seconds(p.RetryAfter)))
	}
	if p.Quota != nil {
		p.Quota.setHeader(header, p.RetryAfter)
	}
	if p.Status == http.StatusUnauthorized {
		header.Set("WWW-Authenticate", "Bearer")
	}
	w.WriteHeader(p.Status)
	_, err = w.Write(append(body, '\n'))
	return err
}
