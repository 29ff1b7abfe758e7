package quota

import (
	"time"
)

const (
	// retryPart is the part of a second's rate that has to be there before a
	// process asks for more after a refusal: 20 times a second at most.
	retryPart = 1.0 / 20

	// keepRateLease is how long a lease of the rate may be used. Redis keeps
	// its bucket so much emptier meanwhile, so it must end though its process
	// may have crashed.
	keepRateLease = 10 * time.Second
)

// rateShare is a process's share of a bucket in Redis: what it knows of the
// bucket, and its lease. An account's lock guards it.
//
// A bucket that fills up behind a lease would let more pass than the burst. So
// Redis notes each lease and keeps
//
//	bucket + leases <= burst
//
// until it is given back or has ended. The process counts its lease's time from
// before its question left, so that it ends here first; no two clocks need
// agree on the time of day.
type rateShare struct {
	pace
	rate int64     // 0: no limit
	at   time.Time // when the rest was brought up to date

	known bool
	view  float64   // of the bucket: its level at the last answer and what came in since
	owed  float64   // used and not counted in Redis yet; fades once the bucket is full
	back  int64     // to be given back
	lease int64     // taken out of the bucket and not used yet
	full  int64     // what Redis has noted as the lease
	until time.Time // when the lease ends
}

// turn brings everything up to now.
func (r *rateShare) turn(now time.Time) {
	if r.rate == 0 {
		return
	}
	r.view += float64(r.rate) * max(now.Sub(r.at).Seconds(), 0)
	r.at = now
	if over := r.view - burst(r.rate); over > 0 {
		r.owed = max(r.owed-over, 0)
		r.view = burst(r.rate)
	}
	if !now.Before(r.until) {
		r.lease, r.full = 0, 0
	}
	if over := r.lease - r.full; over > 0 {
		r.back += over
		r.lease = r.full
	}
}

// limitTo sets another rate; the bucket is then taken to be full.
func (r *rateShare) limitTo(rate int64, now time.Time) {
	if r.rate != rate {
		*r = rateShare{rate: rate, at: now, view: burst(rate)}
	}
}

func (r *rateShare) giveBack() {
	r.back += r.lease
	r.lease, r.full = 0, 0
}

// level is what may be used, as far as the process knows.
func (r *rateShare) level() float64 { return r.view - r.owed + float64(r.lease+r.back) }

func (r *rateShare) holds(n int64) bool { return r.rate == 0 || r.lease >= n }

// spend uses n of the lease, which holds it.
func (r *rateShare) spend(n int64) {
	if r.rate > 0 {
		r.lease -= n
		r.pace.add(n)
	}
}

// spendAlone uses n whether Redis has counted it or not.
func (r *rateShare) spendAlone(n int64, leased bool) {
	if r.rate == 0 {
		return
	}
	r.pace.add(n)
	if leased {
		part := min(r.lease, n)
		r.lease -= part
		n -= part
	}
	r.owed += float64(n)
}

// refund takes back what was used.
func (r *rateShare) refund(n int64) {
	if r.rate == 0 {
		return
	}
	r.lease += n
	r.pay()
	r.turn(r.at)
}

// pay has the lease make up for what is owed.
func (r *rateShare) pay() {
	part := min(r.lease, int64(r.owed))
	r.lease -= part
	r.owed -= float64(part)
}

// exceeded is the refusal of n while less than needed may be used, or nil.
func (r *rateShare) exceeded(n int64, needed float64, now time.Time) *Exceeded {
	if r.rate == 0 || r.lease >= n || r.level() >= needed {
		return nil
	}
	return newExceeded(Rate, r.rate, now, seconds((needed-r.level())/float64(r.rate)))
}

// retryLevel is what has to be there before Redis is asked again.
func (r *rateShare) retryLevel() float64 { return max(1, float64(r.rate)*retryPart) }

func (r *rateShare) isLow() bool {
	return r.rate > 0 && r.lease*10 < r.full*3 && r.view-r.owed >= r.retryLevel()
}

func (r *rateShare) state() State { return rateState(r.rate, r.level(), r.at) }

// settle takes Redis' answer to what the process told and asked at a time. For
// a batch that was granted Redis has noted no lease but the new one: claim is
// to spend the rest.
func (r *rateShare) settle(told rateCall, answer rateAnswer, granted bool, sent, now time.Time) {
	if r.rate == 0 || r.rate != told.rate {
		return
	}
	r.turn(now)
	r.known = true
	r.view = min(answer.level+float64(r.rate)*max(now.Sub(sent).Seconds(), 0), burst(r.rate))
	r.owed = max(r.owed-told.owed, 0)
	r.back -= told.back
	r.lease += answer.leased
	r.full = told.have + answer.leased
	if granted {
		r.lease += told.need
		r.full = answer.leased
	}
	r.until = sent.Add(keepRateLease)
	r.pay()
}
