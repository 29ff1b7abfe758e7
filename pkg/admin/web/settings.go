package web

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/logboom/logboom/pkg/project"
)

// settingsView is what is general about a project.
type settingsView struct {
	IngestURL string
	StderrAs  string
	Fault     string
}

func (p *Pages) settingsPage(r *request) error {
	return r.showSettings(http.StatusOK, settingsView{StderrAs: r.project.Settings.StderrAs})
}

func (r *request) showSettings(status int, v settingsView) error {
	v.IngestURL = r.ingestURL()
	return r.renderStatus(status, "settings", view{Title: "General · " + r.project.Name, Tab: "settings", Side: "general", Body: v})
}

func (p *Pages) changeSettings(r *request) error {
	form, err := r.readForm()
	if err != nil {
		return err
	}
	wanted := strings.TrimSpace(form.Get("stderr_as"))
	err = r.saveSettings(func(s *project.Settings) { s.StderrAs = wanted })
	if _, fault, ok := faultOf(err); ok {
		return r.showSettings(http.StatusBadRequest, settingsView{StderrAs: wanted, Fault: fault})
	}
	if err != nil {
		return err
	}
	return r.goTo(r.projectPath("/settings?done=settings-saved"))
}

// saveSettings changes settings as the JSON API does.
func (r *request) saveSettings(change func(*project.Settings)) error {
	ctx, cancel := r.changing()
	defer cancel()
	changed, err := r.pages.deps.Directory.ChangeSettings(ctx, r.project.Name, change)
	if err != nil {
		return err
	}
	r.pages.deps.Service.SettingsChanged(ctx, changed)
	r.changed(ctx, "settings.changed", "")
	return nil
}

// quotaForm is the limits as they are typed.
type quotaForm struct {
	Rate, Daily, Monthly string // empty: the installation's default; 0: unlimited
	Unit                 string // of Monthly: MB, GB or TB
	OnQuota              string
	Retention            string
}

// quotasView is a project's use, its limits and what is kept.
type quotasView struct {
	Used     used
	Known    bool
	Losses   string
	Chart    bars
	Meters   []meter
	Form     quotaForm
	Defaults quotaForm
	Field    string // which one is wrong
	Fault    string
	Shorter  string // what a shorter retention deletes, to be agreed to
}

// chartHours is how far back the chart of use goes.
const chartHours = 48

func (p *Pages) quotasPage(r *request) error {
	return r.showQuotas(http.StatusOK, quotasView{Form: formOf(r.project.Settings)})
}

func (r *request) showQuotas(status int, v quotasView) error {
	ctx, cancel := r.asking()
	defer cancel()
	u, err := r.pages.usageOf(ctx, r.project, chartHours, true)
	if err != nil {
		r.pages.deps.Logger.Warn("usage not shown", "project", r.project.Name, "err", err)
	} else {
		v.Known, v.Used, v.Losses, v.Chart = true, u, lossText(u.Reasons), chart(u, 12, 2, 72)
		v.Meters = meters(u, r.project.Settings.Quotas(r.pages.deps.Defaults), r.pages.now().UTC())
	}
	v.Defaults = formOfQuotas(r.pages.deps.Defaults)
	return r.renderStatus(status, "quotas", view{Title: "Quotas and retention · " + r.project.Name, Tab: "settings", Side: "quotas", Body: v})
}

// formOf writes settings as they are typed.
func formOf(s project.Settings) quotaForm {
	f := quotaForm{OnQuota: s.OnQuota, Retention: strconv.Itoa(int(s.RetentionDays)), Unit: "GB"}
	if s.Rate != nil {
		f.Rate = strconv.FormatInt(*s.Rate, 10)
	}
	if s.DailyRecords != nil {
		f.Daily = strconv.FormatInt(*s.DailyRecords, 10)
	}
	if s.MonthlyBytes != nil {
		f.Monthly, f.Unit = typedBytes(*s.MonthlyBytes)
	}
	return f
}

func formOfQuotas(q project.Quotas) quotaForm {
	named := func(n int64, format func(uint64) string) string {
		if n == 0 {
			return "unlimited"
		}
		return format(uint64(n))
	}
	return quotaForm{Rate: named(q.Rate, formatCount), Daily: named(q.DailyRecords, formatCount), Monthly: named(q.MonthlyBytes, formatBytes)}
}

// byteUnits are the units of a volume, the largest first.
var byteUnits = []struct {
	Name string
	Size int64
}{{"TB", 1e12}, {"GB", 1e9}, {"MB", 1e6}, {"kB", 1e3}, {"B", 1}}

