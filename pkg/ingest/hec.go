package ingest

import (
	"encoding/base64"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/logboom/logboom/pkg/decode"
	"github.com/logboom/logboom/pkg/record"
)

// containerBytes bounds a body of container logs, as sent and decompressed,
// where Config says nothing: Docker's largest is some 98 MB, and it sends a
// body that is refused again and again.
const containerBytes = 128 << 20

// layHEC lays the routes of the HTTP Event Collector protocol, which Docker's
// splunk log driver speaks.
func (s *Server) layHEC() {
	events, raw := s.hec((*request).decodeHEC), s.hec((*request).decodeRaw)
	for _, path := range []string{"", "/event", "/event/1.0"} {
		s.serve("/services/collector"+path, events)
	}
	for _, path := range []string{"/raw", "/raw/1.0"} {
		s.serve("/services/collector"+path, raw)
	}
	for _, path := range []string{"/health", "/health/1.0"} {
		s.lay(http.MethodGet, "/services/collector"+path, s.hecHealth)
	}
}

// hec is a protocol of container logs; its two kinds of body differ in how they
// are decoded.
func (s *Server) hec(decode func(r *request, head *http.Request, body []byte, now time.Time) decode.Result) *protocol {
	limits := s.cfg.Limits
	limits.Body = s.cfg.ContainerBytes
	if limits.Body <= 0 {
		limits.Body = containerBytes
	}
	limits.Decoded = limits.Body
	return s.protocol(limits, &protocol{
		kind: record.KindLog, lossy: true, once: true, buries: true,
		token: hecToken, decode: decode, accept: hecAccepted, refuse: writeHEC,
	})
}

// decodeHEC turns events into rows.
func (r *request) decodeHEC(_ *http.Request, body []byte, now time.Time) decode.Result {
	return r.decoder.HEC(body, r.defaults(now), r.addLog)
}

// decodeRaw turns lines into rows. What all of them have in common is in the
// query, of which everything else is ignored: a token that is there counts for
// nothing.
func (r *request) decodeRaw(head *http.Request, body []byte, now time.Time) decode.Result {
	return r.decoder.Raw(body, r.defaults(now), origin(head.URL.Query()), r.addLog)
}

func origin(query url.Values) decode.Origin {
	return decode.Origin{
		Time: query.Get("time"), Host: query.Get("host"), Source: query.Get("source"),
		SourceType: query.Get("sourcetype"), Index: query.Get("index"),
	}
}

// hecToken takes a token in each form that senders of container logs use: after
// Splunk or Bearer, or as the password of Basic, whoever the user is.
func hecToken(header http.Header) (string, error) {
	scheme, credentials := authorization(header)
	switch {
	case scheme == "":
		return "", errMissingToken
	case strings.EqualFold(scheme, "basic"):
		return password(credentials)
	case !strings.EqualFold(scheme, "splunk") && !strings.EqualFold(scheme, "bearer"):
		return "", errAuthorization
	case credentials == "":
		return "", errMissingToken
	}
	return credentials, nil
}

// password is that of Basic's credentials (RFC 7617).
func password(credentials string) (string, error) {
	pair, err := base64.StdEncoding.DecodeString(credentials)
	if err != nil {
		return "", errAuthorization
	}
	_, token, found := strings.Cut(string(pair), ":")
	switch {
	case !found:
		return "", errAuthorization
	case token == "":
		return "", errMissingToken
	}
	return token, nil
}

// hecHealth says whether container logs would be taken now.
func (s *Server) hecHealth(c echo.Context) error {
	switch {
	case s.deps.Health.Draining():
		return answerHEC(c.Response(), http.StatusServiceUnavailable, hecDraining)
	case s.diskFull() != nil || !s.ready(c.Request()):
		return answerHEC(c.Response(), http.StatusServiceUnavailable, hecUnhealthy)
	}
	return answerHEC(c.Response(), http.StatusOK, hecHealthy)
}

// ready asks what /readyz asks.
func (s *Server) ready(request *http.Request) bool {
	var answer statusOnly
	s.deps.Health.Readyz(&answer, request)
	return answer.status == http.StatusOK
}

// statusOnly is a response of which only the status matters.
type statusOnly struct {
	header http.Header
	status int
}

func (w *statusOnly) Header() http.Header {
	if w.header == nil {
		w.header = http.Header{}
	}
	return w.header
}

func (w *statusOnly) Write(p []byte) (int, error) { return len(p), nil }

func (w *statusOnly) WriteHeader(status int) { w.status = status }
