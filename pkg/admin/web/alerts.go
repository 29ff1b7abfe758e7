package web

import (
	"net/http"
	"slices"
	"strings"

	"github.com/logboom/logboom/pkg/clickhouse"
	"github.com/logboom/logboom/pkg/project"
	"github.com/logboom/logboom/pkg/secret"
	"github.com/logboom/logboom/pkg/webhook"
)

// shownDeliveries is how many messages the page lists.
const shownDeliveries = 20

// alertsView is where a project's alerts go, which alerts, and the result of the
// last ones. It contains only the host and the last characters of the address.
type alertsView struct {
	Host, Last4 string
	Format      string // as chosen: auto, or a service
	Recognised  string // the service that the address belongs to; "": unknown
	Formats     []formatChoice
	MinSeverity string
	Deliveries  []clickhouse.Delivery
	Known       bool // the deliveries could be read
	State       string
	Field       string // which one is wrong
	Fault       string
}

// formatChoice is a chat service that may be chosen.
type formatChoice struct {
	Value, Name string
}

// formatNames are the chat services as they call themselves.
var formatNames = map[string]string{
	"auto": "Recognised from the address", "slack": "Slack", "discord": "Discord", "teams": "Microsoft Teams", "mattermost": "Mattermost",
	"rocketchat": "Rocket.Chat", "googlechat": "Google Chat", "telegram": "Telegram", "generic": "Any other (signed JSON)",
}

func formatName(format string) string {
	if name, ok := formatNames[format]; ok {
		return name
	}
	return format
}

func (p *Pages) alertsPage(r *request) error {
	current, err := p.service.Alerts(r.Request().Context(), r.project)
	if err != nil {
		return err
	}
	return r.showAlerts(http.StatusOK, current, alertsView{Format: current.Format, MinSeverity: current.MinSeverity})
}

// showAlerts shows the form as it is in v over the alerts as they are saved.
func (r *request) showAlerts(status int, current project.Alerts, v alertsView) error {
	redacted := current.Redacted()
	v.Host, v.Last4 = redacted.Host, redacted.Last4
	if format := webhook.Resolve(webhook.Auto, current.WebhookURL.Reveal()); redacted.Host != "" && format != webhook.Generic {
		v.Recognised = formatName(string(format))
	}
	for _, format := range project.AlertFormats() {
		v.Formats = append(v.Formats, formatChoice{format, formatName(format)})
	}
	r.readDeliveries(&v)
	return r.renderStatus(status, "alerts", view{Title: "Alerts · " + r.project.Name, Tab: "settings", Side: "alerts", Body: v})
}

// readDeliveries adds the newest messages, if they can be read.
func (r *request) readDeliveries(v *alertsView) {
	ctx, cancel := r.querying()
	defer cancel()
	page, err := r.pages.service.Deliveries(ctx, r.project, clickhouse.DeliveryQuery{Limit: shownDeliveries})
	if err != nil {
		r.pages.logger.Warn("deliveries not shown", "project", r.project.Name, "err", err)
		return
	}
	v.Known, v.Deliveries = true, page.Deliveries
	at := slices.IndexFunc(page.Deliveries, func(d clickhouse.Delivery) bool { return d.State != "queued" && d.State != "coalesced" })
	if at >= 0 {
		v.State = page.Deliveries[at].State
	}
}

// changeAlerts stores where alerts go. An address that is not given stays as it
// is: the form cannot repeat it, because no page shows it.
func (p *Pages) changeAlerts(r *request) error {
	address := strings.TrimSpace(r.form.Get("webhook_url"))
	typed := alertsView{Format: r.form.Get("format"), MinSeverity: r.form.Get("min_severity")}
	_, err := p.service.ChangeAlerts(r.Request().Context(), r.caller, r.project, func(a *project.Alerts) {
		if address != "" {
			a.WebhookURL = secret.New(address)
		}
		a.Format, a.MinSeverity = typed.Format, typed.MinSeverity
	})
	if field, fault, ok := faultOf(err); ok {
		typed.Field, typed.Fault = field, fault
		current, err := p.service.Alerts(r.Request().Context(), r.project)
		if err != nil {
			return err
		}
		return r.showAlerts(http.StatusBadRequest, current, typed)
	}
	if err != nil {
		return err
	}
	return r.goTo(r.projectPath("/settings/alerts?done=alerts-saved"))
}

// clearAlerts turns alerts off and deletes the address.
func (p *Pages) clearAlerts(r *request) error {
	if err := p.service.ClearAlerts(r.Request().Context(), r.caller, r.project); err != nil {
		return err
	}
	return r.goTo(r.projectPath("/settings/alerts?done=alerts-off"))
}
