package quota

import (
	"sync"
	"time"
)

// account is what a process knows of one project, and what it has leased.
type account struct {
	project string

	mu      sync.Mutex
	dropped bool // no more in the registry: look again
	limits  Limits
	rate    rateShare
	day     share
	month   share

	pending  *flight       // not answered yet; nothing else is asked before it is
	landed   chan struct{} // not nil while a flight is in the air; closed when it is over
	reserved bool          // the leases are part of the batch in the air
	waiting  cost          // of those who wait for the flight
	queued   bool          // for a refill
	flown    time.Time     // when the last flight left that was answered
	used     time.Time     // the last Take
}

func newAccount(project string) *account {
	return &account{
		project: project,
		day:     share{name: DailyRecords},
		month:   share{name: MonthlyBytes},
	}
}

// turn brings the windows and the bucket up to now.
func (a *account) turn(now time.Time) {
	a.rate.turn(now)
	a.day.turn(a.project, now)
	a.month.turn(a.project, now)
}

// limitTo takes the limits of the caller, which were changed now and then.
func (a *account) limitTo(l Limits, now time.Time) {
	if a.limits == l {
		return
	}
	a.limits = l
	a.rate.limitTo(l.Rate, now)
	a.day.limitTo(l.DailyRecords)
	a.month.limitTo(l.MonthlyBytes)
}

// spend takes the batch from the leases if they hold it.
func (a *account) spend(n cost) bool {
	if a.reserved || !a.rate.holds(n.records) || !a.day.holds(n.records) || !a.month.holds(n.bytes) {
		return false
	}
	a.rate.spend(n.records)
	a.day.spend(n.records)
	a.month.spend(n.bytes)
	return true
}

// spendAlone takes the batch by what the process knows.
func (a *account) spendAlone(n cost) {
	a.rate.spendAlone(n.records, !a.reserved)
	a.day.spendAlone(n.records, !a.reserved)
	a.month.spendAlone(n.bytes, !a.reserved)
}

// exceeded is the refusal of a batch by what the process knows, or nil. level
// is what has to be there of the rate.
func (a *account) exceeded(n cost, level float64, now time.Time) *Exceeded {
	return a.rate.exceeded(n.records, level, now).
		later(a.day.exceeded(n.records, now)).
		later(a.month.exceeded(n.bytes, now))
}

// newsAge is for how long a counter that was seen at its limit is not asked
// about again; others may have given something back.
const newsAge = time.Second

// isOld tells whether a refusal is to be checked with Redis first. A refusal by
// the rate ends by itself.
func (a *account) isOld(e *Exceeded, now time.Time) bool {
	return e.Quota != Rate && now.Sub(a.flown) >= newsAge
}

// isNew tells whether there is a quota that the process knows nothing of.
func (a *account) isNew() bool {
	return a.rate.rate > 0 && !a.rate.known || a.day.limit > 0 && !a.day.known || a.month.limit > 0 && !a.month.known
}

func (a *account) isLow() bool { return a.rate.isLow() || a.day.isLow() || a.month.isLow() }

// owes tells whether there is something that Redis has to be told.
func (a *account) owes() bool {
	return a.pending != nil || a.rate.owed > 0 || a.rate.back > 0 || a.day.owed != 0 || a.month.owed != 0
}

// holdsLease tells whether there is something to give back.
func (a *account) holdsLease() bool { return a.rate.lease > 0 || a.day.lease > 0 || a.month.lease > 0 }

// grant is the answer to a Take.
func (a *account) grant() Grant {
	g := Grant{project: a.project}
	var closest nearest
	if a.rate.rate > 0 {
		g.rate = true
		closest.weigh(a.rate.state(), burst(a.rate.rate))
	}
	if a.day.limit > 0 {
		g.day = a.day.window.Start
		closest.weigh(a.day.state(), float64(a.day.limit))
	}
	if a.month.limit > 0 {
		g.month = a.month.window.Start
		closest.weigh(a.month.state(), float64(a.month.limit))
	}
	g.State = closest.state
	return g
}

// purpose is why a flight is sent.
type purpose int

const (
	decide   purpose = iota // on a batch, and lease
	fill                    // the leases
	giveBack                // the leases
)

// compose makes the next flight.
func (a *account) compose(seq uint64, why purpose, n cost, now time.Time) *flight {
	f := &flight{seq: seq, sent: now, deciding: why == decide}
	if f.deciding {
		f.batch = n
	}
	var rate, day, month int64 // to be leased
	if why == giveBack {
		a.rate.giveBack()
		a.day.giveBack()
		a.month.giveBack()
	} else {
		elapsed := now.Sub(a.flown)
		rate = max(a.rate.next(elapsed)+a.waiting.records-a.rate.lease, 0)
		day = max(a.day.next(elapsed)+a.waiting.records-a.day.lease, 0)
		month = max(a.month.next(elapsed)+a.waiting.bytes-a.month.lease, 0)
	}
	f.rate = a.rate.call(f.batch.records, rate)
	f.day = a.day.call(f.batch.records, day)
	f.month = a.month.call(f.batch.bytes, month)
	return f
}

// settle takes the answer to a flight.
func (a *account) settle(f *flight, got answer, now time.Time) {
	a.flown = f.sent
	granted := got.granted && f.deciding
	a.rate.settle(f.rate, got.rate, granted, f.sent, now)
	a.day.settle(f.day, got.day, granted)
	a.month.settle(f.month, got.month, granted)
}

// claim spends what a flight was granted for its batch, unless its window is
// over: then it was counted there and is not remembered here.
func (a *account) claim(f *flight) Grant {
	g := a.grant()
	if a.rate.rate == f.rate.rate {
		a.rate.spendAlone(f.batch.records, true)
	}
	if g.day.Equal(f.day.window.Start) {
		a.day.spendAlone(f.batch.records, true)
	}
	if g.month.Equal(f.month.window.Start) {
		a.month.spendAlone(f.batch.bytes, true)
	}
	g = a.grant()
	g.rate, g.day, g.month = f.rate.rate > 0, f.day.start(), f.month.start()
	return g
}

// start is the beginning of the window that a call counts in, if it does.
func (c *counterCall) start() time.Time {
	if c.limit == 0 {
		return time.Time{}
	}
	return c.window.Start
}
