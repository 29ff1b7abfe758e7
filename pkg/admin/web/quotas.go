package web

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/logboom/logboom/pkg/clickhouse"
	"github.com/logboom/logboom/pkg/project"
)

// quotaForm is the quotas and the retention as they are typed.
type quotaForm struct {
	Rate, Daily, Monthly string // "": the default of the installation; 0: unlimited
	Unit                 string // of Monthly: MB, GB or TB
	OnQuota              string
	Retention            string
}

// quotasView is a project's usage, quotas and retention.
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
	Shorter  string // what a shorter retention deletes; the person must confirm it
}

// chartHours is how many hours the chart of the usage shows.
const chartHours = 48

func (p *Pages) quotasPage(r *request) error {
	return r.showQuotas(http.StatusOK, quotasView{Form: formOf(r.project.Settings)})
}

func (r *request) showQuotas(status int, v quotasView) error {
	ctx, cancel := r.querying()
	defer cancel()
	u, err := r.pages.readUsage(ctx, r.project, chartHours, true)
	if err != nil {
		r.pages.logger.Warn("usage not shown", "project", r.project.Name, "err", err)
	} else {
		v.Known, v.Used, v.Losses, v.Chart = true, u, lossText(u.Reasons), chart(u, 12, 2, 72)
		v.Meters = meters(u, r.project.Settings.Quotas(r.pages.service.Defaults()), r.pages.now().UTC())
	}
	v.Defaults = defaultsForm(r.pages.service.Defaults())
	return r.renderStatus(status, "quotas", view{Title: "Quotas and retention · " + r.project.Name, Tab: "settings", Side: "quotas", Body: v})
}

// formOf returns settings as they are typed.
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

func defaultsForm(q project.Quotas) quotaForm {
	text := func(n int64, format func(uint64) string) string {
		if n == 0 {
			return "unlimited"
		}
		return format(uint64(n))
	}
	return quotaForm{Rate: text(q.Rate, formatCount), Daily: text(q.DailyRecords, formatCount), Monthly: text(q.MonthlyBytes, formatBytes)}
}

// byteUnits are the units of a volume, the largest first.
var byteUnits = []struct {
	Name string
	Size int64
}{{"TB", 1e12}, {"GB", 1e9}, {"MB", 1e6}, {"kB", 1e3}, {"B", 1}}

// typedBytes returns a size in the largest unit that is exact.
func typedBytes(n int64) (number, unit string) {
	for _, u := range byteUnits {
		if n > 0 && n%u.Size == 0 {
			return strconv.FormatInt(n/u.Size, 10), u.Name
		}
	}
	return strconv.FormatInt(n, 10), "GB"
}

// readQuotas reads the form. The error is a project.InvalidError.
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

// changeQuotas stores quotas and retention. A shorter retention must be
// confirmed first.
func (p *Pages) changeQuotas(r *request) error {
	typed, wanted, err := readQuotas(r.form)
	if field, fault, ok := faultOf(err); ok {
		return r.showQuotas(http.StatusBadRequest, quotasView{Form: typed, Field: field, Fault: fault})
	}
	if shorter := r.shorterText(wanted.RetentionDays); shorter != "" && r.form.Get("agree") != typed.Retention {
		return r.showQuotas(http.StatusConflict, quotasView{Form: typed, Shorter: shorter})
	}
	_, err = p.service.ChangeSettings(r.Request().Context(), r.caller, r.project, func(s *project.Settings) {
		wanted.StderrAs = s.StderrAs
		*s = wanted
	})
	if err != nil {
		return err
	}
	return r.goTo(r.projectPath("/settings/quotas?done=settings-saved"))
}

// shorterText says what a shorter retention deletes, and is "" if it is not
// shorter. Each row stores the retention of the time when it was received.
func (r *request) shorterText(days uint16) string {
	now := r.project.Settings.RetentionDays
	if days >= now {
		return ""
	}
	return "Records that are received from now on are deleted after " + plural(int(days), "day") + " instead of " + formatNumber(uint64(now)) +
		". Records that are stored already keep their retention."
}

// unitNames returns the units that the form offers.
func unitNames() []string {
	var names []string
	for _, u := range byteUnits {
		names = append(names, u.Name)
	}
	return names
}

// usedHour is the usage of one hour.
type usedHour struct {
	At             time.Time
	Stored, Events uint64
	Bytes          uint64
	Dropped        uint64
	Reasons        map[string]uint64
}

// used is a project's usage in the hours that a page shows, the oldest first and
// without gaps, and what counts for its quotas.
type used struct {
	Hours   []usedHour
	Today   uint64 // records since midnight, UTC
	Month   uint64 // bytes of text since the first of the month, UTC
	Last    time.Time
	Stored  uint64 // of the hours shown, like the fields below
	Events  uint64
	Bytes   uint64
	Dropped uint64
	Reasons map[string]uint64
}

// readUsage reads the project's usage in the newest hours. With month it reads
// all of the current month too.
func (p *Pages) readUsage(ctx context.Context, found project.Project, hours int, month bool) (used, error) {
	now := p.now().UTC()
	first := now.Truncate(time.Hour).Add(-time.Duration(hours-1) * time.Hour)
	from := first
	if midnight := now.Truncate(24 * time.Hour); midnight.Before(from) {
		from = midnight
	}
	if start := monthOf(now); month && start.Before(from) {
		from = start
	}
	rows, err := p.service.Usage(ctx, found, from, now.Truncate(time.Hour).Add(time.Hour))
	if err != nil {
		return used{}, err
	}
	return sumUsage(rows, first, hours, now), nil
}

func monthOf(t time.Time) time.Time { return time.Date(t.Year(), t.Month(), 1, 0, 0, 0, 0, time.UTC) }

