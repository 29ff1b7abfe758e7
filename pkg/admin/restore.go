package admin

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/logboom/logboom/pkg/clickhouse"
	"github.com/logboom/logboom/pkg/project"
	"github.com/logboom/logboom/pkg/quota"
)

// Counters are the quotas' counters; quota.Limiter has them. They say
// themselves whether something was lost since they were last whole.
type Counters interface {
	Complete(ctx context.Context) (bool, error)
	MarkComplete(ctx context.Context) error
	Restore(ctx context.Context, project string, l quota.Limits, used quota.Used) error
}

// restoreEvery is how often the counters are asked whether they are whole:
// what projects send meanwhile is the most that a flushed Redis gives away,
// beyond what running processes remember by themselves.
const restoreEvery = 5 * time.Second

// restoration rebuilds quota counters from the usage table: all of them when
// some were lost, and a project's when its quotas were changed, since what was
// unlimited was not counted. Several processes may do so at once: counters are
// only ever raised.
type restoration struct {
	logger    *slog.Logger
	counters  Counters
	directory Directory
	reader    Reader
	defaults  project.Quotas
	now       func() time.Time
}

func newRestoration(deps Deps) *restoration {
	return &restoration{
		logger: deps.Logger, counters: deps.Counters, directory: deps.Directory, reader: deps.Reader, defaults: deps.Defaults, now: time.Now,
	}
}

// run looks after the counters until ctx ends.
func (r *restoration) run(ctx context.Context) error {
	if r.counters == nil {
		<-ctx.Done()
		return nil
	}
	ticker := time.NewTicker(restoreEvery)
	defer ticker.Stop()
	for {
		if err := r.round(ctx); err != nil && ctx.Err() == nil {
			r.logger.Warn("quota counters not looked after", "err", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

func (r *restoration) round(ctx context.Context) error {
	whole, err := r.counters.Complete(ctx)
	if err != nil || whole {
		return err
	}
	restored := 0
	for after := ""; ; {
		page, err := r.directory.Projects(ctx, after, maxLimit)
		if err != nil {
			return err
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
		if len(page) < maxLimit {
			break
		}
		after = page[len(page)-1].Name
	}
	r.logger.Info("quota counters rebuilt from usage", "projects", restored)
	return r.counters.MarkComplete(ctx)
}

// changed counts what a project has sent against quotas that it has only now.
func (r *restoration) changed(ctx context.Context, p project.Project) {
	if r.counters == nil {
		return
	}
	if _, err := r.restore(ctx, p); err != nil {
		r.logger.Warn("new quotas count from now on only", "project", p.Name, "err", err)
	}
}

// restore raises a project's counters to what it has stored in its windows.
func (r *restoration) restore(ctx context.Context, p project.Project) (done bool, err error) {
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
		return false, errors.Join(errUsageUnread, err)
	}
	for _, h := range hours {
		count(&used, h)
	}
	limits := quota.Limits{Rate: q.Rate, DailyRecords: q.DailyRecords, MonthlyBytes: q.MonthlyBytes}
	return true, r.counters.Restore(ctx, p.ID, limits, used)
}

var errUsageUnread = errors.New("its usage could not be read")

// count adds an hour to the windows that it lies in. An hour that only ends in
// a window is left out: too little is restored rather than too much.
func count(used *quota.Used, h clickhouse.UsageHour) {
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
