package quota

import (
	"sync"
	"time"
)

// account is what a process knows of one project, and what it has leased.
type account struct {
	project string

	mu      sync.Mutex
	dropped bool // no longer in the registry: load it again
	limits  Limits
	rate    bucketShare
	day     counterShare
	month   counterShare

	unanswered *call         // the call to repeat before any other
	inflight   chan struct{} // not nil while a call is in progress; closed when it ends
	committed  bool          // the leases are part of the batch that the call in progress decides on
	waiting    cost          // of the batches that wait for the call in progress
	queued     bool          // for a refill
	answered   time.Time     // when the last answered call was first sent
	lastUsed   time.Time     // the last Charge or Check
}

func newAccount(project string) *account {
	return &account{
		project: project,
		day:     counterShare{name: DailyRecords},
		month:   counterShare{name: MonthlyBytes},
	}
}

// advance brings the windows and the bucket up to now.
func (a *account) advance(now time.Time) {
	a.rate.advance(now)
	a.day.advance(a.project, now)
	a.month.advance(a.project, now)
}

// setLimits sets the limits of the caller, which may have changed.
func (a *account) setLimits(l Limits, now time.Time) {
	if a.limits == l {
		return
	}
	a.limits = l
	a.rate.setLimit(l.Rate, now)
	a.day.setLimit(l.DailyRecords)
	a.month.setLimit(l.MonthlyBytes)
}

// use takes the batch from the leases if they hold it.
func (a *account) use(n cost) bool {
	if a.committed || !a.rate.holds(n.records) || !a.day.holds(n.records) || !a.month.holds(n.bytes) {
		return false
	}
	a.rate.use(n.records)
	a.day.use(n.records)
	a.month.use(n.bytes)
	return true
}

// useAlone uses the batch although the leases do not hold it. The next call
// counts it.
func (a *account) useAlone(n cost) {
	a.rate.uncounted += float64(a.rate.useAvailable(n.records, !a.committed))
	a.day.uncounted += a.day.useAvailable(n.records, !a.committed)
	a.month.uncounted += a.month.useAvailable(n.bytes, !a.committed)
}

// exceeded returns the refusal of a batch by what the process knows, or nil.
// needed is how much of the rate must be available.
func (a *account) exceeded(n cost, needed float64, now time.Time) *Exceeded {
	return a.rate.exceeded(n.records, needed, now).
		later(a.day.exceeded(n.records, now)).
		later(a.month.exceeded(n.bytes, now))
}

// refusalAge is how long a refusal by a counter holds without another call;
// other processes may have returned something since.
const refusalAge = time.Second

// isOld reports whether Redis must confirm a refusal. A refusal by the rate ends
// by itself.
func (a *account) isOld(e *Exceeded, now time.Time) bool {
	return e.Quota != Rate && now.Sub(a.answered) >= refusalAge
}

// isNew reports whether there is a quota that the process knows nothing of.
func (a *account) isNew() bool {
	return a.rate.limit > 0 && !a.rate.known || a.day.limit > 0 && !a.day.known || a.month.limit > 0 && !a.month.known
}

func (a *account) isLow() bool { return a.rate.isLow() || a.day.isLow() || a.month.isLow() }

func (a *account) isIdle(now time.Time, since time.Duration) bool {
	return now.Sub(a.lastUsed) >= since
}

// hasUncounted reports whether there is something to tell Redis.
func (a *account) hasUncounted() bool {
	return a.unanswered != nil || a.rate.uncounted > 0 || a.rate.returned > 0 || a.day.uncounted != 0 || a.month.uncounted != 0
}

// holdsLease reports whether there is a lease to return.
func (a *account) holdsLease() bool { return a.rate.left > 0 || a.day.left > 0 || a.month.left > 0 }

// grant returns the Grant of a batch that was just used.
func (a *account) grant() Grant {
	g := Grant{project: a.project}
	var closest nearest
	if a.rate.limit > 0 {
		g.rate = true
		closest.add(a.rate.state(), burst(a.rate.limit))
	}
	if a.day.limit > 0 {
		g.day = a.day.window.Start
		closest.add(a.day.state(), float64(a.day.limit))
	}
	if a.month.limit > 0 {
		g.month = a.month.window.Start
		closest.add(a.month.state(), float64(a.month.limit))
	}
	g.State = closest.state
	return g
}

// purpose is what a call is for.
type purpose int

const (
	decide  purpose = iota // decide on a batch, and refill the leases
	refill                 // refill the leases
	release                // return the leases
)

// newCall returns the next call.
func (a *account) newCall(seq uint64, why purpose, n cost, now time.Time) *call {
	c := &call{seq: seq, sent: now, deciding: why == decide}
	if c.deciding {
		c.batch = n
	}
	var rate, day, month int64 // to be leased
	if why == release {
		a.rate.release()
		a.day.release()
		a.month.release()
	} else {
		elapsed := now.Sub(a.answered)
		rate = max(a.rate.next(elapsed)+a.waiting.records-a.rate.left, 0)
		day = max(a.day.next(elapsed)+a.waiting.records-a.day.left, 0)
		month = max(a.month.next(elapsed)+a.waiting.bytes-a.month.left, 0)
	}
	c.rate = a.rate.call(c.batch.records, rate)
	c.day = a.day.call(c.batch.records, day)
	c.month = a.month.call(c.batch.bytes, month)
	return c
}

// apply takes over the answer to a call.
func (a *account) apply(c *call, got answer, now time.Time) {
	a.answered = c.sent
	granted := got.granted && c.deciding
	a.rate.apply(c.rate, got.rate, granted, c.sent, now)
	a.day.apply(c.day, got.day, granted)
	a.month.apply(c.month, got.month, granted)
}

// claim uses what a call was granted for its batch. If the batch's window has
// ended since, it was counted there and is not remembered here.
func (a *account) claim(c *call) Grant {
	if a.rate.limit == c.rate.limit {
		a.rate.uncounted += float64(a.rate.useAvailable(c.batch.records, true))
	}
	if a.day.window.Start.Equal(c.day.window.Start) {
		a.day.uncounted += a.day.useAvailable(c.batch.records, true)
	}
	if a.month.window.Start.Equal(c.month.window.Start) {
		a.month.uncounted += a.month.useAvailable(c.batch.bytes, true)
	}
	g := a.grant()
	g.rate, g.day, g.month = c.rate.limit > 0, c.day.windowStart(), c.month.windowStart()
	return g
}
