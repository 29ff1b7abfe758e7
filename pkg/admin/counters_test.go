package admin_test

import (
	"errors"
	"testing"
	"time"

	"github.com/logboom/logboom/pkg/admin/admintest"
	"github.com/logboom/logboom/pkg/clickhouse"
	"github.com/logboom/logboom/pkg/project"
	"github.com/logboom/logboom/pkg/quota"
)

func TestLostCountersAreRestoredFromUsage(t *testing.T) {
	t.Parallel()
	i := admintest.Start(t)
	now := time.Now()
	hour := now.UTC().Truncate(time.Hour)
	limited, free, plain := projectSince(t, i, "limited", hour, now), projectSince(t, i, "free", hour, now), projectSince(t, i, "plain", hour, now)
	hundred, unlimited := int64(100), int64(0)
	for name, limit := range map[string]*int64{limited.Name: &hundred, free.Name: &unlimited} {
		if _, err := i.Projects.ChangeSettings(admintest.Context(t), name, func(s *project.Settings) { s.DailyRecords = limit }); err != nil {
			t.Fatal(err)
		}
	}
	var rows []clickhouse.UsageRow
	for _, p := range []project.Project{limited, free, plain} {
		rows = append(rows,
			clickhouse.UsageRow{Project: p.ID, Hour: hour, Measure: "logs", Records: 95, Bytes: 1000, Stream: "LOGS_0", Seq: 1},
			clickhouse.UsageRow{Project: p.ID, Hour: hour, Measure: "events", Records: 5, Bytes: 10, Stream: "EVENTS_0", Seq: 1},
			clickhouse.UsageRow{Project: p.ID, Hour: hour, Measure: "dropped", Reason: "daily_records", Records: 1e6, Stream: "LOGS_0", Seq: 2},
			clickhouse.UsageRow{Project: p.ID, Hour: hour.Add(-48 * time.Hour), Measure: "logs", Records: 1e6, Stream: "LOGS_0", Seq: 3},
		)
	}
	if err := i.Client.InsertUsage(t.Context(), "u", rows); err != nil {
		t.Fatal(err)
	}
	limiter := quota.NewMemory(quota.Config{Now: func() time.Time { return now }})
	i.Deps.Counters, i.Deps.Defaults = limiter, project.Quotas{DailyRecords: 101}
	s := i.New()
	for range 2 { // the second check finds nothing to do
		if err := s.RestoreCounters(admintest.Context(t), now); err != nil {
			t.Fatal(err)
		}
	}
	var exceeded *quota.Exceeded
	if _, err := limiter.Charge(t.Context(), limited.ID, quota.Limits{DailyRecords: 100}, 1, 1); !errors.As(err, &exceeded) {
		t.Errorf("a project that has used its quota may send: %v", err)
	}
	if _, err := limiter.Charge(t.Context(), plain.ID, quota.Limits{DailyRecords: 101}, 1, 1); err != nil {
		t.Errorf("a project with one record left may not send: %v", err)
	}
	if _, err := limiter.Charge(t.Context(), plain.ID, quota.Limits{DailyRecords: 101}, 1, 1); !errors.As(err, &exceeded) {
		t.Errorf("a project that has used the default quota may send: %v", err)
	}
}

func TestNewQuotaCountsWhatWasSentBefore(t *testing.T) {
	t.Parallel()
	i := admintest.Start(t)
	now := time.Now()
	hour := now.UTC().Truncate(time.Hour)
	shop := projectSince(t, i, "shop", hour, now)
	usage := []clickhouse.UsageRow{{Project: shop.ID, Hour: hour, Measure: "logs", Records: 1000, Stream: "LOGS_0", Seq: 1}}
	if err := i.Client.InsertUsage(t.Context(), "u", usage); err != nil {
		t.Fatal(err)
	}
	limiter := quota.NewMemory(quota.Config{Now: func() time.Time { return now }})
	i.Deps.Counters = limiter
	thousand := int64(1000)
	changed, err := i.Projects.ChangeSettings(admintest.Context(t), shop.Name, func(s *project.Settings) { s.DailyRecords = &thousand })
	if err != nil {
		t.Fatal(err)
	}
	i.New().SettingsChanged(admintest.Context(t), changed, now)
	var exceeded *quota.Exceeded
	if _, err := limiter.Charge(t.Context(), shop.ID, quota.Limits{DailyRecords: thousand}, 1, 1); !errors.As(err, &exceeded) {
		t.Errorf("a project that has used its new quota may send: %v", err)
	}
}

// projectSince returns a project whose day and month began before the hour.
// When they begin is different for each project, so that several are created
// until one fits.
func projectSince(t *testing.T, i *admintest.Installation, name string, hour, now time.Time) project.Project {
	t.Helper()
	for {
		p := i.Project(t, name)
		if day, month := quota.Windows(p.ID, now); !day.Start.After(hour) && !month.Start.After(hour) {
			return p
		}
		name += "x"
	}
}
