package quota

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/logboom/logboom/pkg/redis/redistest"
)

func TestUnusedLeaseIsReturned(t *testing.T) {
	t.Parallel()
	server, clock := redistest.Start(t), noon()
	idle := patientRedis(t, server, Config{Now: clock.Now})
	limits := Limits{DailyRecords: 1000}
	if !accepted(t, idle, "p", limits, 1, 0) {
		t.Fatal("refused")
	}
	a := idle.accounts.of("p")
	if a.day.left == 0 {
		t.Fatal("there is no lease")
	}
	clock.set(clock.Now().Add(leaseIdle))
	idle.update(t.Context(), a)
	other := patientRedis(t, server, Config{Now: clock.Now})
	if got := chargeAll(t, other, "p", limits, 1, 2000); got != 999 {
		t.Errorf("%d records were left, want 999", got)
	}
}

func TestUnusedProjectsAreForgotten(t *testing.T) {
	t.Parallel()
	server, clock := redistest.Start(t), noon()
	limiter := patientRedis(t, server, Config{Now: clock.Now})
	limits := Limits{Rate: 1000, DailyRecords: 1000, MonthlyBytes: 1000}
	for i := range 100 {
		if !accepted(t, limiter, fmt.Sprint("p", i), limits, 10, 10) {
			t.Fatal("refused")
		}
	}
	clock.set(clock.Now().Add(leaseIdle))
	for _, a := range limiter.accounts.all() {
		limiter.update(t.Context(), a)
	}
	clock.set(clock.Now().Add(forgetIdle))
	limiter.sweep(t.Context())
	if n := limiter.Stats().Projects; n != 0 {
		t.Errorf("%d projects are kept, want 0", n)
	}
	if got := chargeAll(t, limiter, "p7", Limits{DailyRecords: 1000}, 1, 2000); got != 990 {
		t.Errorf("%d records were left, want 990", got)
	}
}

func TestMemoryForgetsProjectsWhoseWindowsAreOver(t *testing.T) {
	t.Parallel()
	clock := noon()
	limiter := NewMemory(Config{Now: clock.Now})
	accepted(t, limiter, "p", Limits{Rate: 1, DailyRecords: 10, MonthlyBytes: 10}, 10, 10)
	limiter.sweep()
	if n := limiter.Stats().Projects; n != 1 {
		t.Errorf("%d projects are kept, want the one that has used something", n)
	}
	clock.set(clock.Now().AddDate(0, 2, 0))
	limiter.sweep()
	if n := limiter.Stats().Projects; n != 0 {
		t.Errorf("%d projects are kept, want 0", n)
	}
}

func TestConcurrentCallersUseExactlyTheLimit(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	limiters := map[string]Limiter{
		"memory": NewMemory(Config{Now: noon().Now}),
		"redis":  patientRedis(t, server, Config{Now: noon().Now}),
	}
	for name, limiter := range limiters {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			start(t, limiter)
			var total atomic.Int64
			var callers sync.WaitGroup
			for range 16 {
				callers.Go(func() {
					for {
						g, err := limiter.Charge(context.Background(), "p", Limits{DailyRecords: 30_000}, 2, 0)
						if err != nil {
							return
						}
						limiter.Refund(g, 1, 0)
						total.Add(1)
					}
				})
			}
			callers.Wait()
			if got := total.Load(); got < 30_000-16 || got > 30_001 {
				t.Errorf("%d records were accepted, want 30000", got)
			}
		})
	}
}

func TestBusyProjectSeldomCallsRedis(t *testing.T) {
	t.Parallel()
	clock := noon()
	limiter := patientRedis(t, redistest.Start(t), Config{Now: clock.Now})
	start(t, limiter)
	limits := Limits{Rate: 1 << 40, DailyRecords: 1 << 40, MonthlyBytes: 1 << 40}
	for range 2000 { // ten thousand a second
		clock.set(clock.Now().Add(100 * time.Microsecond))
		if !accepted(t, limiter, "p", limits, 10, 2000) {
			t.Fatal("refused")
		}
	}
	if trips := limiter.Stats().RoundTrips; trips > 20 {
		t.Errorf("%d calls of Redis for 2000 calls of Charge", trips)
	}
}

func TestSlowProjectDoesNotCallRedisForEachBatch(t *testing.T) {
	t.Parallel()
	clock := noon()
	limiter := patientRedis(t, redistest.Start(t), Config{Now: clock.Now})
	start(t, limiter)
	limits := Limits{Rate: 1000, DailyRecords: 1 << 40, MonthlyBytes: 1 << 40}
	for range 300 { // a batch every two seconds
		clock.set(clock.Now().Add(2 * time.Second))
		if !accepted(t, limiter, "p", limits, 10, 2000) {
			t.Fatal("refused")
		}
	}
	if trips := limiter.Stats().RoundTrips; trips > 100 {
		t.Errorf("%d calls of Redis for 300 calls of Charge", trips)
	}
}

func TestExceededProjectIsRefusedWithoutACallOfRedis(t *testing.T) {
	t.Parallel()
	clock := noon()
	limiter := patientRedis(t, redistest.Start(t), Config{Now: clock.Now})
	limits := Limits{DailyRecords: 10}
	accepted(t, limiter, "p", limits, 10, 0)
	accepted(t, limiter, "p", limits, 1, 0)
	before := limiter.Stats().RoundTrips
	for range 100 {
		if !isExceeded(t, limiter.Check(t.Context(), "p", limits)) || accepted(t, limiter, "p", limits, 1, 0) {
			t.Fatal("a batch was accepted after the quota was exceeded")
		}
	}
	if trips := limiter.Stats().RoundTrips - before; trips != 0 {
		t.Errorf("%d calls of Redis", trips)
	}
	clock.set(clock.Now().Add(refusalAge))
	if !isExceeded(t, limiter.Check(t.Context(), "p", limits)) || limiter.Stats().RoundTrips != before+1 {
		t.Errorf("%d calls of Redis after a second", limiter.Stats().RoundTrips-before)
	}
}

func TestCallThatIsSentTwiceIsCarriedOutOnce(t *testing.T) {
	t.Parallel()
	limiter := patientRedis(t, redistest.Start(t), Config{Now: noon().Now})
	a := limiter.locked("p")
	defer a.mu.Unlock()
	now := limiter.now()
	a.setLimits(Limits{Rate: 100, DailyRecords: 100, MonthlyBytes: 100}, now)
	a.advance(now)
	f := a.newCall(7, decide, cost{5, 5}, now)
	var answers [2]answer
	for i := range answers {
		got, err := limiter.caller.send(t.Context(), "p", f, now.Add(time.Duration(i)*time.Second))
		if err != nil {
			t.Fatal(err)
		}
		answers[i] = got
	}
	if answers[0] != answers[1] || !answers[0].granted || answers[0].day.spent != 5+answers[0].day.leased {
		t.Errorf("%+v", answers)
	}
	if _, err := limiter.caller.send(t.Context(), "p", a.newCall(6, decide, cost{5, 5}, now), now); err != errStale {
		t.Errorf("a call after a later one: %v", err)
	}
}

func FuzzParseAnswer(f *testing.F) {
	f.Add("1 9.500000 3 5 0 2 700 20 80")
	f.Add("0 -900.5 0 0 0 0 0 0 0")
	f.Add("stale")
	f.Fuzz(func(t *testing.T, reply string) {
		if _, err := parseAnswer(reply); err != nil && strings.Contains(err.Error(), "%!") {
			t.Errorf("%v", err)
		}
	})
}
