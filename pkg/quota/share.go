package quota

import "time"

// The size of a lease: what the process used lately in leaseSpan, at most
// leaseGrowth times the lease before, and at least leaseBatches batches, so that
// a slow project need not call Redis for each. Redis grants at most a part of
// what is left.
const (
	leaseSpan    = 2 * time.Second
	leaseGrowth  = 4
	leaseBatches = 8
	leastLease   = 16
)

// pace measures how fast a lease is used, and so how large the next should be.
type pace struct {
	used  int64 // since the last call
	batch int64 // the last one
	size  int64 // of the last lease asked for
}

// next returns how much to lease, given how long it took to use p.used.
func (p *pace) next(elapsed time.Duration) int64 {
	wanted := float64(p.used) * float64(leaseSpan) / float64(max(elapsed, time.Microsecond))
	most := float64(leaseGrowth * max(p.size, p.used, leastLease))
	p.size = min(max(int64(min(wanted, most, maxLimit)), p.size/2, leaseBatches*p.batch, leastLease), maxLimit)
	p.used = 0
	return p.size
}

// lease is what a process may use of one quota without a call of Redis.
type lease struct {
	pace
	limit   int64 // 0: no limit
	left    int64 // counted in Redis and not used yet
	initial int64 // what left was when Redis last answered
}

func (l *lease) holds(n int64) bool { return l.limit == 0 || l.left >= n }

// use takes n from the lease, which must hold it.
func (l *lease) use(n int64) {
	if l.limit > 0 {
		l.left -= n
		l.record(n)
	}
}

// useAvailable takes as much of n from the lease as it holds, or nothing if the
// lease may not be used, and returns the rest.
func (l *lease) useAvailable(n int64, mayUse bool) (rest int64) {
	if l.limit == 0 {
		return 0
	}
	l.record(n)
	if !mayUse {
		return n
	}
	part := min(l.left, n)
	l.left -= part
	return n - part
}

func (l *lease) record(n int64) {
	l.pace.used += n
	l.batch = n
}

// isLow reports whether less than 30 % of the lease is left.
func (l *lease) isLow() bool { return l.limit > 0 && l.left*10 < l.initial*3 }

// counterShare is what a process knows of a counter in Redis, and its lease of
// it. An account's lock guards it.
type counterShare struct {
	lease
	name   Name
	window Window

	known           bool  // spent and returned were read in this window
	spent, returned int64 // the highest values seen; used = spent - returned
	floor           int64 // Redis has to raise the counter to this
	uncounted       int64 // used and not counted in Redis yet; below zero: to be returned
}

// advance forgets another window.
func (s *counterShare) advance(project string, now time.Time) {
	if !s.window.contains(now) {
		*s = counterShare{name: s.name, lease: lease{limit: s.limit, pace: s.pace}, window: windowOf(s.name, project, now)}
	}
}

// setLimit sets another limit. The lease was sized for the old one, so it is
// returned. Without a limit nothing is counted or remembered.
func (s *counterShare) setLimit(limit int64) {
	switch limit {
	case s.limit:
	case 0:
		*s = counterShare{name: s.name, window: s.window}
	default:
		s.limit, s.known = limit, false
		s.release()
	}
}

// release puts the lease among what the next call returns.
func (s *counterShare) release() {
	s.uncounted -= s.left
	s.left, s.initial = 0, 0
}

// remaining is what this process may use, as far as it knows.
func (s *counterShare) remaining() int64 {
	return s.limit - (s.spent - s.returned) - s.uncounted + s.left
}

// refund returns what was used in the window that began at start.
func (s *counterShare) refund(start time.Time, n int64) {
	if s.limit > 0 && start.Equal(s.window.Start) {
		s.left += n
	}
}

// exceeded returns the refusal of n, or nil.
func (s *counterShare) exceeded(n int64, now time.Time) *Exceeded {
	if s.limit == 0 || s.left >= n || s.remaining() > 0 {
		return nil
	}
	return newExceeded(s.name, s.limit, now, s.window.End.Sub(now))
}

// isLow reports whether the lease should be refilled and can be.
func (s *counterShare) isLow() bool { return s.lease.isLow() && s.remaining() > s.left }

func (s *counterShare) state() State {
	return State{s.name, s.limit, max(s.remaining(), 0), s.window.End}
}

// call returns what the next call says of the counter, to decide on n and to
// lease want.
func (s *counterShare) call(n, want int64) counterCall {
	return counterCall{s.window, s.limit, s.spent, s.returned, s.floor, s.uncounted, s.left, max(n-s.left, 0), want}
}

// apply takes over the answer to a call.
func (s *counterShare) apply(sent counterCall, answer counterAnswer, granted bool) {
	if s.limit == 0 || !sent.window.Start.Equal(s.window.Start) {
		return
	}
	s.known = true
	s.spent, s.returned = max(s.spent, answer.spent), max(s.returned, answer.returned)
	if s.floor == sent.floor {
		s.floor = 0
	}
	s.uncounted -= sent.uncounted
	s.left += answer.leased
	if granted {
		s.left += sent.need
	}
	if part := min(s.left, s.uncounted); part > 0 {
		s.left -= part
		s.uncounted -= part
	}
	s.initial = s.left
}

