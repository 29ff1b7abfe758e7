package quota

import (
	"time"
)

// How large leases are: what was used lately in leaseSpan, at most four times
// as much as before, and at least a few batches, so that a slow project need
// not ask each time. Redis gives at most a part of what is left.
const (
	leaseSpan    = 2 * time.Second
	leaseGrowth  = 4
	leaseBatches = 8
	leastLease   = 16
)

// pace is how fast a lease is used, and so how large the next one is to be.
type pace struct {
	spent int64 // since the last flight
	batch int64 // the last one
	size  int64 // of leases
}

func (p *pace) add(n int64) {
	p.spent += n
	p.batch = n
}

// next is how much to lease when what was spent took so long.
func (p *pace) next(elapsed time.Duration) int64 {
	wanted := float64(p.spent) * float64(leaseSpan) / float64(max(elapsed, time.Microsecond))
	most := float64(leaseGrowth * max(p.size, p.spent, leastLease))
	p.size = min(max(int64(min(wanted, most, maxLimit)), p.size/2, leaseBatches*p.batch, leastLease), maxLimit)
	p.spent = 0
	return p.size
}

// share is a process's share of a counter in Redis: what it knows of the
// counter, and its lease. An account's lock guards it.
type share struct {
	pace
	name   Name
	window Window
	limit  int64 // 0: none

	known       bool  // spent and back were read in this window
	spent, back int64 // the highest seen
	least       int64 // the counter is to be raised to this
	lease       int64 // counted in Redis and not used yet
	full        int64 // what lease was when it was new
	owed        int64 // used and not counted in Redis yet; below zero: to be given back
}

// turn forgets what was of another window.
func (s *share) turn(project string, now time.Time) {
	if !s.window.contains(now) {
		*s = share{name: s.name, limit: s.limit, pace: s.pace, window: windowOf(s.name, project, now)}
	}
}

// limitTo sets another limit. The lease was cut to the old one, so it is given
// back. Without a limit nothing is counted, and nothing is remembered.
func (s *share) limitTo(limit int64) {
	switch limit {
	case s.limit:
	case 0:
		*s = share{name: s.name, window: s.window}
	default:
		s.limit, s.known = limit, false
		s.giveBack()
	}
}

func (s *share) giveBack() {
	s.owed -= s.lease
	s.lease, s.full = 0, 0
}

// remaining is what this process may use, as far as it knows.
func (s *share) remaining() int64 {
	return s.limit - (s.spent - s.back) - s.owed + s.lease
}

func (s *share) holds(n int64) bool { return s.limit == 0 || s.lease >= n }

// spend uses n of the lease, which holds it.
func (s *share) spend(n int64) {
	if s.limit > 0 {
		s.lease -= n
		s.pace.add(n)
	}
}

// spendAlone uses n whether Redis has counted it or not.
func (s *share) spendAlone(n int64, leased bool) {
	if s.limit == 0 {
		return
	}
	s.pace.add(n)
	if leased {
		part := min(s.lease, n)
		s.lease -= part
		n -= part
	}
	s.owed += n
}

// refund takes back what was used in the window that began then.
func (s *share) refund(start time.Time, n int64) {
	if s.limit > 0 && start.Equal(s.window.Start) {
		s.lease += n
	}
}

// exceeded is the refusal of n, or nil.
func (s *share) exceeded(n int64, now time.Time) *Exceeded {
	if s.limit == 0 || s.lease >= n || s.remaining() > 0 {
		return nil
	}
	return newExceeded(s.name, s.limit, now, s.window.End.Sub(now))
}

// isLow tells whether the lease is to be filled up, and could be.
func (s *share) isLow() bool {
	return s.limit > 0 && s.lease*10 < s.full*3 && s.remaining() > s.lease
}

func (s *share) state() State {
	return State{s.name, s.limit, max(s.remaining(), 0), s.window.End}
}

// settle takes Redis' answer to what the process told and asked.
func (s *share) settle(told counterCall, answer counterAnswer, granted bool) {
	if s.limit == 0 || !told.window.Start.Equal(s.window.Start) {
		return
	}
	s.known = true
	s.spent, s.back = max(s.spent, answer.spent), max(s.back, answer.back)
	if s.least == told.least {
		s.least = 0
	}
	s.owed -= told.owed
	s.lease += answer.leased
	if granted {
		s.lease += told.need
	}
	if part := min(s.lease, s.owed); part > 0 {
		s.lease -= part
		s.owed -= part
	}
	s.full = s.lease
}

// restore has the counter raised to what was used in a window, if that is the
// present one.
func (s *share) restore(w Window, used int64) {
	if s.limit == 0 || used <= 0 || !w.Start.Equal(s.window.Start) {
		return
	}
	s.least = max(s.least, min(used, maxLimit))
	s.spent = max(s.spent, s.least+s.back)
}
