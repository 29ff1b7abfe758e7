package admin

import (
	"net/http"

	"github.com/logboom/logboom/pkg/project"
)

// alertsBody is where alerts go, and which, as a script gives and is shown it.
type alertsBody struct {
	WebhookURL  string `json:"webhook_url"`
	Format      string `json:"format"`
	MinSeverity string `json:"min_severity"`
}

// shownAlerts keeps of the address its host and last four characters. What is
// shown is no address, so it cannot be sent back by mistake.
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

func (s *Server) alerts(r *request) error {
	found, err := s.deps.Directory.Alerts(r.Request().Context(), r.project.Name)
	if err != nil {
		return err
	}
	return r.JSON(http.StatusOK, shownAlerts(found))
}

// changeAlerts sets what is given; the rest keeps its value, so that nobody
// needs the address again to change something else. An empty address turns
// alerts off and forgets all of them.
func (s *Server) changeAlerts(r *request) error {
	sent, err := readBody[alertsBody](r)
	if err != nil {
		return err
	}
	var wanted alertsBody
	if err := sent.into(&wanted); err != nil {
		return err
	}
	var changed project.Alerts
	ctx, cancel := r.changing()
	defer cancel()
	if sent.given["webhook_url"] && wanted.WebhookURL == "" {
		err = s.deps.Directory.ClearAlerts(ctx, r.project.Name)
	} else {
		changed, err = s.deps.Directory.ChangeAlerts(ctx, r.project.Name, sent.overAlerts)
	}
	if err != nil {
		return err
	}
	s.changed(r, AlertsChanged, r.project, "")
	return r.JSON(http.StatusOK, shownAlerts(changed))
}

// overAlerts puts what the body gives over what there is.
func (b body) overAlerts(current *project.Alerts) {
	merged := alertsBody{current.WebhookURL.Reveal(), current.Format, current.MinSeverity}
	_ = b.into(&merged) // the types were checked before
	*current = project.Alerts{WebhookURL: project.NewSecret(merged.WebhookURL), Format: merged.Format, MinSeverity: merged.MinSeverity}
}
