package admin

import (
	"context"
	"net/http"
	"time"

	"github.com/nats-io/nuid"

	"github.com/logboom/logboom/pkg/webhook"
)

// Webhooks send a message to a chat; webhook.Sender does, the same way as the
// notifier's.
type Webhooks interface {
	Deliver(ctx context.Context, t webhook.Target, m webhook.Message) webhook.Result
}

// Signatures know the secret that a project's generic messages are signed with;
// webhook.Signer does.
type Signatures interface {
	Secret(projectID string) (string, error)
}

// noWebhooks stands where the service was given none.
type noWebhooks struct{}

func (noWebhooks) Deliver(context.Context, webhook.Target, webhook.Message) webhook.Result {
	return webhook.Result{Outcome: webhook.Refused, Detail: "this process sends no messages"}
}

// testResult is what became of a test message: delivered, failed (the service
// did not take it or did not answer), or refused (it was not sent at all).
type testResult struct {
	State  string `json:"state"`
	Status int    `json:"status"` // of the service's answer, 0 without one
	Answer string `json:"answer"` // its first KiB
	Detail string `json:"detail"`
}

// testAlerts sends a message to where the project's alerts go. It waits for the
// service, at most ten seconds, and does not try again.
func (s *Server) testAlerts(r *request) error {
	alerts, err := s.deps.Directory.Alerts(r.Request().Context(), r.project.Name)
	if err != nil {
		return err
	}
	if !alerts.WebhookURL.IsSet() {
		return &fieldError{"webhook_url", "is not set: there is nowhere to send a message to"}
	}
	to := webhook.Target{Address: alerts.WebhookURL.Reveal(), Format: webhook.Format(alerts.Format), ProjectID: r.project.ID}
	result := s.deps.Webhooks.Deliver(r.Request().Context(), to, webhook.Message{
		ID: "test-" + nuid.Next(), Kind: "test", Project: r.project.Name, Title: "A test message", Icon: "🔔", Time: time.Now(),
		Text: "Alerts of the project " + r.project.Name + " will arrive here.",
	})
	s.changed(r, AlertsTested, r.project, "")
	return r.JSON(http.StatusOK, testResult{State: result.Outcome.String(), Status: result.Status, Answer: result.Answer, Detail: result.Detail})
}

// signingSecret is what a receiver of the generic format checks signatures with.
type signingSecret struct {
	Secret string `json:"secret"` // by the rules of Standard Webhooks: whsec_…
}

func (s *Server) alertsSecret(r *request) error {
	secret := ""
	if s.deps.Signatures != nil {
		var err error
		if secret, err = s.deps.Signatures.Secret(r.project.ID); err != nil {
			return err
		}
	}
	return r.JSON(http.StatusOK, signingSecret{secret})
}
