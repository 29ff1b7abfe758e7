package project

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// Alerts say where a project's alerts go, and which. The zero value is that of
// a project that sends none.
type Alerts struct {
	WebhookURL  Secret // unset: no alerts are sent
	Format      string // one of AlertFormats; empty is read as auto
	MinSeverity string // of logs that alert, a severity word; empty: none do
}

// AlertFormats are the chat services whose messages can be written, auto first:
// it tells them by the address.
func AlertFormats() []string {
	return []string{"auto", "slack", "discord", "teams", "mattermost", "rocketchat", "googlechat", "telegram", "generic"}
}

// Validate names the first field that is wrong, never with the address, and
// spells the others as they are kept.
func (a *Alerts) Validate() error {
	if reason := urlFault(a.WebhookURL.Reveal()); reason != "" {
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

// urlFault tells what is wrong with a webhook's address, without repeating it.
// Whom it may reach is decided when it is dialled, not here.
func urlFault(address string) string {
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

// Redacted keeps of the address what tells it from others: host and last four
// characters; nothing of one that Validate refuses.
func (a *Alerts) Redacted() RedactedAlerts {
	r := RedactedAlerts{Format: a.Format, MinSeverity: a.MinSeverity}
	address := a.WebhookURL.Reveal()
	if u, err := url.Parse(address); err == nil && urlFault(address) == "" {
		r.Host, r.Last4 = u.Host, last4(address)
	}
	return r
}

// alertsDocument is a project's alerts in the record.
type alertsDocument struct {
	ProjectID   string    `json:"project_id"`
	WebhookURL  sealed    `json:"webhook_url"`
	Format      string    `json:"format"`
	MinSeverity string    `json:"min_severity"`
	Changed     time.Time `json:"changed"`
}

const alertKeys = "alerts."

// webhookOwner is what a sealed address is bound to.
func webhookOwner(projectID string) string { return "alerts.webhook_url\x00" + projectID }

// SetAlerts has the project's alerts go where a says. ErrNoKey where the store
// has no key to keep the address secret with.
func (s *Store) SetAlerts(ctx context.Context, project string, a Alerts) error {
	_, err := s.ChangeAlerts(ctx, project, func(current *Alerts) { *current = a })
	return err
}

// ChangeAlerts applies change to the project's alerts, whatever others change
// at the same time: change may be called more than once.
func (s *Store) ChangeAlerts(ctx context.Context, project string, change func(*Alerts)) (Alerts, error) {
	if s.keys.current == "" {
		return Alerts{}, fmt.Errorf("alerts of project %s: %w", project, ErrNoKey)
	}
	p, err := s.Project(ctx, project)
	if err != nil {
		return Alerts{}, err
	}
	for range changeAttempts {
		a, revision, err := s.readAlerts(ctx, p.ID)
		if err != nil && !errors.Is(err, ErrNoKey) { // what a lost key sealed can still be replaced
			return Alerts{}, err
		}
		change(&a)
		if err := a.Validate(); err != nil {
			return Alerts{}, err
		}
		err = s.writeAlerts(ctx, p.ID, a, revision)
		if !errors.Is(err, errSwapped) {
			return a, err
		}
	}
	return Alerts{}, fmt.Errorf("alerts of project %s: %w: others change them without pause", project, ErrUnavailable)
}

func (s *Store) writeAlerts(ctx context.Context, projectID string, a Alerts, revision uint64) error {
	box, err := s.keys.seal(a.WebhookURL, webhookOwner(projectID))
	if err != nil {
		return err
	}
	document := alertsDocument{projectID, box, a.Format, a.MinSeverity, now()}
	return s.alerts.put(ctx, alertKeys+idKey(projectID), document, revision)
}

// readAlerts gives the alerts of the project with the ID, the zero value where
// none were set. With ErrNoKey it gives what it could read.
func (s *Store) readAlerts(ctx context.Context, projectID string) (a Alerts, revision uint64, err error) {
	var document alertsDocument
	revision, err = s.alerts.read(ctx, alertKeys+idKey(projectID), &document)
	if errors.Is(err, ErrNotFound) {
		return Alerts{}, 0, nil
	}
	if err != nil {
		return Alerts{}, 0, err
	}
	a = Alerts{Format: document.Format, MinSeverity: document.MinSeverity}
	a.WebhookURL, err = s.keys.open(document.WebhookURL, webhookOwner(projectID))
	if err != nil {
		err = fmt.Errorf("alerts of project %s: %w", projectID, err)
	}
	return a, revision, err
}

// Alerts tells where the project's alerts go; the zero value where none were
// set. ErrNoKey where the address was sealed with a key that was not given.
func (s *Store) Alerts(ctx context.Context, project string) (Alerts, error) {
	p, err := s.Project(ctx, project)
	if err != nil {
		return Alerts{}, err
	}
	return s.alertsOf(ctx, p.ID)
}

// AlertsByID is Alerts for who knows the project by its ID, as rows and
// messages name it; ErrNotFound where that project is gone.
func (s *Store) AlertsByID(ctx context.Context, projectID string) (Alerts, error) {
	alive, err := s.isAlive(ctx, projectID)
	if err != nil {
		return Alerts{}, err
	}
	if !alive {
		return Alerts{}, fmt.Errorf("project %s: %w", projectID, ErrNotFound)
	}
	return s.alertsOf(ctx, projectID)
}

func (s *Store) alertsOf(ctx context.Context, projectID string) (Alerts, error) {
	a, _, err := s.readAlerts(ctx, projectID)
	if err != nil {
		return Alerts{}, err
	}
	return a, nil
}

// ClearAlerts has the project send none, and forgets the address. Nothing
// happens where none were set.
func (s *Store) ClearAlerts(ctx context.Context, project string) error {
	p, err := s.Project(ctx, project)
	if err != nil {
		return err
	}
	return s.alerts.clear(ctx, alertKeys+idKey(p.ID))
}

// ResealAlerts seals with the current key what older ones sealed, and tells of
// how many projects that was. Once every process has the current key and this
// succeeded, the old ones are needed no more.
func (s *Store) ResealAlerts(ctx context.Context) (resealed int, err error) {
	if s.keys.current == "" {
		return 0, ErrNoKey
	}
	old := map[string]bool{} // by project ID
	err = s.alerts.scan(ctx, alertKeys+"*", func(entry jetstream.KeyValueEntry) error {
		var document alertsDocument
		if err := json.Unmarshal(entry.Value(), &document); err != nil {
			return fmt.Errorf("read %s: %w", entry.Key(), err)
		}
		if document.WebhookURL.Key != s.keys.current {
			old[document.ProjectID] = true
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	var failed error
	for projectID := range old {
		if err := s.reseal(ctx, projectID); err != nil {
			failed = errors.Join(failed, err)
			continue
		}
		resealed++
	}
	return resealed, failed
}

func (s *Store) reseal(ctx context.Context, projectID string) error {
	a, revision, err := s.readAlerts(ctx, projectID)
	if err != nil || revision == 0 {
		return err
	}
	err = s.writeAlerts(ctx, projectID, a, revision)
	if errors.Is(err, errSwapped) {
		return nil // somebody set them anew meanwhile
	}
	return err
}
