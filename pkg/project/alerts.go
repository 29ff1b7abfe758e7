package project

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/logboom/logboom/pkg/kv"
	"github.com/logboom/logboom/pkg/secret"
)

// Alerts say where a project's alerts are sent, and which. The zero value sends
// none.
type Alerts struct {
	WebhookURL  secret.Value // unset: no alerts are sent
	Format      string       // one of AlertFormats; empty means auto
	MinSeverity string       // the lowest severity of logs that raise an alert; empty: no log does
}

// AlertFormats returns the chat services that messages can be formatted for.
// The first, auto, chooses by the address.
func AlertFormats() []string {
	return []string{"auto", "slack", "discord", "teams", "mattermost", "rocketchat", "googlechat", "telegram", "generic"}
}

// Validate names the first field that is wrong, without repeating the address.
// It fills in the default format and puts the severity in lower case.
func (a *Alerts) Validate() error {
	if reason := checkWebhookURL(a.WebhookURL.Reveal()); reason != "" {
		return &InvalidError{"webhook_url", reason}
	}
	formats := AlertFormats()
	if a.Format == "" {
		a.Format = formats[0]
	}
	if !slices.Contains(formats, a.Format) {
		return &InvalidError{"format", "must be one of " + strings.Join(formats, ", ")}
	}
	if err := checkSeverity("min_severity", a.MinSeverity); err != nil {
		return err
	}
	a.MinSeverity = strings.ToLower(a.MinSeverity)
	return nil
}

const maxWebhookURL = 2 << 10

// checkWebhookURL returns what is wrong with the form of a webhook's address,
// without repeating it. Which hosts it may reach is checked when the address is
// dialled.
func checkWebhookURL(address string) (reason string) {
	if len(address) > maxWebhookURL {
		return "must be at most 2048 bytes long"
	}
	if strings.ContainsFunc(address, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
		return "must be ASCII without spaces: write other characters in percent or punycode encoding"
	}
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Hostname() == "" {
		return "must be an address such as https://hooks.example.org/path"
	}
	if u.User != nil {
		return "must have no user or password before the host"
	}
	if u.Fragment != "" {
		return "must have no fragment (#)"
	}
	if port, err := strconv.ParseUint(u.Port(), 10, 16); u.Port() != "" && (err != nil || port == 0) {
		return "must have a port from 1 to 65535"
	}
	return ""
}

// RedactedAlerts are Alerts as they may be shown.
type RedactedAlerts struct {
	Host        string `json:"host"`  // of the address, with its port; empty: no alerts are sent
	Last4       string `json:"last4"` // of the address
	Format      string `json:"format"`
	MinSeverity string `json:"min_severity"`
}

// Redacted returns the alerts with the host and the last four characters of the
// address, and nothing of an address that Validate refuses.
func (a *Alerts) Redacted() RedactedAlerts {
	r := RedactedAlerts{Format: a.Format, MinSeverity: a.MinSeverity}
	address := a.WebhookURL.Reveal()
	if u, err := url.Parse(address); err == nil && checkWebhookURL(address) == "" {
		r.Host, r.Last4 = u.Host, secret.Last4(address)
	}
	return r
}

// alertsDocument is how a project's alerts are stored.
type alertsDocument struct {
	ProjectID   string    `json:"project_id"`
	WebhookURL  sealed    `json:"webhook_url"`
	Format      string    `json:"format"`
	MinSeverity string    `json:"min_severity"`
	Changed     time.Time `json:"changed"`
}

const alertsKeys = "alerts."

func alertsKey(projectID string) string { return alertsKeys + IDToKey(projectID) }

// sealOwner is what a sealed address is bound to, so that it cannot be copied to
// another project.
func sealOwner(projectID string) string { return "alerts.webhook_url\x00" + projectID }

// ChangeAlerts applies change to the project's alerts. It calls change again if
// another caller changes them at the same time. ErrNoKey means that the store
// has no key to encrypt the address with. Alerts whose address was encrypted
// with a lost key can still be replaced.
func (s *Store) ChangeAlerts(ctx context.Context, project string, change func(*Alerts)) (Alerts, error) {
	if s.keys.current == "" {
		return Alerts{}, fmt.Errorf("alerts of project %s: %w", project, ErrNoKey)
	}
	p, err := s.Project(ctx, project)
	if err != nil {
		return Alerts{}, err
	}
	var a Alerts
	err = kv.Retry("alerts of project "+project, func() error {
		var revision uint64
		var err error
		a, revision, err = s.loadAlerts(ctx, p.ID)
		if err != nil && !errors.Is(err, ErrNoKey) {
			return err
		}
		change(&a)
		if err := a.Validate(); err != nil {
			return err
		}
		return s.storeAlerts(ctx, p.ID, a, revision)
	})
	if err != nil {
		return Alerts{}, err
	}
	return a, nil
}

func (s *Store) storeAlerts(ctx context.Context, projectID string, a Alerts, revision uint64) error {
	address, err := s.keys.seal(a.WebhookURL, sealOwner(projectID))
	if err != nil {
		return err
	}
	document := alertsDocument{projectID, address, a.Format, a.MinSeverity, time.Now().UTC()}
	_, err = s.alerts.Swap(ctx, alertsKey(projectID), document, revision)
	return err
}

