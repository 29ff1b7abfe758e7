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

const (
	// alertsAge is how old a cached alert setting may be.
	alertsAge = time.Second
	// maxCachedAlerts bounds the number of cached projects.
	maxCachedAlerts = 10_000
)

// alertsCache caches the projects' alert settings for a moment.
type alertsCache struct {
	projects Projects

	mu     sync.Mutex
	cached map[string]cachedAlerts
}

type cachedAlerts struct {
	alerts project.Alerts
	err    error
	loaded time.Time
}

func newAlertsCache(projects Projects) *alertsCache {
	return &alertsCache{projects: projects, cached: map[string]cachedAlerts{}}
}

// load returns a project's alert settings. It returns project.ErrNotFound if the
// project was deleted, and project.ErrNoKey if its address cannot be decrypted.
func (c *alertsCache) load(ctx context.Context, projectID string) (project.Alerts, error) {
	return c.loadSince(ctx, projectID, time.Now().Add(-alertsAge))
}

// loadSince is load, except that a missing address must have been read after a
// time. A person who sets an address and sends an event at once gets its alert.
func (c *alertsCache) loadSince(ctx context.Context, projectID string, since time.Time) (project.Alerts, error) {
	c.mu.Lock()
	cached, ok := c.cached[projectID]
	c.mu.Unlock()
	if ok && time.Since(cached.loaded) < alertsAge && (cached.alerts.WebhookURL.IsSet() || cached.loaded.After(since)) {
		return cached.alerts, cached.err
	}
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	alerts, err := c.projects.AlertsByID(ctx, projectID)
	if err != nil && !errors.Is(err, project.ErrNotFound) && !errors.Is(err, project.ErrNoKey) {
		return alerts, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.cached) >= maxCachedAlerts {
		clear(c.cached)
	}
	c.cached[projectID] = cachedAlerts{alerts, err, began}
	return alerts, err
}

// loadIfOn is load for alerts that may be dropped. ok is false if the project was
// deleted, its alerts are turned off, or its address cannot be decrypted.
func (c *alertsCache) loadIfOn(ctx context.Context, projectID string) (alerts project.Alerts, ok bool, err error) {
	alerts, err = c.load(ctx, projectID)
	if errors.Is(err, project.ErrNotFound) || errors.Is(err, project.ErrNoKey) {
		return project.Alerts{}, false, nil
	}
	return alerts, err == nil && alerts.WebhookURL.IsSet(), err
}

// projectName returns the name of a project, which its ID begins with.
func projectName(projectID string) string {
	name, _, _ := strings.Cut(projectID, "~")
	return name
}

// target returns the address of a project's alerts, with its format resolved.
func target(projectID string, a project.Alerts) webhook.Target {
	address := a.WebhookURL.Reveal()
	return webhook.Target{Address: address, Format: webhook.Resolve(webhook.Format(a.Format), address), ProjectID: projectID}
}

// fingerprint returns a digest that differs between addresses and formats, and
// reveals neither.
func fingerprint(t webhook.Target) string {
	sum := sha256.Sum256([]byte(string(t.Format) + "\x00" + t.Address + "\x00" + t.ProjectID))
	return hex.EncodeToString(sum[:8])
}

// redacted returns an address in the form that rows show.
func redacted(a project.Alerts) string {
	short := a.Redacted()
	if short.Host == "" {
		return ""
	}
	return short.Host + "/…" + short.Last4
}
