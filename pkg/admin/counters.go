package admin

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/logboom/logboom/pkg/clickhouse"
	"github.com/logboom/logboom/pkg/project"
	"github.com/logboom/logboom/pkg/quota"
)

// repairEvery is the time between two checks of the counters. If Redis loses
// its data, projects may exceed their quotas by what they send in this time,
// less what running processes remember.
const repairEvery = 5 * time.Second

// counterRepair restores quota counters from the usage table: all counters when
// some were lost, and a project's when its quotas change, since what is not
// limited is not counted. Several processes may do so at the same time, because
// counters are only ever raised.
type counterRepair struct {
	logger   *slog.Logger
	counters quota.Limiter
	projects *project.Store
	reader   Reader
	defaults project.Quotas
	now      func() time.Time
}

func newCounterRepair(deps Deps) *counterRepair {
	return &counterRepair{
		logger: deps.Logger, counters: deps.Counters, projects: deps.Projects, reader: deps.Reader, defaults: deps.Defaults, now: time.Now,
	}
}

func (r *counterRepair) run(ctx context.Context) error {
	ticker := time.NewTicker(repairEvery)
	defer ticker.Stop()
	for {
		if err := r.round(ctx); err != nil && ctx.Err() == nil {
			r.logger.Warn("quota counters not restored; retrying", "err", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

func (r *counterRepair) round(ctx context.Context) error {
	complete, err := r.counters.Complete(ctx)
	if err != nil || complete {
		return err
	}
	restored := 0
	for after := ""; ; {
		page, err := r.projects.Projects(ctx, after, 0)
		if err != nil {
			return err
		}
		if len(page) == 0 {
			break
		}
		for _, p := range page {
			done, err := r.restore(ctx, p)
			if err != nil {
				return fmt.Errorf("project %s: %w", p.Name, err)
			}
			if done {
				restored++
			}
		}
		after = page[len(page)-1].Name
	}
	r.logger.Info("quota counters restored from usage", "projects", restored)
	return r.counters.MarkComplete(ctx)
}

// settingsChanged counts what a project has already sent against the quotas
// that it has now.
func (r *counterRepair) settingsChanged(ctx context.Context, p project.Project) {
	if _, err := r.restore(ctx, p); err != nil {
		r.logger.Warn("changed quotas count only from now on", "project", p.Name, "err", err)
	}
}

// restore raises a project's counters to what it has stored in the day and
// month of its quotas. It reports whether the project has such quotas.
func (r *counterRepair) restore(ctx context.Context, p project.Project) (bool, error) {
	q := p.Settings.Quotas(r.defaults)
	if q.DailyRecords == 0 && q.MonthlyBytes == 0 {
		return false, nil
	}
	used := quota.Used{}
	used.Day, used.Month = quota.Windows(p.ID, r.now())
	begin := used.Month.Start
	if used.Day.Start.Before(begin) {
		begin = used.Day.Start
	}
	hours, err := r.reader.Usage(ctx, p.ID, begin, r.now().Add(time.Hour))
	if err != nil {
		return false, fmt.Errorf("read usage: %w", err)
	}
	for _, h := range hours {
		addUsage(&used, h)
	}
	limits := quota.Limits{Rate: q.Rate, DailyRecords: q.DailyRecords, MonthlyBytes: q.MonthlyBytes}
	return true, r.counters.Restore(ctx, p.ID, limits, used)
}

// addUsage adds an hour to the windows that it lies in. An hour that began
// before a window is left out: the counters rather restore too little than too
// much.
func addUsage(used *quota.Used, h clickhouse.UsageHour) {
	if h.Measure == "dropped" {
		return
	}
	if !h.Hour.Before(used.Day.Start) {
		used.DailyRecords += int64(h.Records)
	}
	if !h.Hour.Before(used.Month.Start) {
		used.MonthlyBytes += int64(h.Bytes)
	}
}
