package admin

import (
	"context"
	"log/slog"
	"time"

	"github.com/logboom/logboom/pkg/project"
	"github.com/logboom/logboom/pkg/telemetry"
)

// Action is what somebody changed.
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
)

// Change is one change that was made: who, what, and of which project. It holds
// no secret, and nothing that a sender wrote freely.
type Change struct {
	Time      time.Time
	Action    Action
	KeyID     string // whose key asked for it; "" for a person on a page
	Person    string // the address of a person who asked for it; "" for a key
	Project   string // its name; "" for what concerns no single one
	ProjectID string
	Target    string // the token's or dead letter's ID, else ""
	RequestID string
	Address   string // of the connection's other end
}

// Audit is told of every change, once it is made.
type Audit interface {
	Changed(ctx context.Context, change Change)
}

// logAudit keeps the changes in the process's log.
type logAudit struct {
	logger *slog.Logger
}

// NewLogAudit writes one log line a change.
func NewLogAudit(logger *slog.Logger) Audit { return logAudit{logger} }

// Changed implements Audit.
func (a logAudit) Changed(ctx context.Context, change Change) {
	a.logger.LogAttrs(ctx, slog.LevelInfo, "change made",
		slog.String("action", string(change.Action)),
		slog.String("key_id", change.KeyID),
		slog.String("person", change.Person),
		slog.String("project", change.Project),
		slog.String("project_id", change.ProjectID),
		slog.String("target", change.Target),
		slog.String("request_id", change.RequestID),
		slog.String("addr", change.Address),
	)
}

// changed tells the audit what the request did.
func (s *Server) changed(r *request, action Action, p project.Project, target string) {
	person := ""
	if r.key.ID == "" { // the session of a person: see identify
		person = r.key.Name
	}
	s.deps.Audit.Changed(r.Request().Context(), Change{
		Time: time.Now().UTC(), Action: action, KeyID: r.key.ID, Person: person, Project: p.Name, ProjectID: p.ID, Target: target,
		RequestID: telemetry.RequestID(r), Address: r.RealIP(),
	})
}
