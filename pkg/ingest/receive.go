package ingest

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"github.com/labstack/echo/v4"

	"github.com/logboom/logboom/pkg/decode"
	"github.com/logboom/logboom/pkg/quota"
	"github.com/logboom/logboom/pkg/stream"
	"github.com/logboom/logboom/pkg/token"
)

// receive is the path of records from a request to the queue, for every
// protocol.
func (s *Server) receive(c echo.Context, p *protocol) error {
	identity, err := s.authenticate(c, p)
	if err != nil {
		return err
	}
	if err := s.checkQuota(c, p, identity); err != nil {
		return err
	}
	if err := s.checkDisk(); err != nil {
		return err
	}
	r := s.newRequest(p, identity)
	defer s.release(p, r)
	body, err := r.read(c.Request())
	if err != nil {
		return err
	}
	result := p.decode(r, c.Request(), body, s.deps.Now())
	s.metrics.rejected(result.Rejected, result.RejectedTotal)
	if err := result.Err(); err != nil {
		return err
	}
	if result.Accepted == 0 {
		return p.accept(c, r, result)
	}
	grant, err := s.charge(c, p, r, result.Accepted)
	if p.drops(identity, err) {
		return p.accept(c, r, result)
	}
	if err != nil {
		return err
	}
	ack, err := s.publish(c, p, r, body, result)
	if ack.Duplicate || err != nil && !errors.Is(err, stream.ErrUnknown) {
		s.deps.Limiter.Refund(grant, result.Accepted, r.size)
	}
	if err != nil {
		return err
	}
	if ack.Duplicate {
		c.Response().Header().Set("Idempotency-Replayed", "true")
	} else if p.deadLetters {
		s.deadLetterRejected(c.Request().Context(), r, body, result)
	}
	s.metrics.accepted(p.kind, result.Accepted, r.size)
	return p.accept(c, r, result)
}

// authenticate returns the identity of the client. It refuses all clients while
// the process stops.
func (s *Server) authenticate(c echo.Context, p *protocol) (token.Identity, error) {
	if s.deps.Health.Draining() {
		return token.Identity{}, errDraining
	}
	value, err := p.token(c.Request().Header)
	if err != nil {
		return token.Identity{}, err
	}
	identity, err := s.deps.Auth.Authenticate(c.Request().Context(), value)
	if err != nil {
		return token.Identity{}, err
	}
	if p.named && identity.ProjectName != c.Param("project") {
		return token.Identity{}, errWrongProject
	}
	return identity, nil
}

// checkQuota refuses a project whose quota is exceeded, before its body is read.
// The number of records in the body is not known then; the request counts as one
// dropped record. If the protocol drops records instead, the body is read, so
// that they can be counted.
func (s *Server) checkQuota(c echo.Context, p *protocol, identity token.Identity) error {
	err := s.deps.Limiter.Check(c.Request().Context(), identity.ProjectID, limitsOf(identity))
	if p.drops(identity, err) {
		return nil
	}
	if err != nil && !p.lossy { // a client of a lossy protocol sends again what is refused
		s.drops.add(identity, dropReason(err), 1, max(0, c.Request().ContentLength))
	}
	return err
}

// checkDisk returns stream.ErrFull with the reason while the queue's disk accepts
// no more, because the queue answers nothing once its disk is full. It is called
// before the body is read, which would only cost memory.
func (s *Server) checkDisk() error {
	if s.deps.DiskFull == nil {
		return nil
	}
	if err := s.deps.DiskFull(); err != nil {
		return fmt.Errorf("%w: %w", stream.ErrFull, err)
	}
	return nil
}

// charge counts the request's records against the project's quotas.
func (s *Server) charge(c echo.Context, p *protocol, r *request, records int) (quota.Grant, error) {
	grant, err := s.deps.Limiter.Charge(c.Request().Context(), r.identity.ProjectID, limitsOf(r.identity), records, r.size)
	if err != nil && (!p.lossy || p.drops(r.identity, err)) {
		s.drops.add(r.identity, dropReason(err), records, r.size)
		s.metrics.dropped.WithLabelValues(dropReason(err)).Add(float64(records))
	}
	return grant, err
}

func limitsOf(identity token.Identity) quota.Limits {
	q := identity.Quotas
	return quota.Limits{Rate: q.Rate, DailyRecords: q.DailyRecords, MonthlyBytes: q.MonthlyBytes}
}

// publish sends the request's records to the queue.
func (s *Server) publish(c echo.Context, p *protocol, r *request, body []byte, result decode.Result) (stream.Ack, error) {
	id, err := messageID(c.Request().Header, p, r.identity, body, result)
	if err != nil {
		return stream.Ack{}, err
	}
	return s.deps.Publisher.Publish(c.Request().Context(), stream.Message{
		Kind:    p.kind,
		Notify:  r.notify,
		Project: r.identity.ProjectID,
		ID:      id,
		Parts:   r.parts(),
		Records: result.Accepted,
	})
}

// maxIdempotencyKey is the longest Idempotency-Key, in bytes.
const maxIdempotencyKey = 128

// messageID returns the queue's message id for the request. It is derived from
// the Idempotency-Key, or from token and body if a repeated body can only be a
// retry because each record has a time of its own. Otherwise the id is empty: a
// heartbeat that is sent twice is two heartbeats. Different projects, kinds and
// tokens never have the same id.
func messageID(header http.Header, p *protocol, identity token.Identity, body []byte, result decode.Result) (string, error) {
	key := header.Get("Idempotency-Key")
	switch {
	case len(key) > maxIdempotencyKey:
		return "", errLongKey
	case key != "":
		return digest(nil, identity.ProjectID, strconv.Itoa(int(p.kind)), key), nil
	case p.deduplicates && result.Timed:
		return digest(body, identity.ProjectID, "body", identity.TokenID), nil
	}
	return "", nil
}

// digest returns 128 bits in hexadecimal, of a body and of parts without zero
// bytes.
func digest(body []byte, parts ...string) string {
	sum := sha256.New()
	for _, part := range parts {
		sum.Write([]byte(part))
		sum.Write([]byte{0})
	}
	sum.Write(body)
	return hex.EncodeToString(sum.Sum(nil)[:16])
}
