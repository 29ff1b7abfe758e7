package ingest

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/logboom/logboom/pkg/decode"
	"github.com/logboom/logboom/pkg/project"
	"github.com/logboom/logboom/pkg/quota"
	"github.com/logboom/logboom/pkg/stream"
)

// logs takes logs in.
func (s *Server) logs(c echo.Context) error { return s.receive(c, stream.Logs, (*request).decodeLogs) }

// events takes events in.
func (s *Server) events(c echo.Context) error {
	return s.receive(c, stream.Events, (*request).decodeEvents)
}

// receive is a record's way from the request to the queue, each step once.
func (s *Server) receive(c echo.Context, kind stream.Kind, decode func(r *request, body []byte, now time.Time) decode.Result) error {
	identity, err := s.authenticate(c)
	if err != nil {
		return err
	}
	if err := s.quotaLeft(c, identity); err != nil {
		return err
	}
	if err := RoomLeft(s.deps.Room); err != nil {
		return err
	}
	r := s.take(kind, identity)
	defer s.give(r)
	body, err := r.read(c.Request())
	if err != nil {
		return err
	}
	result := decode(r, body, s.deps.Now())
	s.metrics.rejected(result.Rejected, result.RejectedTotal)
	if result.Accepted == 0 {
		return result.Err()
	}
	grant, err := s.takeQuota(c, r, result.Accepted)
	if err != nil {
		return err
	}
	ack, err := s.publish(c, r, kind, result.Accepted)
	if ack.Duplicate || err != nil && !errors.Is(err, stream.ErrUnknown) {
		s.deps.Limiter.Refund(grant, result.Accepted, r.size)
	}
	if err != nil {
		return err
	}
	if ack.Duplicate {
		c.Response().Header().Set("Idempotency-Replayed", "true")
	}
	s.metrics.accepted(kind, result.Accepted, r.size)
	return accepted(c, r, result)
}

// authenticate answers who sends, or why he may not.
func (s *Server) authenticate(c echo.Context) (project.Identity, error) {
	if s.deps.Health.Draining() {
		return project.Identity{}, errDraining
	}
	token, ok := bearer(c.Request().Header.Get(echo.HeaderAuthorization))
	if !ok {
		return project.Identity{}, errMissingToken
	}
	identity, err := s.deps.Auth.Authenticate(c.Request().Context(), token)
	if err != nil {
		return project.Identity{}, err
	}
	if identity.ProjectName != c.Param("project") {
		return project.Identity{}, errWrongProject
	}
	return identity, nil
}

// quotaLeft refuses a project whose quota is spent, before its body is read.
// How many records the body holds is not known then: it counts as one.
func (s *Server) quotaLeft(c echo.Context, identity project.Identity) error {
	err := s.deps.Limiter.Spent(c.Request().Context(), identity.ProjectID, limits(identity))
	if err != nil {
		s.drops.add(identity, reason(err), 1, max(0, c.Request().ContentLength))
	}
	return err
}

// takeQuota counts the request's records against the project's quotas.
func (s *Server) takeQuota(c echo.Context, r *request, records int) (quota.Grant, error) {
	grant, err := s.deps.Limiter.Take(c.Request().Context(), r.identity.ProjectID, limits(r.identity), records, r.size)
	if err != nil {
		s.drops.add(r.identity, reason(err), records, r.size)
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

// bearer is the token of an Authorization header; the scheme is case-blind.
func bearer(header string) (token string, ok bool) {
	scheme, token, found := strings.Cut(strings.TrimSpace(header), " ")
	if !found || !strings.EqualFold(scheme, "bearer") {
		return "", false
	}
	token = strings.TrimSpace(token)
	return token, token != ""
}

// publish puts the request's records on the queue.
func (s *Server) publish(c echo.Context, r *request, kind stream.Kind, records int) (stream.Ack, error) {
	id, err := idempotencyID(c.Request().Header, r.identity, kind)
	if err != nil {
		return stream.Ack{}, err
	}
	return s.deps.Publisher.Publish(c.Request().Context(), stream.Message{
		Kind:    kind,
		Notify:  r.notify,
		Project: r.identity.ProjectID,
		ID:      id,
		Parts:   r.parts(),
		Records: records,
	})
}

// maxIdempotencyKey is the longest Idempotency-Key, in bytes.
const maxIdempotencyKey = 128

// idempotencyID is the queue's message id for the request's Idempotency-Key,
// or empty where it has none. Keys of different projects and kinds never meet.
func idempotencyID(header http.Header, identity project.Identity, kind stream.Kind) (string, error) {
	key := header.Get("Idempotency-Key")
	if key == "" {
		return "", nil
	}
	if len(key) > maxIdempotencyKey {
		return "", errLongKey
	}
	digest := sha256.New()
	for _, part := range []string{identity.ProjectID, strconv.Itoa(int(kind)), key} {
		digest.Write([]byte(part))
		digest.Write([]byte{0})
	}
	return hex.EncodeToString(digest.Sum(nil)[:16]), nil
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
