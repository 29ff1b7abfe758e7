package admin

import (
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/logboom/logboom/pkg/clickhouse"
	"github.com/logboom/logboom/pkg/project"
	"github.com/logboom/logboom/pkg/quota"
)

func TestLostCountersAreRebuiltFromUsage(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	now := time.Now()
	hour := now.UTC().Truncate(time.Hour)
	limited, free, plain := b.projectSince(t, "limited", hour, now), b.projectSince(t, "free", hour, now), b.projectSince(t, "plain", hour, now)
	hundred, unlimited := int64(100), int64(0)
	for name, limit := range map[string]*int64{limited.Name: &hundred, free.Name: &unlimited} {
		if _, err := b.store.ChangeSettings(patient(t), name, func(s *project.Settings) { s.DailyRecords = limit }); err != nil {
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
	if err := b.client.InsertUsage(t.Context(), "u", rows); err != nil {
		t.Fatal(err)
	}
	clock := func() time.Time { return now }
	limiter := quota.NewMemory(quota.Config{Now: clock})
	r := newRestoration(Deps{
		Logger: slog.New(slog.DiscardHandler), Counters: limiter, Directory: b.store, Reader: b.client, Defaults: project.Quotas{DailyRecords: 101},
	})
	r.now = clock
	for range 2 { // the second round has nothing to do
		if err := r.round(patient(t)); err != nil {
			t.Fatal(err)
		}
	}
	var spent *quota.Exceeded
	if _, err := limiter.Charge(t.Context(), limited.ID, quota.Limits{DailyRecords: 100}, 1, 1); !errors.As(err, &spent) {
		t.Errorf("a project that has used its quota may send: %v", err)
	}
	if _, err := limiter.Charge(t.Context(), plain.ID, quota.Limits{DailyRecords: 101}, 1, 1); err != nil {
		t.Errorf("a project with one record left may not send: %v", err)
	}
	if _, err := limiter.Charge(t.Context(), plain.ID, quota.Limits{DailyRecords: 101}, 1, 1); !errors.As(err, &spent) {
		t.Errorf("a project that has used the default quota may send: %v", err)
	}
}

func TestQuotaThatIsSetLaterCountsWhatWasSentBefore(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	now := time.Now()
	clock := func() time.Time { return now }
	hour := now.UTC().Truncate(time.Hour)
	shop := b.projectSince(t, "shop", hour, now)
	usage := []clickhouse.UsageRow{{Project: shop.ID, Hour: hour, Measure: "logs", Records: 1000, Stream: "LOGS_0", Seq: 1}}
	if err := b.client.InsertUsage(t.Context(), "u", usage); err != nil {
		t.Fatal(err)
	}
	limiter := quota.NewMemory(quota.Config{Now: clock})
	limits := quota.Limits{DailyRecords: 1000}
	r := newRestoration(Deps{Logger: slog.New(slog.NewTextHandler(t.Output(), nil)), Counters: limiter, Directory: b.store, Reader: b.client})
	r.now = clock
	thousand := limits.DailyRecords
	changed, err := b.store.ChangeSettings(patient(t), shop.Name, func(s *project.Settings) { s.DailyRecords = &thousand })
	if err != nil {
		t.Fatal(err)
	}
	r.changed(patient(t), changed)
	var spent *quota.Exceeded
	if _, err := limiter.Charge(t.Context(), shop.ID, limits, 1, 1); !errors.As(err, &spent) {
		t.Errorf("a project that has used its new quota may send: %v", err)
	}
}

// projectSince is a project whose day and month of now began before the hour.
// When they begin is each project's own, so another is made where they did not.
func (b *bench) projectSince(t *testing.T, name string, hour, now time.Time) project.Project {
	t.Helper()
	for {
		p := b.project(t, name)
		if day, month := quota.Windows(p.ID, now); !day.Start.After(hour) && !month.Start.After(hour) {
			return p
		}
		name += "x"
	}
}
