package ingest

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/logboom/logboom/pkg/decode"
	"github.com/logboom/logboom/pkg/project"
	"github.com/logboom/logboom/pkg/quota"
	"github.com/logboom/logboom/pkg/stream"
)

// receive is a record's way from the request to the queue, each step once.
func (s *Server) receive(c echo.Context, p *protocol) error {
	identity, err := s.authenticate(c, p)
	if err != nil {
		return err
	}
	if err := s.quotaLeft(c, p, identity); err != nil {
		return err
	}
	if err := s.diskFull(); err != nil {
		return err
	}
	r := s.take(p, identity)
	defer s.give(p, r)
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
	grant, err := s.takeQuota(c, p, r, result.Accepted)
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
	} else if p.buries {
		s.bury(c.Request().Context(), r, body, result)
	}
	s.metrics.accepted(p.kind, result.Accepted, r.size)
	return p.accept(c, r, result)
}

// diskFull returns stream.ErrFull with the reason while the queue's disk takes
// no more. The queue itself answers nothing once its disk is full. It is called
// before the body is read, which would cost memory for nothing.
func (s *Server) diskFull() error {
	if s.deps.DiskFull == nil {
		return nil
	}
	if err := s.deps.DiskFull(); err != nil {
		return fmt.Errorf("%w: %w", stream.ErrFull, err)
	}
	return nil
}

// authenticate answers who sends, or why he may not.
func (s *Server) authenticate(c echo.Context, p *protocol) (project.Identity, error) {
	if s.deps.Health.Draining() {
		return project.Identity{}, errDraining
	}
	token, err := p.token(c.Request().Header)
	if err != nil {
		return project.Identity{}, err
	}
	identity, err := s.deps.Auth.Authenticate(c.Request().Context(), token)
	if err != nil {
		return project.Identity{}, err
	}
	if p.named && identity.ProjectName != c.Param("project") {
		return project.Identity{}, errWrongProject
	}
	return identity, nil
}

// quotaLeft refuses a project whose quota is spent, before its body is read.
// How many records the body holds is not known then: it counts as one. Where
// they are to be dropped, the body is read all the same, to count them.
func (s *Server) quotaLeft(c echo.Context, p *protocol, identity project.Identity) error {
	err := s.deps.Limiter.Check(c.Request().Context(), identity.ProjectID, limits(identity))
	if p.drops(identity, err) {
		return nil
	}
	if err != nil && !p.lossy { // a lossy protocol's sender keeps what is refused and sends it again
		s.drops.add(identity, reason(err), 1, max(0, c.Request().ContentLength))
	}
	return err
}

// takeQuota counts the request's records against the project's quotas.
func (s *Server) takeQuota(c echo.Context, p *protocol, r *request, records int) (quota.Grant, error) {
	grant, err := s.deps.Limiter.Charge(c.Request().Context(), r.identity.ProjectID, limits(r.identity), records, r.size)
	if err != nil && (!p.lossy || p.drops(r.identity, err)) {
		s.drops.add(r.identity, reason(err), records, r.size)
		s.metrics.dropped.WithLabelValues(reason(err)).Add(float64(records))
	}
	return grant, err
}

func limits(identity project.Identity) quota.Limits {
	q := identity.Quotas
	return quota.Limits{Rate: q.Rate, DailyRecords: q.DailyRecords, MonthlyBytes: q.MonthlyBytes}
}

// reason is the name of the quota that an error is about.
func reason(err error) string {
	var exceeded *quota.Exceeded
	if errors.As(err, &exceeded) {
		return string(exceeded.Quota)
	}
	return "quota"
}

// isSpent tells a spent quota from other errors.
func isSpent(err error) bool {
	var exceeded *quota.Exceeded
	return errors.As(err, &exceeded)
}

// publish puts the request's records on the queue.
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

// messageID is the queue's message id of the request: made of its
// Idempotency-Key, or of token and body where a repeat can only be a retry,
// which is where each record has a time of its own. Otherwise it is empty, for
// the same heartbeat sent twice is two heartbeats. Ids of different projects,
// kinds and tokens never meet.
func messageID(header http.Header, p *protocol, identity project.Identity, body []byte, result decode.Result) (string, error) {
	key := header.Get("Idempotency-Key")
	switch {
	case len(key) > maxIdempotencyKey:
		return "", errLongKey
	case key != "":
		return digest(nil, identity.ProjectID, strconv.Itoa(int(p.kind)), key), nil
	case p.once && result.Timed:
		return digest(body, identity.ProjectID, "body", identity.TokenID), nil
	}
	return "", nil
}

// digest is 128 bits in hexadecimal, of parts that hold no zero byte and a body.
func digest(body []byte, parts ...string) string {
	sum := sha256.New()
	for _, part := range parts {
		sum.Write([]byte(part))
		sum.Write([]byte{0})
	}
	sum.Write(body)
	return hex.EncodeToString(sum.Sum(nil)[:16])
}

// answer is the body of a 202. RejectedTotal is there only where more entries
// were rejected than are listed.
type answer struct {
	Accepted      int                `json:"accepted"`
	Rejected      []decode.Rejection `json:"rejected"`
	RejectedTotal int                `json:"rejected_total,omitempty"`
}

func accepted(c echo.Context, r *request, result decode.Result) error {
	if result.RejectedTotal == 0 {
		r.answer = append(r.answer[:0], `{"accepted":`...)
		r.answer = strconv.AppendInt(r.answer, int64(result.Accepted), 10)
		r.answer = append(r.answer, ",\"rejected\":[]}\n"...)
		return c.Blob(http.StatusAccepted, echo.MIMEApplicationJSON, r.answer)
	}
	full := answer{Accepted: result.Accepted, Rejected: result.Rejected}
	if result.RejectedTotal > len(result.Rejected) {
		full.RejectedTotal = result.RejectedTotal
	}
	return c.JSON(http.StatusAccepted, full)
}

// retention is how far back a project's records may be dated.
func retention(identity project.Identity) time.Duration {
	return time.Duration(identity.RetentionDays) * 24 * time.Hour
}
