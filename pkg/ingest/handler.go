package ingest

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/logboom/logboom/pkg/decode"
	"github.com/logboom/logboom/pkg/project"
	"github.com/logboom/logboom/pkg/record"
	"github.com/logboom/logboom/pkg/stream"
)

// logs is a log's way from the request to the queue.
func (s *Server) logs(c echo.Context) error {
	identity, err := s.admit(c)
	if err != nil {
		return err
	}
	r := s.take(record.KindLog, identity)
	defer s.give(r)
	body, err := r.read(c.Request())
	if err != nil {
		return err
	}
	result := r.decoder.Logs(body, r.defaults(s.deps.Now()), r.addLog)
	return s.publish(c, r, result, stream.Logs)
}

// events is an event's way from the request to the queue.
func (s *Server) events(c echo.Context) error {
	identity, err := s.admit(c)
	if err != nil {
		return err
	}
	r := s.take(record.KindEvent, identity)
	defer s.give(r)
	body, err := r.read(c.Request())
	if err != nil {
		return err
	}
	result := r.decoder.Events(body, r.defaults(s.deps.Now()), r.addEvent)
	return s.publish(c, r, result, stream.Events)
}

// admit answers who sends, or why he may not.
func (s *Server) admit(c echo.Context) (project.Identity, error) {
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

// bearer is the token of an Authorization header; the scheme is case-blind.
func bearer(header string) (token string, ok bool) {
	scheme, token, found := strings.Cut(strings.TrimSpace(header), " ")
	if !found || !strings.EqualFold(scheme, "bearer") {
		return "", false
	}
	token = strings.TrimSpace(token)
	return token, token != ""
}

// publish puts the request's records on the queue and answers.
func (s *Server) publish(c echo.Context, r *request, result decode.Result, kind stream.Kind) error {
	s.metrics.rejected(result.Rejected, result.RejectedTotal)
	if result.Accepted == 0 {
		return result.Err()
	}
	id, err := idempotencyID(c.Request().Header, r.identity, kind)
	if err != nil {
		return err
	}
	ack, err := s.deps.Publisher.Publish(c.Request().Context(), stream.Message{
		Kind:    kind,
		Notify:  r.notify,
		Project: r.identity.ProjectID,
		ID:      id,
		Parts:   r.parts(),
		Records: result.Accepted,
	})
	if err != nil {
		return err
	}
	if ack.Duplicate {
		c.Response().Header().Set("Idempotency-Replayed", "true")
	}
	s.metrics.accepted(kind, result.Accepted, r.size)
	return accepted(c, r, result)
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
