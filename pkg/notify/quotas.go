package notify

import (
	"context"
	"errors"
	"time"

	"github.com/logboom/logboom/pkg/kv"
	"github.com/logboom/logboom/pkg/outbox"
	"github.com/logboom/logboom/pkg/project"
	"github.com/logboom/logboom/pkg/quota"
)

// The percentages of a quota at which a project is warned.
const (
	quotaNear  = 80
	quotaSpent = 100
)

// projectPage is how many projects are read at once.
const projectPage = 1000

// watchQuotas checks the quotas of all projects from time to time. It does not
// check the rate, which is spent and available again within seconds.
func (n *Notifier) watchQuotas(ctx context.Context) error {
	for {
		for after := ""; ; {
			page, err := n.deps.Projects.Projects(ctx, after, projectPage)
			if err != nil {
				return err
			}
			for _, p := range page {
				if err := n.checkQuotas(ctx, p, time.Now()); err != nil {
					return err
				}
				after = p.Name
			}
			if len(page) < projectPage {
				break
			}
		}
		if err := pause(ctx, n.timing.quotaEvery); err != nil {
			return err
		}
	}
}

func (n *Notifier) checkQuotas(ctx context.Context, p project.Project, now time.Time) error {
	limits := p.Settings.Quotas(n.cfg.Quotas)
	if limits.DailyRecords == 0 && limits.MonthlyBytes == 0 {
		return nil
	}
	alerts, ok, err := n.alerts.loadIfOn(ctx, p.ID)
	if err != nil || !ok {
		return err
	}
	usage, err := n.quotaUsage(ctx, p.ID, limits, now)
	if err != nil {
		return err
	}
	return n.warn(ctx, p.ID, alerts, usage)
}

// quotaUsage says how much of a quota is used.
type quotaUsage struct {
	quota  quota.Name
	window quota.Window
	used   int64
	limit  int64
}

// percent returns the highest percentage of a warning that was reached, or 0.
func (u *quotaUsage) percent() int {
	switch {
	case u.limit <= 0:
		return 0
	case u.used >= u.limit:
		return quotaSpent
	case float64(u.used) >= float64(u.limit)*quotaNear/100:
		return quotaNear
	}
	return 0
}

// quotaUsage sums what is stored, by full hours of the window. That is a little
// less than what the quotas' own counters know, and a few seconds later.
func (n *Notifier) quotaUsage(ctx context.Context, projectID string, limits project.Quotas, now time.Time) ([]quotaUsage, error) {
	day, month := quota.Windows(projectID, now)
	daily := quotaUsage{quota: quota.DailyRecords, window: day, limit: limits.DailyRecords}
	monthly := quotaUsage{quota: quota.MonthlyBytes, window: month, limit: limits.MonthlyBytes}
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
	return []quotaUsage{daily, monthly}, nil
}

// warnings holds the last warning of each quota of a project. It ensures that a
// warning comes once a window.
type warnings map[quota.Name]warning

type warning struct {
	Window  time.Time `json:"window"` // the start of the window
	Percent int       `json:"percent"`
}

// warn publishes the warnings that are due and not yet published in this window.
// A warning is published before it is stored, under an ID of the window, so that
// a kill in between neither loses nor doubles it.
func (n *Notifier) warn(ctx context.Context, projectID string, alerts project.Alerts, usage []quotaUsage) error {
	key := "quota." + outbox.Key(projectID)
	sent := warnings{}
	revision, err := n.deps.Bucket.load(ctx, key, &sent)
	if err != nil && !errors.Is(err, kv.ErrNotFound) {
		return err
	}
	changed := false
	for _, u := range usage {
		percent, last := u.percent(), sent[u.quota]
		if percent == 0 || last.Window.Equal(u.window.Start) && last.Percent >= percent {
			continue
		}
		m := quotaMessage(projectID, u, percent)
		if err := n.publishWithRow(ctx, outbox.Entry{ID: m.ID, Project: projectID, Since: m.Time, Message: m}, alerts); err != nil {
			return err
		}
		sent[u.quota], changed = warning{u.window.Start, percent}, true
	}
	if !changed {
		return nil
	}
	_, err = n.deps.Bucket.swap(ctx, key, sent, revision)
	return err
}