// loadAlerts returns the zero value and revision 0 if no alerts are set. With
// ErrNoKey it returns everything but the address.
func (s *Store) loadAlerts(ctx context.Context, projectID string) (a Alerts, revision uint64, err error) {
	var document alertsDocument
	revision, err = s.alerts.Load(ctx, alertsKey(projectID), &document)
	if errors.Is(err, ErrNotFound) {
		return Alerts{}, 0, nil
	}
	if err != nil {
		return Alerts{}, 0, err
	}
	a = Alerts{Format: document.Format, MinSeverity: document.MinSeverity}
	a.WebhookURL, err = s.keys.open(document.WebhookURL, sealOwner(projectID))
	if err != nil {
		err = fmt.Errorf("alerts of project %s: %w", projectID, err)
	}
	return a, revision, err
}

// Alerts returns the alerts of the project with the name, or the zero value if
// none are set. ErrNoKey means that the key that encrypted the address is not
// among those of the store.
func (s *Store) Alerts(ctx context.Context, project string) (Alerts, error) {
	p, err := s.Project(ctx, project)
	if err != nil {
		return Alerts{}, err
	}
	return s.alertsOf(ctx, p.ID)
}

// AlertsByID returns the alerts of the project with the ID, as rows and messages
// name it; ErrNotFound if that project was deleted.
func (s *Store) AlertsByID(ctx context.Context, projectID string) (Alerts, error) {
	exists, err := s.Exists(ctx, projectID)
	if err != nil {
		return Alerts{}, err
	}
	if !exists {
		return Alerts{}, fmt.Errorf("project %s: %w", projectID, ErrNotFound)
	}
	return s.alertsOf(ctx, projectID)
}

func (s *Store) alertsOf(ctx context.Context, projectID string) (Alerts, error) {
	a, _, err := s.loadAlerts(ctx, projectID)
	if err != nil {
		return Alerts{}, err
	}
	return a, nil
}

// ClearAlerts deletes the project's alerts and their address. It does nothing if
// none are set.
func (s *Store) ClearAlerts(ctx context.Context, project string) error {
	p, err := s.Project(ctx, project)
	if err != nil {
		return err
	}
	return s.clearAlerts(ctx, p.ID)
}

func (s *Store) clearAlerts(ctx context.Context, projectID string) error {
	_, err := s.alerts.Get(ctx, alertsKey(projectID))
	if errors.Is(err, ErrNotFound) {
		return nil // a deletion would leave a mark of its own
	}
	if err != nil {
		return err
	}
	return s.alerts.Delete(ctx, alertsKey(projectID), 0)
}

// AlertsRevision returns a number that grows with every change of any project's
// alerts.
func (s *Store) AlertsRevision(ctx context.Context) (uint64, error) {
	return s.alerts.Revision(ctx)
}

// listAlerts calls each with the stored alerts of every project.
func (s *Store) listAlerts(ctx context.Context, each func(kv.Entry, alertsDocument) error) error {
	entries, err := s.alerts.List(ctx, alertsKeys+"*")
	if err != nil {
		return err
	}
	for _, entry := range entries {
		var document alertsDocument
		if err := entry.Decode(&document); err != nil {
			return err
		}
		if err := each(entry, document); err != nil {
			return err
		}
	}
	return nil
}

// LogSeverities returns, for each project ID, the lowest severity of logs that
// raises an alert. It has no entry for a project without an address or without
// such a severity; it may have one for a project that was just deleted.
func (s *Store) LogSeverities(ctx context.Context) (map[string]string, error) {
	severities := map[string]string{}
	err := s.listAlerts(ctx, func(_ kv.Entry, document alertsDocument) error {
		if document.MinSeverity != "" && !document.WebhookURL.isEmpty() {
			severities[document.ProjectID] = document.MinSeverity
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return severities, nil
}

// ResealAlerts encrypts with the current key every address that an older key
// encrypted, and returns how many it was. When every process has the current
// key and ResealAlerts has succeeded, the older keys are no longer needed. An
// address whose key is missing leads to ErrNoKey and does not stop the others.
func (s *Store) ResealAlerts(ctx context.Context) (resealed int, err error) {
	var failed error
	err = s.listAlerts(ctx, func(_ kv.Entry, document alertsDocument) error {
		if document.WebhookURL.Key == s.keys.current {
			return nil
		}
		a, revision, err := s.loadAlerts(ctx, document.ProjectID)
		if err == nil && revision != 0 {
			err = s.storeAlerts(ctx, document.ProjectID, a, revision)
		}
		switch {
		case errors.Is(err, kv.ErrChanged): // another process has just encrypted it with its key
		case err != nil:
			failed = errors.Join(failed, err)
		default:
			resealed++
		}
		return nil
	})
	return resealed, errors.Join(err, failed)
}

// SweepAlerts deletes the alerts of projects that no longer exist, which a
// deletion that was interrupted leaves behind, and returns how many it was.
func (s *Store) SweepAlerts(ctx context.Context) (swept int, err error) {
	exists, err := s.Survivors(ctx)
	if err != nil {
		return 0, err
	}
	err = s.listAlerts(ctx, func(entry kv.Entry, document alertsDocument) error {
		found, err := exists(document.ProjectID)
		if err != nil || found {
			return err
		}
		err = s.alerts.Delete(ctx, entry.Key, entry.Revision)
		if errors.Is(err, kv.ErrChanged) {
			return nil
		}
		swept++
		return err
	})
	return swept, err
}
