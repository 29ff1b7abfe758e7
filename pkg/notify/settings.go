package notify

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/logboom/logboom/pkg/project"
	"github.com/logboom/logboom/pkg/webhook"
)

// settingsAge is how old what is known of a project's alerts may be.
const settingsAge = time.Second

// maxSettings bounds the projects that are remembered.
const maxSettings = 10_000

// settings remembers for a moment where projects' alerts go.
type settings struct {
	projects Projects

	mu    sync.Mutex
	known map[string]setting
}

type setting struct {
	alerts project.Alerts
	err    error
	asked  time.Time
}

func newSettings(projects Projects) *settings {
	return &settings{projects: projects, known: map[string]setting{}}
}

// of is where a project's alerts go: project.ErrNotFound where it is gone, and
// ErrNoKey where its address cannot be read.
func (s *settings) of(ctx context.Context, projectID string) (project.Alerts, error) {
	return s.since(ctx, projectID, time.Now().Add(-settingsAge))
}

// reachable is of for what a project need not be told: ok is false where it is
// gone, where its alerts are turned off, and where its address cannot be read.
func (s *settings) reachable(ctx context.Context, projectID string) (alerts project.Alerts, ok bool, err error) {
	alerts, err = s.of(ctx, projectID)
	if errors.Is(err, project.ErrNotFound) || errors.Is(err, project.ErrNoKey) {
		return project.Alerts{}, false, nil
	}
	return alerts, err == nil && alerts.WebhookURL.IsSet(), err
}

// since is of, but that there is no address is believed only where it was asked
// after that time: who sets one and sends an event at once is heard.
func (s *settings) since(ctx context.Context, projectID string, at time.Time) (project.Alerts, error) {
	s.mu.Lock()
	known, ok := s.known[projectID]
	s.mu.Unlock()
	if ok && time.Since(known.asked) < settingsAge && (known.alerts.WebhookURL.IsSet() || known.asked.After(at)) {
		return known.alerts, known.err
	}
	return s.ask(ctx, projectID)
}

func (s *settings) ask(ctx context.Context, projectID string) (project.Alerts, error) {
	asked := time.Now()
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	alerts, err := s.projects.AlertsByID(ctx, projectID)
	if err != nil && !errors.Is(err, project.ErrNotFound) && !errors.Is(err, project.ErrNoKey) {
		return alerts, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.known) >= maxSettings {
		clear(s.known)
	}
	s.known[projectID] = setting{alerts, err, asked}
	return alerts, err
}

// projectName is the name in front of an id's random tail.
func projectName(projectID string) string {
	name, _, _ := strings.Cut(projectID, "~")
	return name
}

// target is where a project's messages go.
func target(projectID string, a project.Alerts) webhook.Target {
	return webhook.Target{Address: a.WebhookURL.Reveal(), Format: webhook.Format(a.Format), ProjectID: projectID}
}

// fingerprint tells one address and format from another and shows neither.
func fingerprint(t webhook.Target) string {
	sum := sha256.Sum256([]byte(string(t.Format) + "\x00" + t.Address + "\x00" + t.ProjectID))
	return hex.EncodeToString(sum[:8])
}

// shown is a destination as rows name it.
func shown(a project.Alerts) string {
	redacted := a.Redacted()
	if redacted.Host == "" {
		return ""
	}
	return redacted.Host + "/…" + redacted.Last4
}
