package ingest

import (
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/logboom/logboom/pkg/decode"
	"github.com/logboom/logboom/pkg/problem"
	"github.com/logboom/logboom/pkg/project"
	"github.com/logboom/logboom/pkg/record"
	"github.com/logboom/logboom/pkg/token"
)

// protocol is what distinguishes one protocol from the others; receive is what
// they share. It lives as long as the server.
type protocol struct {
	kind         record.Kind
	named        bool // the path names the project, which must be that of the token
	lossy        bool // records beyond a quota are dropped, unless the project's settings refuse them
	deduplicates bool // a repeated body is stored once if it can only be a retry
	deadLetters  bool // the bad entries of an accepted body become dead letters

	// token returns the client's token, or errMissingToken or errAuthorization.
	token func(header http.Header) (string, error)
	// decode turns the body into rows of r.
	decode func(r *request, req *http.Request, body []byte, now time.Time) decode.Result
	// accept answers that the queue has the records.
	accept func(c echo.Context, r *request, result decode.Result) error
	// refuse answers with a problem; id is that of the request.
	refuse func(w http.ResponseWriter, p problem.Problem, id string) error

	requests sync.Pool // of *request, with the protocol's limits
}

// protocolKey is the key of the request's protocol in the echo context. The
// error handler needs it.
const protocolKey = "protocol"

// route adds a protocol's route.
func (s *Server) route(path string, p *protocol) {
	s.addRoute(http.MethodPost, path, func(c echo.Context) error {
		c.Set(protocolKey, p)
		return s.receive(c, p)
	})
}

// addRoute adds a route, and beside it an OPTIONS route that answers 200 to
// every client: clients that probe first regard anything else, including 204, as
// a refusal.
func (s *Server) addRoute(method, path string, handler echo.HandlerFunc) {
	s.echo.Add(method, path, handler)
	s.echo.OPTIONS(path, func(c echo.Context) error {
		c.Response().Header().Set(echo.HeaderAllow, "OPTIONS, "+method)
		return c.NoContent(http.StatusOK)
	})
}

// protocol prepares a protocol for bodies within the limits.
func (s *Server) protocol(limits decode.Limits, p *protocol) *protocol {
	p.requests.New = func() any {
		r := &request{budget: s.budget, decoder: decode.NewDecoder(limits)}
		r.decoder.Reserve(r.reserve)
		return r
	}
	return p
}

// native returns Logboom's own protocol for records of one kind.
func (s *Server) native(kind record.Kind) *protocol {
	p := &protocol{kind: kind, named: true, token: bearerToken, decode: (*request).decodeLogs, accept: acceptNative, refuse: problem.Write}
	if kind == record.KindEvent {
		p.decode = (*request).decodeEvents
	}
	return s.protocol(s.cfg.Limits, p)
}

// bearerToken returns the token of an Authorization: Bearer header.
func bearerToken(header http.Header) (string, error) {
	scheme, token := authorization(header)
	if token == "" || !strings.EqualFold(scheme, "bearer") {
		return "", errMissingToken
	}
	return token, nil
}

// authorization returns the scheme of the Authorization header and what follows
// it. Each may be empty.
func authorization(header http.Header) (scheme, credentials string) {
	scheme, credentials, _ = strings.Cut(strings.TrimSpace(header.Get(echo.HeaderAuthorization)), " ")
	return scheme, strings.TrimSpace(credentials)
}

// drops reports whether err is an exceeded quota whose records the protocol
// drops.
func (p *protocol) drops(identity token.Identity, err error) bool {
	return p.lossy && identity.OnQuota != project.OnQuotaRefuse && isExceeded(err)
}

// nativeAnswer is the body of a 202. RejectedTotal is present if more entries
// were rejected than are listed.
type nativeAnswer struct {
	Accepted      int                `json:"accepted"`
	Rejected      []decode.Rejection `json:"rejected"`
	RejectedTotal int                `json:"rejected_total,omitempty"`
}

// acceptNative answers with the number of accepted records and the rejections.
func acceptNative(c echo.Context, r *request, result decode.Result) error {
	if result.RejectedTotal == 0 {
		r.answer = append(r.answer[:0], `{"accepted":`...)
		r.answer = strconv.AppendInt(r.answer, int64(result.Accepted), 10)
		r.answer = append(r.answer, ",\"rejected\":[]}\n"...)
		return c.Blob(http.StatusAccepted, echo.MIMEApplicationJSON, r.answer)
	}
	answer := nativeAnswer{Accepted: result.Accepted, Rejected: result.Rejected}
	if result.RejectedTotal > len(result.Rejected) {
		answer.RejectedTotal = result.RejectedTotal
	}
	return c.JSON(http.StatusAccepted, answer)
}
