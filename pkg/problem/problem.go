// Package problem writes the body of an error answer: RFC 9457's
// application/problem+json with a stable code, the same from every service.
//
// Each service has one function that turns errors into problems. A newcomer might
// forget that a problem goes to the client: it must not contain a token, a
// payload or the address of an engine.
package problem

import (
	"encoding/json"
	"net/http"
	"strconv"
	"time"
)

// ContentType is the media type of a problem.
const ContentType = "application/problem+json"

// Problem describes an error. Index and Offset are set if an entry of the body is
// invalid, Field if a parameter or field is, and Quota if one is exceeded.
type Problem struct {
	Status     int           `json:"status"`
	Code       string        `json:"code"`
	Detail     string        `json:"detail"`
	Field      string        `json:"field,omitempty"`
	Index      *int          `json:"index,omitempty"`
	Offset     *int64        `json:"offset,omitempty"`
	*Quota                   // nil: no quota is exceeded
	RetryAfter time.Duration `json:"-"` // 0: no such header; sent in whole seconds, at least one
}

// Quota names the exceeded quota and when it resets. Limit and Remaining are in
// the quota's own unit; they are also sent as RateLimit-* headers.
type Quota struct {
	Name      string    `json:"quota"`
	Limit     int64     `json:"limit"`
	Remaining int64     `json:"remaining"`
	Reset     time.Time `json:"reset"`
}

// document adds the members that the standard requires, and the request's id.
type document struct {
	Type  string `json:"type"`
	Title string `json:"title"`
	Problem
	RequestID string `json:"request_id"`
}

// OfRoute returns the problem of a request that matched no route. The router's
// status says whether the path or only the method is unknown.
func OfRoute(status int) Problem {
	if status == http.StatusMethodNotAllowed {
		return Problem{Status: status, Code: "method_not_allowed", Detail: "the route does not accept this method"}
	}
	return Problem{Status: http.StatusNotFound, Code: "not_found", Detail: "no such route"}
}

// SetHeaders sets the headers of the answer, except Content-Type.
func (p *Problem) SetHeaders(header http.Header) {
	header.Set("Cache-Control", "no-store")
	wait := strconv.Itoa(max(1, int((p.RetryAfter+time.Second-1)/time.Second)))
	if p.RetryAfter > 0 {
		header.Set("Retry-After", wait)
	}
	if p.Quota != nil {
		header.Set("RateLimit-Limit", strconv.FormatInt(p.Limit, 10))
		header.Set("RateLimit-Remaining", strconv.FormatInt(max(0, p.Remaining), 10))
		header.Set("RateLimit-Reset", wait) // seconds from now, like Retry-After
	}
	if p.Status == http.StatusUnauthorized {
		header.Set("WWW-Authenticate", "Bearer")
	}
}

// Write answers with the problem. Its error is that of the connection.
func Write(w http.ResponseWriter, p Problem, requestID string) error {
	body, err := json.Marshal(document{Type: "about:blank", Title: http.StatusText(p.Status), Problem: p, RequestID: requestID})
	if err != nil {
		return err
	}
	p.SetHeaders(w.Header())
	w.Header().Set("Content-Type", ContentType)
	w.WriteHeader(p.Status)
	_, err = w.Write(append(body, '\n'))
	return err
}
