package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/logboom/logboom/pkg/project"
)

// Action is what a change did.
type Action string

// The actions.
const (
	ProjectCreated  Action = "project.created"
	ProjectDeleted  Action = "project.deleted"
	TokenCreated    Action = "token.created"
	TokenDeleted    Action = "token.deleted"
	SettingsChanged Action = "settings.changed"
	AlertsChanged   Action = "alerts.changed"
	AlertsTested    Action = "alerts.tested"
	LetterReplayed  Action = "dead_letter.replayed"
	KeyCreated      Action = "api_key.created"
	KeyDeleted      Action = "api_key.deleted"
	UserCreated     Action = "user.created"
	UserChanged     Action = "user.changed"
	UserPasswordSet Action = "user.password_set"
	UserDeleted     Action = "user.deleted"
	PersonSignedIn  Action = "person.signed_in"
	PasswordChanged Action = "person.password_changed"
)

// Change is one entry of the audit trail. It holds no secret, and no text that
// a client of ingest chose.
type Change struct {
	Time      time.Time
	Action    Action
	KeyID     string // of the API key that was used; "" for a person
	Person    string // the e-mail address; "" for an API key
	Project   string // its name; "" for what concerns no single project
	ProjectID string
	Target    string // the ID of the token, API key or dead letter, the user's address, or ""
	RequestID string
	Address   string // of the client
}

// By names who made the change, for people.
func (c *Change) By() string {
	if c.Person != "" {
		return c.Person
	}
	return "API key " + c.KeyID
}

// Bounds of the trail. A change takes about 300 bytes, so that the trail holds
// years of changes. Beyond the bounds the oldest changes are deleted.
const (
	trailStream    = "AUDIT"
	trailSubject   = "audit"
	trailBytes     = 64 << 20
	trailAge       = 400 * 24 * time.Hour
	maxChangeBytes = 16 << 10
)

// Trail is the audit trail: a stream of the queue, which no process can change
// afterwards.
type Trail struct {
	js     jetstream.JetStream
	stream jetstream.Stream
	logger *slog.Logger
}

// OpenTrail opens the audit trail and creates its stream if it is missing. Any
// number of processes may do so at the same time.
func OpenTrail(ctx context.Context, js jetstream.JetStream, logger *slog.Logger, replicas int) (*Trail, error) {
	stream, err := js.CreateStream(ctx, jetstream.StreamConfig{
		Name: trailStream, Subjects: []string{trailSubject}, Storage: jetstream.FileStorage, Replicas: max(1, replicas),
		MaxBytes: trailBytes, MaxAge: trailAge, MaxMsgSize: maxChangeBytes, Discard: jetstream.DiscardOld, DenyDelete: true, DenyPurge: true,
	})
	if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
		stream, err = js.Stream(ctx, trailStream)
	}
	if err != nil {
		return nil, fmt.Errorf("stream %s: %w: %w", trailStream, project.ErrUnavailable, err)
	}
	return &Trail{js, stream, logger}, nil
}

// record adds a change to the trail and to the log. The change has been made
// already, so that a failure to store it is only logged, as an error.
func (t *Trail) record(ctx context.Context, c Change) {
	t.logger.LogAttrs(ctx, slog.LevelInfo, "change made",
		slog.String("action", string(c.Action)), slog.String("key_id", c.KeyID), slog.String("person", c.Person),
		slog.String("project", c.Project), slog.String("project_id", c.ProjectID), slog.String("target", c.Target),
		slog.String("request_id", c.RequestID), slog.String("addr", c.Address),
	)
	document, err := json.Marshal(c)
	if err == nil {
		_, err = t.js.Publish(ctx, trailSubject, document)
	}
	if err != nil {
		t.logger.Error("change not stored in the audit trail", "action", string(c.Action), "request_id", c.RequestID, "err", err)
	}
}

// list returns up to limit of the changes before the position given (0: the
// end), the newest first, and the position before which the next page ends (0:
// there is none). It reads the changes one by one: fifty take some
// milliseconds.
func (t *Trail) list(ctx context.Context, before uint64, limit int) ([]Change, uint64, error) {
	info, err := t.stream.Info(ctx)
	if err != nil {
		return nil, 0, fmt.Errorf("audit trail: %w: %w", project.ErrUnavailable, err)
	}
	at := info.State.LastSeq
	if before > 0 {
		at = min(at, before-1)
	}
	var list []Change
	for ; at > 0 && at >= info.State.FirstSeq && len(list) < limit; at-- {
		message, err := t.stream.GetMsg(ctx, at)
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			continue // deleted meanwhile, because of its age
		}
		if err != nil {
			return nil, 0, fmt.Errorf("audit trail, change %d: %w: %w", at, project.ErrUnavailable, err)
		}
		var change Change
		if err := json.Unmarshal(message.Data, &change); err != nil {
			return nil, 0, fmt.Errorf("audit trail, change %d: %w", at, err)
		}
		list = append(list, change)
	}
	if at == 0 || at < info.State.FirstSeq {
		return list, 0, nil
	}
	return list, at + 1, nil
}

// record adds to the audit trail what the caller did.
func (s *Service) record(ctx context.Context, caller Caller, action Action, p project.Project, target string) {
	s.deps.Trail.record(ctx, Change{
		Time: time.Now().UTC(), Action: action, KeyID: caller.KeyID, Person: caller.Email, Project: p.Name, ProjectID: p.ID,
		Target: target, RequestID: caller.RequestID, Address: caller.Address,
	})
}

// Changes returns up to limit of the changes before the position given (0: the
// end), the newest first, and the position for the next page (0: this is the
// last).
func (s *Service) Changes(ctx context.Context, before uint64, limit int) ([]Change, uint64, error) {
	return s.deps.Trail.list(ctx, before, limit)
}
