package quota

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/logboom/logboom/pkg/redis/redistest"
)

// rig is a limiter under test with its own clock. The rate's bucket goes by the clock
// of Redis, so the cases do not test its refill.
type rig struct {
	limiter Limiter
	clock   *clock
}

func TestLimitersConform(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	limiters := map[string]func(t *testing.T, c *clock) Limiter{
		"memory": func(_ *testing.T, c *clock) Limiter { return NewMemory(Config{Now: c.Now}) },
		"redis":  func(t *testing.T, c *clock) Limiter { return patientRedis(t, server, Config{Now: c.Now}) },
	}
	for name, open := range limiters {
		for _, c := range conformance {
			t.Run(name+"/"+c.name, func(t *testing.T) {
				t.Parallel()
				clock := noon()
				r := &rig{open(t, clock), clock}
				start(t, r.limiter)
				c.run(t, r, fmt.Sprintf("%s~%s", c.name, name))
			})
		}
	}
}

var conformance = []struct {
	name string
	run  func(t *testing.T, r *rig, project string)
}{
	{"WithoutLimitsEverythingIsAccepted", func(t *testing.T, r *rig, project string) {
		g, err := r.limiter.Charge(t.Context(), project, Limits{}, 1<<40, 1<<60)
		if err != nil || g.State != (State{}) || r.limiter.Check(t.Context(), project, Limits{}) != nil {
			t.Fatalf("%+v, %v", g, err)
		}
		if r.limiter.Stats().Projects != 0 {
			t.Error("an unlimited project is kept in memory")
		}
	}},
	{"DailyRecordsEndAtTheLimit", func(t *testing.T, r *rig, project string) {
		limits := Limits{DailyRecords: 1000}
		if got := chargeAll(t, r.limiter, project, limits, 1, 2000); got != 1000 {
			t.Fatalf("%d records were accepted", got)
		}
	}},
	{"MonthlyBytesEndAtTheLimit", func(t *testing.T, r *rig, project string) {
		limits := Limits{MonthlyBytes: 5000}
		if got := chargeAll(t, r.limiter, project, limits, 1, 9000); got != 5000 {
			t.Fatalf("%d records were accepted", got)
		}
	}},
	{"BurstIsTenSeconds", func(t *testing.T, r *rig, project string) {
		began, limits := time.Now(), Limits{Rate: 1}
		got := chargeAll(t, r.limiter, project, limits, 1, 1000)
		if most := 11 + time.Since(began).Seconds(); got < 10 || float64(got) > most {
			t.Fatalf("%d records were accepted, at most %.1f expected", got, most)
		}
	}},
	{"BatchThatExceedsALimitIsAcceptedWholeOnce", func(t *testing.T, r *rig, project string) {
		for quota, limits := range map[Name]Limits{Rate: {Rate: 1}, DailyRecords: {DailyRecords: 10}, MonthlyBytes: {MonthlyBytes: 10}} {
			id := project + string(quota)
			if !accepted(t, r.limiter, id, limits, 7, 7) || !accepted(t, r.limiter, id, limits, 500, 500) {
				t.Fatalf("%s: a batch was refused while something was left", quota)
			}
			if accepted(t, r.limiter, id, limits, 1, 1) || !isExceeded(t, r.limiter.Check(t.Context(), id, limits)) {
				t.Fatalf("%s: a batch was accepted after the quota was exceeded", quota)
			}
		}
	}},
	{"RefusedBatchIsNotCountedByTheOtherQuotas", func(t *testing.T, r *rig, project string) {
		for range 5 {
			accepted(t, r.limiter, project, Limits{DailyRecords: 100, MonthlyBytes: 100}, 1, 100)
		}
		if got := chargeAll(t, r.limiter, project, Limits{DailyRecords: 100}, 1, 200); got != 99 {
			t.Fatalf("%d records were left, want 99", got)
		}
	}},
	{"CheckReturnsTheQuotaAndItsReset", func(t *testing.T, r *rig, project string) {
		limits := Limits{DailyRecords: 1, MonthlyBytes: 1}
		if err := r.limiter.Check(t.Context(), project, limits); err != nil {
			t.Fatal(err)
		}
		accepted(t, r.limiter, project, limits, 1, 1)
		var e *Exceeded
		_, month := Windows(project, r.clock.Now())
		if err := r.limiter.Check(t.Context(), project, limits); !errors.As(err, &e) {
			t.Fatal(err)
		}
		if e.Quota != MonthlyBytes || e.Limit != 1 || !e.Reset.Equal(month.End) || e.RetryAfter != month.End.Sub(r.clock.Now()) {
			t.Fatalf("%+v, the month is %+v", e, month)
		}
	}},
	{"StateIsThatOfTheQuotaClosestToItsLimit", func(t *testing.T, r *rig, project string) {
		g, err := r.limiter.Charge(t.Context(), project, Limits{Rate: 1000, DailyRecords: 1000, MonthlyBytes: 1 << 40}, 600, 1)
		day, _ := Windows(project, r.clock.Now())
		if want := (State{DailyRecords, 1000, 400, day.End}); err != nil || g.State != want {
			t.Fatalf("%+v, %v", g.State, err)
		}
	}},
	{"RefundMakesRecordsAvailableAgain", func(t *testing.T, r *rig, project string) {
		limits := Limits{Rate: 1000, DailyRecords: 100, MonthlyBytes: 1000}
		g, err := r.limiter.Charge(t.Context(), project, limits, 100, 1000)
		if err != nil {
			t.Fatal(err)
		}
		if accepted(t, r.limiter, project, limits, 1, 1) {
			t.Fatal("a batch was accepted after the quota was exceeded")
		}
		r.limiter.Refund(g, 40, 400)
		if got := chargeAll(t, r.limiter, project, limits, 1, 200); got != 40 {
			t.Fatalf("%d records were available again, want 40", got)
		}
	}},
	{"RefundOfYesterdayDoesNotChangeToday", func(t *testing.T, r *rig, project string) {
		limits := Limits{DailyRecords: 100}
		g, err := r.limiter.Charge(t.Context(), project, limits, 50, 0)
		if err != nil {
			t.Fatal(err)
		}
		r.clock.set(r.clock.Now().Add(24 * time.Hour))
		if !accepted(t, r.limiter, project, limits, 50, 0) {
			t.Fatal("the first batch of a new day was refused")
		}
		r.limiter.Refund(g, 50, 0)
		if got := chargeAll(t, r.limiter, project, limits, 1, 200); got != 50 {
			t.Fatalf("%d records were left, want 50", got)
		}
	}},
	{"NewWindowsBeginEmpty", func(t *testing.T, r *rig, project string) {
		limits := Limits{DailyRecords: 10, MonthlyBytes: 15}
		day, month := Windows(project, r.clock.Now())
		r.clock.set(day.End.Add(-time.Second))
		accepted(t, r.limiter, project, limits, 10, 10)
		if accepted(t, r.limiter, project, limits, 1, 1) {
			t.Fatal("a batch was accepted after the day's quota was exceeded")
		}
		r.clock.set(day.End)
		if !accepted(t, r.limiter, project, limits, 5, 5) || accepted(t, r.limiter, project, limits, 1, 1) {
			t.Fatal("the new day does not accept exactly what is left of the month")
		}
		r.clock.set(month.End)
		if !accepted(t, r.limiter, project, limits, 10, 10) {
			t.Fatal("the first batch of the new month was refused")
		}
	}},
	{"RestoreRaisesCountersAndNeverLowersThem", func(t *testing.T, r *rig, project string) {
		limits := Limits{DailyRecords: 100, MonthlyBytes: 1000}
		used := Used{DailyRecords: 90, MonthlyBytes: 100}
		used.Day, used.Month = Windows(project, r.clock.Now())
		for _, records := range []int64{90, 20, -5} {
			used.DailyRecords = records
			if err := r.limiter.Restore(t.Context(), project, limits, used); err != nil {
				t.Fatal(err)
			}
		}
		if got := chargeAll(t, r.limiter, project, limits, 1, 200); got != 10 {
			t.Fatalf("%d records were left, want 10", got)
		}
	}},
	{"CountersAreCompleteAfterMarkComplete", func(t *testing.T, r *rig, _ string) {
		if err := r.limiter.MarkComplete(t.Context()); err != nil {
			t.Fatal(err)
		}
		if complete, err := r.limiter.Complete(t.Context()); err != nil || !complete {
			t.Fatalf("%t, %v", complete, err)
		}
	}},
	{"RestoreOfAnotherWindowChangesNothing", func(t *testing.T, r *rig, project string) {
		limits := Limits{DailyRecords: 100, MonthlyBytes: 100}
		used := Used{DailyRecords: 100, MonthlyBytes: 100}
		used.Day, used.Month = Windows(project, r.clock.Now().AddDate(0, -1, 0))
		if err := r.limiter.Restore(t.Context(), project, limits, used); err != nil {
			t.Fatal(err)
		}
		if got := chargeAll(t, r.limiter, project, limits, 1, 200); got != 100 {
			t.Fatalf("%d records were left, want 100", got)
		}
	}},
	{"ChangedLimitsTakeEffectAtOnce", func(t *testing.T, r *rig, project string) {
		if !accepted(t, r.limiter, project, Limits{DailyRecords: 1000}, 100, 0) {
			t.Fatal("refused")
		}
		if accepted(t, r.limiter, project, Limits{DailyRecords: 100}, 1, 0) {
			t.Fatal("a batch was accepted beyond the lowered limit")
		}
		if got := chargeAll(t, r.limiter, project, Limits{DailyRecords: 150}, 1, 200); got != 50 {
			t.Fatalf("%d records were left, want 50", got)
		}
	}},
	{"ProjectsDoNotShare", func(t *testing.T, r *rig, project string) {
		limits := Limits{DailyRecords: 1}
		for i := range 100 {
			if !accepted(t, r.limiter, fmt.Sprint(project, i), limits, 1, 1) {
				t.Fatal("a project was refused because of another project")
			}
		}
	}},
	{"AbsurdNumbersStayWithinBounds", func(t *testing.T, r *rig, project string) {
		limits := Limits{Rate: 1 << 62, DailyRecords: 1 << 62, MonthlyBytes: -1}
		if !accepted(t, r.limiter, project, limits, -1, -1) || !accepted(t, r.limiter, project, limits, 1<<62, 1<<62) {
			t.Fatal("refused")
		}
		if accepted(t, r.limiter, project, limits, 1, 1) {
			t.Fatal("a batch was accepted after the quota was exceeded")
		}
	}},
}
