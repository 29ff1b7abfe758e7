package ingest

import (
	"encoding/base64"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/logboom/logboom/pkg/decode"
	"github.com/logboom/logboom/pkg/problem"
	"github.com/logboom/logboom/pkg/record"
)

// containerBytes bounds a body of container logs, as sent and decompressed, if
// Config does not: Docker's largest is about 98 MB, and Docker sends a refused
// body again and again.
const containerBytes = 128 << 20

// addHECRoutes adds the routes of the HTTP Event Collector protocol, which
// Docker's splunk log driver uses.
func (s *Server) addHECRoutes() {
	events, raw := s.hec((*request).decodeHEC), s.hec((*request).decodeRaw)
	for _, path := range []string{"", "/event", "/event/1.0"} {
		s.route("/services/collector"+path, events)
	}
	for _, path := range []string{"/raw", "/raw/1.0"} {
		s.route("/services/collector"+path, raw)
	}
	for _, path := range []string{"/health", "/health/1.0"} {
		s.addRoute(http.MethodGet, "/services/collector"+path, s.hecHealth)
	}
}

// hec returns the protocol of container logs, for one of its two forms of body.
func (s *Server) hec(decode func(r *request, req *http.Request, body []byte, now time.Time) decode.Result) *protocol {
	limits := s.cfg.Limits
	limits.Body = s.cfg.ContainerBytes
	if limits.Body <= 0 {
		limits.Body = containerBytes
	}
	limits.Decoded = limits.Body
	return s.protocol(limits, &protocol{
		kind: record.KindLog, lossy: true, deduplicates: true, deadLetters: true,
		token: hecToken, decode: decode, accept: acceptHEC, refuse: refuseHEC,
	})
}

// decodeHEC turns events into rows.
func (r *request) decodeHEC(_ *http.Request, body []byte, now time.Time) decode.Result {
	return r.decoder.HEC(body, r.defaults(now), r.addLog)
}

// decodeRaw turns lines into rows. The query holds what all lines have in
// common. Other parameters, such as a token, are ignored.
func (r *request) decodeRaw(req *http.Request, body []byte, now time.Time) decode.Result {
	query := req.URL.Query()
	origin := decode.Origin{
		Time: query.Get("time"), Host: query.Get("host"), Source: query.Get("source"),
		SourceType: query.Get("sourcetype"), Index: query.Get("index"),
	}
	return r.decoder.Raw(body, r.defaults(now), origin, r.addLog)
}

// hecToken returns a token in any form that clients of container logs use: after
// Splunk or Bearer, or as the password of Basic with any user name.
func hecToken(header http.Header) (string, error) {
	scheme, credentials := authorization(header)
	switch {
	case scheme == "":
		return "", errMissingToken
	case strings.EqualFold(scheme, "basic"): // RFC 7617
		pair, err := base64.StdEncoding.DecodeString(credentials)
		if err != nil {
			return "", errAuthorization
		}
		_, password, found := strings.Cut(string(pair), ":")
		if !found {
			return "", errAuthorization
		}
		credentials = password
	case !strings.EqualFold(scheme, "splunk") && !strings.EqualFold(scheme, "bearer"):
		return "", errAuthorization
	}
	if credentials == "" {
		return "", errMissingToken
	}
	return credentials, nil
}

// hecHealth answers whether container logs would be accepted now.
func (s *Server) hecHealth(c echo.Context) error {
	switch {
	case s.deps.Health.Draining():
		return answerHEC(c.Response(), http.StatusServiceUnavailable, hecDraining)
	case s.checkDisk() != nil || s.deps.Health.Ready(c.Request().Context()) != nil:
		return answerHEC(c.Response(), http.StatusServiceUnavailable, hecUnhealthy)
	}
	return answerHEC(c.Response(), http.StatusOK, hecHealthy)
}

// hecCode is a number that clients of container logs know, from Splunk's
// "Troubleshoot HTTP Event Collector".
type hecCode int

// The codes in use. Code 1 (token disabled) is not used, because a revoked token
// cannot be told from an unknown one.
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

// append appends the answer's body without its closing brace, as Splunk writes
// it.
func (c hecCode) append(dst []byte) []byte {
	dst = append(dst, `{"text":"`...)
	dst = append(dst, c.text()...)
	dst = append(dst, `","code":`...)
	return strconv.AppendInt(dst, int64(c), 10)
}

// hecOf returns the status and code for a problem. Docker sends a body again
// after any status but 200, so the statuses are for other clients, which drop
// what is answered with 4xx.
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
		if p.Index != nil { // otherwise a header is invalid
			return http.StatusBadRequest, hecEventBlank
		}
	case "rate_limited", "quota_exceeded", "queue_full", "queue_unavailable":
		return http.StatusServiceUnavailable, hecBusy
	case "draining":
		return http.StatusServiceUnavailable, hecDraining
	case "internal_error":
		return http.StatusInternalServerError, hecInternal
	}
	return p.Status, hecInvalidData // invalid, too large, too slow, an unknown compression, too long a key
}

// refuseHEC answers with a problem in the form that clients of container logs
// know.
func refuseHEC(w http.ResponseWriter, p problem.Problem, _ string) error {
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
	return writeHEC(w, status, append(body, '}'))
}

// acceptHEC answers that the queue has the events, in exactly Splunk's bytes.
func acceptHEC(c echo.Context, _ *request, _ decode.Result) error {
	return answerHEC(c.Response(), http.StatusOK, hecSuccess)
}

func answerHEC(w http.ResponseWriter, status int, code hecCode) error {
	return writeHEC(w, status, append(code.append(nil), '}'))
}

func writeHEC(w http.ResponseWriter, status int, body []byte) error {
	w.Header().Set(echo.HeaderContentType, "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, err := w.Write(body)
	return err
}
