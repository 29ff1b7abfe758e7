package api

import (
	"net/http"
	"slices"
	"strings"

	"github.com/logboom/logboom/pkg/clickhouse"
	"github.com/logboom/logboom/pkg/project"
	"github.com/logboom/logboom/pkg/secret"
)

// alertsBody is where alerts go and which, as clients send and see it.
type alertsBody struct {
	WebhookURL  string `json:"webhook_url"`
	Format      string `json:"format"`
	MinSeverity string `json:"min_severity"`
}

// shownAlerts shows the host and the last four characters of the address. This
// is not an address, so that clients cannot send it back by mistake.
func shownAlerts(a project.Alerts) alertsBody {
	redacted := a.Redacted()
	shown := alertsBody{Format: redacted.Format, MinSeverity: redacted.MinSeverity}
	if redacted.Host != "" {
		shown.WebhookURL = redacted.Host + "/…" + redacted.Last4
	}
	if shown.Format == "" {
		shown.Format = project.AlertFormats()[0]
	}
	return shown
}

func (a *API) alerts(r *request) error {
	found, err := a.service.Alerts(r.Request().Context(), r.project)
	if err != nil {
		return err
	}
	return r.JSON(http.StatusOK, shownAlerts(found))
}

// changeAlerts sets the fields that are given. The others keep their value, so
// that the address need not be sent again to change another field. An empty
// address turns alerts off and deletes all fields.
func (a *API) changeAlerts(r *request) error {
	sent, err := readBody[alertsBody](r)
	if err != nil {
		return err
	}
	var wanted alertsBody
	if err := sent.into(&wanted); err != nil {
		return err
	}
	var changed project.Alerts
	if sent.given["webhook_url"] && wanted.WebhookURL == "" {
		err = a.service.ClearAlerts(r.Request().Context(), r.caller, r.project)
	} else {
		changed, err = a.service.ChangeAlerts(r.Request().Context(), r.caller, r.project, func(current *project.Alerts) {
			merged := alertsBody{current.WebhookURL.Reveal(), current.Format, current.MinSeverity}
			_ = sent.into(&merged) // the types were checked above
			*current = project.Alerts{WebhookURL: secret.New(merged.WebhookURL), Format: merged.Format, MinSeverity: merged.MinSeverity}
		})
	}
	if err != nil {
		return err
	}
	return r.JSON(http.StatusOK, shownAlerts(changed))
}

// testResult is the result of a test message: delivered, failed (the service
// refused it or did not answer), or refused (it was not sent).
type testResult struct {
	State  string `json:"state"`
	Status int    `json:"status"` // of the service's answer, 0 without one
	Answer string `json:"answer"` // its first KiB
	Detail string `json:"detail"`
}

func (a *API) testAlerts(r *request) error {
	result, err := a.service.TestAlerts(r.Request().Context(), r.caller, r.project)
	if err != nil {
		return err
	}
	return r.JSON(http.StatusOK, testResult{State: result.Outcome.String(), Status: result.Status, Answer: result.Answer, Detail: result.Detail})
}

// signingSecret is what a receiver of the generic format checks signatures with.
type signingSecret struct {
	Secret string `json:"secret"` // by the rules of Standard Webhooks: whsec_…
}

func (a *API) alertsSecret(r *request) error {
	secret, err := a.service.SigningSecret(r.project)
	if err != nil {
		return err
	}
	return r.JSON(http.StatusOK, signingSecret{secret})
}

// deliveries answers a page of a project's notifications, newest first.
func (a *API) deliveries(r *request) error {
	q := clickhouse.DeliveryQuery{State: r.QueryParam("state")}
	if q.State != "" && !slices.Contains(clickhouse.DeliveryStates(), q.State) {
		return &fieldError{"state", "must be one of " + strings.Join(clickhouse.DeliveryStates(), ", ")}
	}
	var err error
	if q.Limit, q.Cursor, err = readPage(r); err != nil {
		return err
	}
	if q.From, q.To, err = readTimes(r); err != nil {
		return err
	}
	return answer(r, q, a.service.Deliveries)
}
