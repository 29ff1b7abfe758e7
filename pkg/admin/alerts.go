package admin

import (
	"context"
	"time"

	"github.com/nats-io/nuid"

	"github.com/logboom/logboom/pkg/clickhouse"
	"github.com/logboom/logboom/pkg/project"
	"github.com/logboom/logboom/pkg/webhook"
)

// Alerts returns where the project's alerts go. The address is a secret.
func (s *Service) Alerts(ctx context.Context, found project.Project) (project.Alerts, error) {
	return s.deps.Projects.Alerts(ctx, found.Name)
}

// ChangeAlerts applies the change to the project's alerts as they are now. The
// change may be called more than once.
func (s *Service) ChangeAlerts(ctx context.Context, caller Caller, found project.Project, change func(*project.Alerts)) (project.Alerts, error) {
	ctx, cancel := s.changing(ctx)
	defer cancel()
	changed, err := s.deps.Projects.ChangeAlerts(ctx, found.Name, change)
	if err != nil {
		return project.Alerts{}, err
	}
	s.record(ctx, caller, AlertsChanged, found, "")
	return changed, nil
}

// ClearAlerts turns the project's alerts off and deletes the address.
func (s *Service) ClearAlerts(ctx context.Context, caller Caller, found project.Project) error {
	ctx, cancel := s.changing(ctx)
	defer cancel()
	if err := s.deps.Projects.ClearAlerts(ctx, found.Name); err != nil {
		return err
	}
	s.record(ctx, caller, AlertsChanged, found, "off")
	return nil
}

// TestAlerts sends a test message to where the project's alerts go and returns
// what happened. It waits for the service for at most ten seconds and does not
// retry.
func (s *Service) TestAlerts(ctx context.Context, caller Caller, found project.Project) (webhook.Result, error) {
	alerts, err := s.deps.Projects.Alerts(ctx, found.Name)
	if err != nil {
		return webhook.Result{}, err
	}
	if !alerts.WebhookURL.IsSet() {
		return webhook.Result{}, &project.InvalidError{Field: "webhook_url", Reason: "is not set: there is no address to send a message to"}
	}
	to := webhook.Target{Address: alerts.WebhookURL.Reveal(), Format: webhook.Format(alerts.Format), ProjectID: found.ID}
	result := s.deps.Webhooks.Deliver(ctx, to, webhook.Message{
		ID: "test-" + nuid.Next(), Kind: "test", Project: found.Name, Title: "A test message", Icon: "🔔", Time: time.Now(),
		Text: "Alerts of the project " + found.Name + " will arrive here.",
	})
	ctx, cancel := s.changing(ctx)
	defer cancel()
	s.record(ctx, caller, AlertsTested, found, "")
	return result, nil
}

// SigningSecret returns the secret with which the project's messages of the
// generic format are signed, as defined by Standard Webhooks: whsec_….
func (s *Service) SigningSecret(found project.Project) (string, error) {
	return s.deps.Signatures.Secret(found.ID)
}

// Deliveries returns a page of the project's notifications, newest first.
func (s *Service) Deliveries(ctx context.Context, found project.Project, q clickhouse.DeliveryQuery) (clickhouse.DeliveryPage, error) {
	q.Project = found.ID
	return read(ctx, s, q, s.deps.Reader.Deliveries)
}

// DeliverySteps returns each step of the notification with the event's ID, the
// oldest first.
func (s *Service) DeliverySteps(ctx context.Context, found project.Project, id string) ([]clickhouse.DeliveryStep, error) {
	ctx, cancel := s.querying(ctx)
	defer cancel()
	return s.deps.Reader.DeliverySteps(ctx, found.ID, id)
}
