package quota

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"github.com/logboom/logboom/pkg/redis/redistest"
)

// fleet is the limiters of several processes with one Redis, and what they accepted.
type fleet struct {
	clock   *clock
	open    func() *Redis
	project string
	limits  Limits
	members []*Redis
	grants  []fleetGrant
	passed  cost
	largest cost
	lapsed  cost // leases lost with crashed members
}

type fleetGrant struct {
	by    *Redis
	grant Grant
	n     cost
}

func (f *fleet) charge(t *rapid.T, i int, n cost) {
	by := f.members[i]
	g, err := by.Charge(context.Background(), f.project, f.limits, int(n.records), n.bytes)
	if err != nil {
		f.checkRefusal(t, by)
		return
	}
	f.grants = append(f.grants, fleetGrant{by, g, n})
	f.passed.records += n.records
	f.passed.bytes += n.bytes
	f.largest = cost{max(f.largest.records, n.records), max(f.largest.bytes, n.bytes)}
	if f.passed.records >= f.limits.DailyRecords+f.largest.records || f.passed.bytes >= f.limits.MonthlyBytes+f.largest.bytes {
		t.Fatalf("%+v were accepted, which exceeds the limits %+v by more than one batch of at most %+v", f.passed, f.limits, f.largest)
	}
}

// checkRefusal fails unless the leases of the other members explain a refusal.
func (f *fleet) checkRefusal(t *rapid.T, by *Redis) {
	held := f.lapsed
	for _, m := range f.members {
		if m != by {
			a := m.accounts.of(f.project)
			held.records += a.day.left
			held.bytes += a.month.left
		}
	}
	if f.passed.records+held.records < f.limits.DailyRecords && f.passed.bytes+held.bytes < f.limits.MonthlyBytes {
		t.Fatalf("refused after %+v of %+v while other members had leased %+v", f.passed, f.limits, held)
	}
}

// refund refunds part of an earlier batch.
func (f *fleet) refund(i int, part int64) {
	if len(f.grants) == 0 {
		return
	}
	i %= len(f.grants)
	g := f.grants[i]
	f.grants = slices.Delete(f.grants, i, i+1)
	n := cost{g.n.records / part, g.n.bytes / part}
	g.by.Refund(g.grant, int(n.records), n.bytes)
	if slices.Contains(f.members, g.by) { // a refund after the end of its process is lost
		f.passed.records -= n.records
		f.passed.bytes -= n.bytes
	}
}

func (f *fleet) replace(i int, crash bool) {
	old := f.members[i]
	f.members[i] = f.open()
	if !crash {
		old.releaseAll(context.Background())
		return
	}
	a := old.accounts.of(f.project)
	f.lapsed.records += a.day.left - a.day.uncounted
	f.lapsed.bytes += a.month.left - a.month.uncounted
}

func TestCountersKeepTheirBoundsOverManyProcesses(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := connect(t, server.URL(), patient)
	var projects atomic.Int64
	rapid.Check(t, func(t *rapid.T) {
		f := &fleet{
			clock:   noon(),
			project: fmt.Sprintf("fleet-%d", projects.Add(1)),
			limits:  Limits{DailyRecords: rapid.Int64Range(1, 5000).Draw(t, "records"), MonthlyBytes: rapid.Int64Range(1, 50000).Draw(t, "bytes")},
		}
		day, _ := Windows(f.project, f.clock.Now())
		f.clock.set(day.Start)
		f.open = func() *Redis { return newPatient(client, Config{Now: f.clock.Now}) }
		for range rapid.IntRange(1, 4).Draw(t, "processes") {
			f.members = append(f.members, f.open())
		}
		size := rapid.OneOf(rapid.Int64Range(0, 5), rapid.Int64Range(0, 2000))
		for range rapid.IntRange(1, 150).Draw(t, "steps") {
			f.clock.set(f.clock.Now().Add(refusalAge)) // so that every refusal is checked with Redis
			i := rapid.IntRange(0, len(f.members)-1).Draw(t, "process")
			switch rapid.IntRange(0, 20).Draw(t, "step") {
			case 0:
				f.replace(i, false)
			case 1:
				f.replace(i, true)
			case 2, 3:
				f.refund(rapid.IntRange(0, 1000).Draw(t, "grant"), rapid.Int64Range(1, 3).Draw(t, "part"))
			case 4, 5:
				a := f.members[i].locked(f.project)
				a.setLimits(f.limits, f.members[i].now())
				a.advance(f.members[i].now())
				f.members[i].call(context.Background(), a, refill, cost{})
				a.mu.Unlock()
			default:
				f.charge(t, i, cost{size.Draw(t, "n"), size.Draw(t, "b")})
			}
		}
	})
}