// typedBytes is a size in the largest unit that says it exactly.
func typedBytes(n int64) (number, unit string) {
	for _, u := range byteUnits {
		if n > 0 && n%u.Size == 0 {
			return strconv.FormatInt(n/u.Size, 10), u.Name
		}
	}
	return strconv.FormatInt(n, 10), "GB"
}

// readQuotas reads the form; the error names the field.
func readQuotas(form url.Values) (quotaForm, project.Settings, error) {
	f := quotaForm{
		Rate: strings.TrimSpace(form.Get("rate")), Daily: strings.TrimSpace(form.Get("daily_records")), Monthly: strings.TrimSpace(form.Get("monthly_bytes")),
		Unit: form.Get("unit"), OnQuota: form.Get("on_quota"), Retention: strings.TrimSpace(form.Get("retention_days")),
	}
	s := project.Settings{OnQuota: f.OnQuota}
	days, err := strconv.ParseUint(f.Retention, 10, 16)
	if err != nil {
		return f, s, &project.InvalidError{Field: "retention_days", Reason: "must be a whole number of days, 1 to 3650"}
	}
	s.RetentionDays = uint16(days)
	for _, q := range []struct {
		field, text string
		unit        int64
		into        **int64
	}{{"rate", f.Rate, 1, &s.Rate}, {"daily_records", f.Daily, 1, &s.DailyRecords}, {"monthly_bytes", f.Monthly, unitSize(f.Unit), &s.MonthlyBytes}} {
		if q.text == "" {
			continue
		}
		n, err := strconv.ParseInt(strings.ReplaceAll(q.text, ",", ""), 10, 64)
		if err != nil || n < 0 || n > (1<<53)/q.unit {
			return f, s, &project.InvalidError{Field: q.field, Reason: "must be a whole number, 0 for unlimited, or empty for the default"}
		}
		n *= q.unit
		*q.into = &n
	}
	return f, s, s.Validate()
}

func unitSize(name string) int64 {
	for _, u := range byteUnits {
		if u.Name == name {
			return u.Size
		}
	}
	return 1e9
}

// changeQuotas saves limits and retention. Keeping less than before is agreed
// to first.
func (p *Pages) changeQuotas(r *request) error {
	form, err := r.readForm()
	if err != nil {
		return err
	}
	typed, wanted, err := readQuotas(form)
	if field, fault, ok := faultOf(err); ok {
		return r.showQuotas(http.StatusBadRequest, quotasView{Form: typed, Field: field, Fault: fault})
	}
	if shorter := r.shorter(wanted.RetentionDays); shorter != "" && form.Get("agree") != typed.Retention {
		return r.showQuotas(http.StatusConflict, quotasView{Form: typed, Shorter: shorter})
	}
	err = r.saveSettings(func(s *project.Settings) {
		wanted.StderrAs = s.StderrAs
		*s = wanted
	})
	if err != nil {
		return err
	}
	return r.goTo(r.projectPath("/settings/quotas?done=settings-saved"))
}

// shorter says what a shorter retention deletes; empty where it is none. Rows
// carry the days that counted when they were received.
func (r *request) shorter(days uint16) string {
	now := r.project.Settings.RetentionDays
	if days >= now {
		return ""
	}
	return "What is received from now on is deleted after " + plural(int(days), "day") + ", not " + formatNumber(uint64(now)) +
		". What is stored already keeps its days."
}

func (p *Pages) deletePage(r *request) error { return r.askToDelete(http.StatusOK, "") }

func (r *request) askToDelete(status int, fault string) error {
	return r.renderStatus(status, "confirm", view{Title: "Delete " + r.project.Name, Tab: "settings", Side: "delete", Body: confirmation{
		Title: "Delete the project " + r.project.Name + "?",
		Texts: []string{
			"Its tokens are refused within 2 seconds, and what senders do not keep is lost.",
			"Its logs, events, alerts and settings are erased. This cannot be undone.",
		},
		Name: r.project.Name, Action: "Delete project and data", Keep: r.projectPath("/settings"), Fault: fault,
	}})
}

func (p *Pages) deleteProject(r *request) error {
	form, err := r.readForm()
	if err != nil {
		return err
	}
	if !isConfirmed(form.Get("confirm"), r.project.Name) {
		return r.askToDelete(http.StatusBadRequest, notTyped(r.project.Name))
	}
	ctx, cancel := r.changing()
	defer cancel()
	if err := p.deps.Service.DeleteProject(ctx, r.project); err != nil {
		return err
	}
	r.changed(ctx, "project.deleted", "")
	return r.goTo(projectsPath + "?done=project-deleted")
}

// unitNames are the units that the form offers.
func unitNames() []string {
	var names []string
	for _, u := range byteUnits {
		names = append(names, u.Name)
	}
	return names
}