// restore makes the next call raise the counter to what was used in a window,
// if that is the current one.
func (s *counterShare) restore(w Window, used int64) {
	if s.limit == 0 || used <= 0 || !w.Start.Equal(s.window.Start) {
		return
	}
	s.floor = max(s.floor, min(used, maxLimit))
	s.spent = max(s.spent, s.floor+s.returned)
}

const (
	// retryPart is the part of a second's rate that must be available before a
	// process calls Redis again after a refusal: at most 20 times a second.
	retryPart = 1.0 / 20

	// keepRateLease is how long a lease of the rate may be used. Redis keeps its
	// bucket that much emptier meanwhile, so a lease must end even if its process
	// crashed.
	keepRateLease = 10 * time.Second
)

// bucketShare is what a process knows of a bucket in Redis, and its lease of it.
// An account's lock guards it.
//
// A bucket that fills up while a lease is out would let more pass than the
// burst. So Redis records each lease and keeps
//
//	bucket + leases <= burst
//
// until the lease is returned or has ended. The process measures the lease's
// time from before it sent the call, so that the lease ends here first. The two
// clocks need not agree on the time of day.
type bucketShare struct {
	lease               // limit is the rate; initial is what Redis recorded as the lease
	at        time.Time // when the fields below were brought up to date
	known     bool      // Redis has answered
	level     float64   // of the bucket: as answered, and what came in since
	uncounted float64   // used and not counted in Redis yet; shrinks while the bucket is full
	returned  int64     // to be returned
	until     time.Time // when the lease ends
}

// advance brings everything up to now.
func (r *bucketShare) advance(now time.Time) {
	if r.limit == 0 {
		return
	}
	r.level += float64(r.limit) * max(now.Sub(r.at).Seconds(), 0)
	r.at = now
	if over := r.level - burst(r.limit); over > 0 {
		r.uncounted = max(r.uncounted-over, 0)
		r.level = burst(r.limit)
	}
	if !now.Before(r.until) {
		r.left, r.initial = 0, 0
	}
	if over := r.left - r.initial; over > 0 {
		r.returned += over
		r.left = r.initial
	}
}

// setLimit sets another rate and assumes a full bucket.
func (r *bucketShare) setLimit(rate int64, now time.Time) {
	if r.limit != rate {
		*r = bucketShare{lease: lease{limit: rate}, at: now, level: burst(rate)}
	}
}

// release puts the lease among what the next call returns.
func (r *bucketShare) release() {
	r.returned += r.left
	r.left, r.initial = 0, 0
}

// available is what may be used, as far as the process knows.
func (r *bucketShare) available() float64 { return r.level - r.uncounted + float64(r.left+r.returned) }

// refund returns what was used.
func (r *bucketShare) refund(n int64) {
	if r.limit == 0 {
		return
	}
	r.left += n
	r.countFromLease()
	r.advance(r.at)
}

// countFromLease uses the lease for what is not counted yet.
func (r *bucketShare) countFromLease() {
	part := min(r.left, int64(r.uncounted))
	r.left -= part
	r.uncounted -= float64(part)
}

// exceeded returns the refusal of n while less than needed is available, or nil.
func (r *bucketShare) exceeded(n int64, needed float64, now time.Time) *Exceeded {
	if r.limit == 0 || r.left >= n || r.available() >= needed {
		return nil
	}
	return newExceeded(Rate, r.limit, now, seconds((needed-r.available())/float64(r.limit)))
}

// retryLevel is what must be available before Redis is called again.
func (r *bucketShare) retryLevel() float64 { return max(1, float64(r.limit)*retryPart) }

// isLow reports whether the lease should be refilled and can be.
func (r *bucketShare) isLow() bool {
	return r.lease.isLow() && r.level-r.uncounted >= r.retryLevel()
}

func (r *bucketShare) state() State { return rateState(r.limit, r.available(), r.at) }

// call returns what the next call says of the bucket, to decide on n and to
// lease want.
func (r *bucketShare) call(n, want int64) bucketCall {
	return bucketCall{r.limit, r.known, r.level, r.uncounted, r.returned, r.left, max(n-r.left, 0), want}
}

// apply takes over the answer to a call that was sent then. For a batch that was
// granted Redis has recorded no lease but the new one; claim uses the rest.
func (r *bucketShare) apply(call bucketCall, answer bucketAnswer, granted bool, sent, now time.Time) {
	if r.limit == 0 || r.limit != call.limit {
		return
	}
	r.advance(now)
	r.known = true
	r.level = min(answer.level+float64(r.limit)*max(now.Sub(sent).Seconds(), 0), burst(r.limit))
	r.uncounted = max(r.uncounted-call.uncounted, 0)
	r.returned -= call.returned
	r.left += answer.leased
	r.initial = call.have + answer.leased
	if granted {
		r.left += call.need
		r.initial = answer.leased
	}
	r.until = sent.Add(keepRateLease)
	r.countFromLease()
}