// sumUsage adds the rows to the hours from first on.
func sumUsage(rows []clickhouse.UsageHour, first time.Time, hours int, now time.Time) used {
	u := used{Hours: make([]usedHour, hours), Reasons: map[string]uint64{}}
	for i := range u.Hours {
		u.Hours[i].At = first.Add(time.Duration(i) * time.Hour)
	}
	for _, row := range rows {
		u.count(row, now)
		if at := int(row.Hour.Sub(first) / time.Hour); !row.Hour.Before(first) && at < hours {
			u.Hours[at].add(row)
		}
	}
	for _, h := range u.Hours {
		u.Stored += h.Stored
		u.Events += h.Events
		u.Bytes += h.Bytes
		u.Dropped += h.Dropped
		for reason, n := range h.Reasons {
			u.Reasons[reason] += n
		}
	}
	return u
}

// count adds a row to the usage of today and of this month.
func (u *used) count(row clickhouse.UsageHour, now time.Time) {
	if row.Measure == "dropped" {
		return
	}
	if row.Hour.After(u.Last) {
		u.Last = row.Hour
	}
	if !row.Hour.Before(now.Truncate(24 * time.Hour)) {
		u.Today += row.Records
	}
	if !row.Hour.Before(monthOf(now)) {
		u.Month += row.Bytes
	}
}

func (h *usedHour) add(row clickhouse.UsageHour) {
	switch row.Measure {
	case "dropped":
		h.Dropped += row.Records
		if h.Reasons == nil {
			h.Reasons = map[string]uint64{}
		}
		h.Reasons[row.Reason] += row.Records
		return
	case "events":
		h.Events += row.Records
	}
	h.Stored += row.Records
	h.Bytes += row.Bytes
}

// reasonText returns in words why records were dropped.
func reasonText(reason string) string {
	switch reason {
	case "rate":
		return "rate limit"
	case "daily_records":
		return "daily quota"
	case "monthly_bytes":
		return "monthly quota"
	}
	return strings.ReplaceAll(reason, "_", " ")
}

// lossText lists losses by cause, the largest first.
func lossText(reasons map[string]uint64) string {
	names := slices.SortedFunc(maps.Keys(reasons), func(a, b string) int {
		return cmp.Or(cmp.Compare(reasons[b], reasons[a]), cmp.Compare(a, b))
	})
	var parts []string
	for _, name := range names {
		parts = append(parts, formatNumber(reasons[name])+" "+reasonText(name))
	}
	return strings.Join(parts, ", ")
}

// bars is a chart of hours as SVG paths. One path for each kind of bar takes a
// tenth of the bytes that as many rectangles take.
type bars struct {
	Width, Height int
	Stored, Lost  string
	Text          string // for screen readers
}

// minLost is the smallest height of lost records, so that they are visible.
const minLost = 8

// chart draws the hours. A bar of stored records is at least a pixel high; lost
// records are an outline above it.
func chart(u used, barWidth, gap, height int) bars {
	most := uint64(1)
	for _, h := range u.Hours {
		most = max(most, h.Stored+h.Dropped)
	}
	var stored, lost strings.Builder
	for i, h := range u.Hours {
		x := i * (barWidth + gap)
		high, above := share(h.Stored, most, height, 1), share(h.Dropped, most, height, minLost)
		high = min(high, height-above)
		if high > 0 {
			fmt.Fprintf(&stored, "M%d %dh%dv%dh-%dz", x, height-high, barWidth, high, barWidth)
		}
		if above > 0 {
			fmt.Fprintf(&lost, "M%d.5 %d.5h%dv%dh-%dz", x, height-high-above, barWidth-1, above-1, barWidth-1)
		}
	}
	text := fmt.Sprintf("Records by hour over %d hours: %s stored", len(u.Hours), formatNumber(u.Stored))
	if u.Dropped > 0 {
		text += ", " + formatNumber(u.Dropped) + " lost"
	}
	return bars{len(u.Hours)*(barWidth+gap) - gap, height, stored.String(), lost.String(), text}
}

// share returns n's part of the height, at least least if n is not 0.
func share(n, most uint64, height, least int) int {
	if n == 0 {
		return 0
	}
	return max(least, int(float64(n)/float64(most)*float64(height)))
}

// meter shows how much of a quota is used.
type meter struct {
	Name    string
	Used    string
	Limit   string
	Percent int
	Width   int    // 0 to 100
	Class   string // "", from 80 % warn, from 100 % over
	Resets  string
}

func newMeter(name string, n uint64, limit int64, format func(uint64) string, resets time.Duration) meter {
	percent := int(min(9999, float64(n)*100/float64(limit)))
	m := meter{Name: name, Used: format(n), Limit: format(uint64(limit)), Percent: percent, Width: min(100, percent), Resets: lengthOf(resets)}
	switch {
	case percent >= 100:
		m.Class = "over"
	case percent >= 80:
		m.Class = "warn"
	}
	return m
}

// meters returns a meter for each limit that the project has, the fullest first.
func meters(u used, quotas project.Quotas, now time.Time) []meter {
	var list []meter
	if quotas.DailyRecords > 0 {
		next := now.Truncate(24 * time.Hour).Add(24 * time.Hour)
		list = append(list, newMeter("Records today", u.Today, quotas.DailyRecords, formatCount, next.Sub(now)))
	}
	if quotas.MonthlyBytes > 0 {
		next := monthOf(now).AddDate(0, 1, 0)
		list = append(list, newMeter("Volume this month", u.Month, quotas.MonthlyBytes, formatBytes, next.Sub(now)))
	}
	slices.SortStableFunc(list, func(a, b meter) int { return b.Percent - a.Percent })
	return list
}