// The bucket in Redis and the leases together never exceed the burst.
func TestBucketAndRateLeasesNeverExceedTheBurst(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := connect(t, server.URL(), patient)
	var projects atomic.Int64
	rapid.Check(t, func(t *rapid.T) {
		project := fmt.Sprintf("rate-%d", projects.Add(1))
		limits := Limits{Rate: rapid.Int64Range(1, 100_000).Draw(t, "rate")}
		members := make([]*Redis, rapid.IntRange(1, 4).Draw(t, "processes"))
		for i := range members {
			members[i] = newPatient(client, Config{})
		}
		began, passed, largest := time.Now(), 0, 0
		var last *Grant
		lastSize := 0
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			by := members[rapid.IntRange(0, len(members)-1).Draw(t, "process")]
			n := rapid.IntRange(0, int(limits.Rate)).Draw(t, "n")
			g, err := by.Charge(context.Background(), project, limits, n, 0)
			if err == nil {
				passed, largest, last, lastSize = passed+n, max(largest, n), &g, n
			}
			if last != nil && rapid.IntRange(0, 9).Draw(t, "refund") == 0 {
				by.Refund(*last, lastSize, 0)
				last = nil
				passed -= lastSize
			}
			checkBucketAndLeases(t, client, members, project, limits.Rate)
		}
		most := burst(limits.Rate) + float64(limits.Rate)*time.Since(began).Seconds() + float64(largest)
		if float64(passed) > most {
			t.Fatalf("%d records were accepted, at most %.1f expected", passed, most)
		}
	})
}

// checkBucketAndLeases fails if more than the burst could be accepted at once.
func checkBucketAndLeases(t *rapid.T, client redis.UniversalClient, members []*Redis, project string, rate int64) {
	level, err := client.HGet(context.Background(), "q:{"+project+"}:rate:now", "level").Float64()
	if err != nil {
		return // no limiter has called Redis yet
	}
	var leased int64
	for _, m := range members {
		a := m.accounts.of(project)
		a.rate.advance(m.now()) // if the machine stood still, leases have ended
		leased += a.rate.left
	}
	if level+float64(leased) > burst(rate)+1e-3 {
		t.Fatalf("the bucket holds %.3f and the leases %d, with a burst of %.0f", level, leased, burst(rate))
	}
}

func TestRateHoldsOverManyProcesses(t *testing.T) {
	t.Parallel()
	const rate, batch, processes = 2000, 7, 3
	server := redistest.Start(t)
	clients := &clients{began: time.Now(), limits: Limits{Rate: rate}, batch: batch}
	var done sync.WaitGroup
	for range processes {
		limiter := patientRedis(t, server, Config{})
		start(t, limiter)
		done.Go(func() { clients.charge(limiter) })
	}
	done.Wait()
	took, passed := time.Since(clients.began).Seconds(), float64(clients.passed.Load())
	if most := rate*took + burst(rate) + batch; passed > most {
		t.Errorf("%.0f records were accepted in %.2f s, at most %.0f expected", passed, took, most)
	}
	// Between two refusals, when the bucket was empty, everything that came in must
	// have been accepted, except what other processes had leased.
	span := (clients.last - clients.first).Seconds()
	if passed, due := float64(clients.passed.Load()-clients.before), rate*span; passed < due/2 {
		t.Errorf("%.0f records were accepted in the %.2f s between two refusals, of %.0f", passed, span, due)
	}
}

// clients are processes that charge one project as fast as they can.
type clients struct {
	began  time.Time
	limits Limits
	batch  int
	passed atomic.Int64

	mu          sync.Mutex
	first, last time.Duration // times of the first refusal and of the start of the newest refused call
	before      int64         // what had been accepted before the first
}

// charge charges batches until the first refusal that is at least two seconds after
// the first one.
func (p *clients) charge(l Limiter) {
	for {
		asked, before := time.Since(p.began), p.passed.Load()
		if _, err := l.Charge(context.Background(), "busy~p", p.limits, p.batch, 0); err == nil {
			p.passed.Add(int64(p.batch))
		} else if p.refused(asked, before) {
			return
		}
	}
}

// refused records a refusal, and reports whether charge can stop.
func (p *clients) refused(asked time.Duration, before int64) (enough bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.first == 0 {
		p.first, p.before = time.Since(p.began), before
	}
	p.last = max(p.last, asked)
	return asked > p.first+2*time.Second
}
