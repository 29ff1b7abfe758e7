package notify

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/logboom/logboom/pkg/clickhouse"
	"github.com/logboom/logboom/pkg/outbox"
	"github.com/logboom/logboom/pkg/project"
	"github.com/logboom/logboom/pkg/quota"
	"github.com/logboom/logboom/pkg/webhook"
)

// The parts of a quota, in percent, that people are told of.
const (
	quotaNear  = 80
	quotaSpent = 100
)

// warned is what a project was told of its quotas: for each, the window and the
// highest part. It is what makes a warning come once a window.
type warned map[quota.Name]warning

type warning struct {
	Window  time.Time `json:"window"` // its begin
	Percent int       `json:"percent"`
}

// watchQuotas looks from time to time at the quotas of all projects that can be
// told of them. The rate is none of them: it is spent and there again within
// seconds.
func (n *Notifier) watchQuotas(ctx context.Context) error {
	for {
		err := n.eachProject(ctx, func(p project.Project) error { return n.watchProject(ctx, p, time.Now()) })
		if err != nil {
			return err
		}
		if err := pause(ctx, n.cfg.QuotaEvery); err != nil {
			return err
		}
	}
}

func (n *Notifier) watchProject(ctx context.Context, p project.Project, now time.Time) error {
	limits := p.Settings.Quotas(n.cfg.Defaults)
	if limits.DailyRecords == 0 && limits.MonthlyBytes == 0 {
		return nil
	}
	alerts, ok, err := n.settings.reachable(ctx, p.ID)
	if err != nil || !ok {
		return err
	}
	standings, err := n.standings(ctx, p.ID, limits, now)
	if err != nil {
		return err
	}
	return n.warn(ctx, p.ID, alerts, standings)
}

// standing is how much of a quota is used.
type standing struct {
	quota  quota.Name
	window quota.Window
	used   int64
	limit  int64
}

// percent is the highest part that was reached, 0 where none was.
func (s *standing) percent() int {
	switch {
	case s.limit <= 0:
		return 0
	case s.used >= s.limit:
		return quotaSpent
	case float64(s.used) >= float64(s.limit)*quotaNear/100:
		return quotaNear
	}
	return 0
}

// standings counts what is stored, by full hours of the window: a little less
// than what the quotas' own counters know, and a few seconds later.
func (n *Notifier) standings(ctx context.Context, projectID string, limits project.Quotas, now time.Time) ([]standing, error) {
	day, month := quota.Windows(projectID, now)
	daily := standing{quota: quota.DailyRecords, window: day, limit: limits.DailyRecords}
	monthly := standing{quota: quota.MonthlyBytes, window: month, limit: limits.MonthlyBytes}
	from := month.Start
	if day.Start.Before(from) {
		from = day.Start
	}
	hours, err := n.deps.Tables.Usage(ctx, projectID, from, now.Add(time.Hour))
	if err != nil {
		return nil, err
	}
	for _, h := range hours {
		if h.Measure == "dropped" {
			continue
		}
		if !h.Hour.Before(day.Start) {
			daily.used += int64(h.Records)
		}
		if !h.Hour.Before(month.Start) {
			monthly.used += int64(h.Bytes)
		}
	}
	return []standing{daily, monthly}, nil
}

func warnedKey(projectID string) string { return "quota." + outbox.Key(projectID) }

// warn tells of what was reached and not told of in this window. The alert
// waits before it is noted, under an id of the window, so that a kill in
// between does not double it.
func (n *Notifier) warn(ctx context.Context, projectID string, alerts project.Alerts, standings []standing) error {
	entry, err := n.deps.Bucket.get(ctx, warnedKey(projectID))
	if err != nil {
		return err
	}
	told, revision := warned{}, uint64(0)
	if entry != nil {
		revision = entry.Revision()
		if err := json.Unmarshal(entry.Value(), &told); err != nil {
			return fmt.Errorf("quota warnings of %s: %w", projectID, err)
		}
	}
	changed := false
	for _, s := range standings {
		percent, before := s.percent(), told[s.quota]
		if percent == 0 || before.Window.Equal(s.window.Start) && before.Percent >= percent {
			continue
		}
		row, err := n.put(ctx, quotaEntry(projectID, s, percent), alerts)
		if err == nil {
			err = n.putRows(ctx, []clickhouse.DeliveryRow{*row})
		}
		if err != nil {
			return err
		}
		told[s.quota], changed = warning{s.window.Start, percent}, true
	}
	if !changed {
		return nil
	}
	_, err = n.deps.Bucket.swap(ctx, warnedKey(projectID), told, revision)
	return err
}

func quotaEntry(projectID string, s standing, percent int) outbox.Entry {
	now := time.Now()
	m := webhook.Message{
		ID:   fmt.Sprintf("q-%s-%d-%d", s.quota, s.window.Start.Unix(), percent),
		Kind: "quota", Project: projectName(projectID), Source: string(s.quota), Severity: "warn", Time: now,
		Title: fmt.Sprintf("%d %% of the quota %s is used", percent, s.quota),
		Text:  fmt.Sprintf("%d of %d until %s.", s.used, s.limit, s.window.End.UTC().Format(time.RFC3339)),
	}
	if percent == quotaSpent {
		m.Severity, m.Title = "error", fmt.Sprintf("The quota %s is spent", s.quota)
		m.Text += " What is sent until then is refused and counted."
	}
	return outbox.Entry{ID: m.ID, Project: projectID, Since: now, Message: m}
}

// projectPage is how many projects are read at once.
const projectPage = 1000

func (n *Notifier) eachProject(ctx context.Context, do func(project.Project) error) error {
	for name := ""; ; {
		page, err := n.deps.Projects.Projects(ctx, name, projectPage)
		if err != nil {
			return err
		}
		for _, p := range page {
			if err := do(p); err != nil {
				return err
			}
			name = p.Name
		}
		if len(page) < projectPage {
			return nil
		}
	}
}
