package ingest

import (
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/logboom/logboom/pkg/decode"
	"github.com/logboom/logboom/pkg/problem"
	"github.com/logboom/logboom/pkg/project"
	"github.com/logboom/logboom/pkg/record"
	"github.com/logboom/logboom/pkg/telemetry"
)

// protocol is what sets one way in apart from the others; what they share is
// receive. It lives as long as the server does.
type protocol struct {
	kind   record.Kind
	named  bool // the path names the project, which must be the token's
	lossy  bool // beyond a quota it drops, where the project does not say otherwise
	once   bool // a body is stored once whose repeat cannot be told from a retry
	buries bool // bad entries of a body that was taken become dead letters

	// token is the sender's token, or errMissingToken or errAuthorization.
	token func(header http.Header) (string, error)
	// decode turns the body into rows of r. The head tells what the body cannot.
	decode func(r *request, head *http.Request, body []byte, now time.Time) decode.Result
	// accept answers that the queue has the records.
	accept func(c echo.Context, r *request, result decode.Result) error
	// refuse answers a problem; the id is the request's.
	refuse func(w http.ResponseWriter, p problem.Problem, id string) error

	requests sync.Pool // of *request, with the protocol's limits
}

// protocolKey is where the echo context has the request's protocol, for who
// answers an error.
const protocolKey = "protocol"

// serve lays a protocol's route.
func (s *Server) serve(path string, p *protocol) {
	s.lay(http.MethodPost, path, func(c echo.Context) error {
		c.Set(protocolKey, p)
		return s.receive(c, p)
	})
}

// lay lays a route, and an OPTIONS beside it that is 200 for anybody: senders
// that probe first take anything else, 204 included, as a refusal.
func (s *Server) lay(method, path string, handler echo.HandlerFunc) {
	s.echo.Add(method, path, handler)
	s.echo.OPTIONS(path, func(c echo.Context) error {
		c.Response().Header().Set(echo.HeaderAllow, "OPTIONS, "+method)
		return c.NoContent(http.StatusOK)
	})
}

// protocol readies a protocol whose bodies are held to the limits.
func (s *Server) protocol(limits decode.Limits, p *protocol) *protocol {
	p.requests.New = func() any { return newRequest(limits, s.budget) }
	return p
}

// native is Logboom's own protocol, for records of one kind.
func (s *Server) native(kind record.Kind) *protocol {
	p := &protocol{kind: kind, named: true, token: bearerToken, decode: (*request).decodeLogs, accept: accepted, refuse: problem.Write}
	if kind == record.KindEvent {
		p.decode = (*request).decodeEvents
	}
	return s.protocol(s.cfg.Limits, p)
}

// bearerToken takes a token in the one form of the native routes.
func bearerToken(header http.Header) (string, error) {
	scheme, token := authorization(header)
	if token == "" || !strings.EqualFold(scheme, "bearer") {
		return "", errMissingToken
	}
	return token, nil
}

// authorization is the header's scheme and what follows it, each perhaps empty.
func authorization(header http.Header) (scheme, credentials string) {
	scheme, credentials, _ = strings.Cut(strings.TrimSpace(header.Get(echo.HeaderAuthorization)), " ")
	return scheme, strings.TrimSpace(credentials)
}

// drops says whether an error is a spent quota over which the protocol drops.
func (p *protocol) drops(identity project.Identity, err error) bool {
	return p.lossy && identity.OnQuota != project.OnQuotaRefuse && isSpent(err)
}

// answerError writes the problem that an error is, in the protocol's form. What
// is the server's own fault is logged; what is the sender's is counted only.
func (s *Server) answerError(err error, c echo.Context) {
	if c.Response().Committed {
		return
	}
	reason, id := problemOf(err), telemetry.RequestID(c)
	telemetry.SetCode(c, reason.Code)
	if reason.Status >= http.StatusInternalServerError && reason.Code != "draining" {
		s.deps.Logger.Warn("request refused", "code", reason.Code, "request_id", id, "err", err)
	}
	refuse := problem.Write
	if p, ok := c.Get(protocolKey).(*protocol); ok {
		refuse = p.refuse
	}
	if err := refuse(c.Response(), reason, id); err != nil {
		s.deps.Logger.Debug("answer not sent", "request_id", id, "err", err)
	}
}
