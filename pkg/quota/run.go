package quota

import (
	"context"
	"time"

	"golang.org/x/sync/errgroup"
)

const (
	refillers  = 4                      // at once; a flight takes less than a millisecond
	probeEvery = 100 * time.Millisecond // while Redis is away
	sweepEvery = 2 * time.Second
	leaseIdle  = time.Minute      // a lease that nobody uses so long is given back; the rate's ends before
	forgetIdle = 10 * time.Minute // a project that nobody uses so long is forgotten
	closeTime  = 2 * time.Second  // for giving the leases back at the end
	closers    = 16               // at once
)

// Run implements Limiter: it fills leases up, gives back those that nobody
// uses, and finds out when Redis is back.
func (r *Redis) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	for range refillers {
		group.Go(func() error { return r.refillAll(ctx) })
	}
	group.Go(func() error { return r.probe(ctx) })
	group.Go(func() error { return r.sweep(ctx) })
	err := group.Wait()
	r.close(context.WithoutCancel(ctx))
	return err
}

// refillAll serves the queue of accounts.
func (r *Redis) refillAll(ctx context.Context) error {
	for {
		select {
		case a := <-r.refills:
			r.attend(ctx, a)
		case <-ctx.Done():
			return nil
		}
	}
}

// attend does what an account needs: fills its leases, gives them back, or
// tells Redis what was used without it.
func (r *Redis) attend(ctx context.Context, a *account) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.queued = false
	if a.landed != nil || r.away.Load() {
		return
	}
	now := r.now()
	a.turn(now)
	switch {
	case a.isIdle(now, leaseIdle):
		r.fly(ctx, a, giveBack, cost{})
	case a.isLow() || a.owes():
		r.fly(ctx, a, fill, cost{})
	}
}

func (a *account) isIdle(now time.Time, since time.Duration) bool {
	return now.Sub(a.used) >= since
}

// probe asks a Redis that is away whether it is back.
func (r *Redis) probe(ctx context.Context) error {
	tick := time.NewTicker(probeEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
		if r.away.Load() && r.answers(ctx) {
			r.away.Store(false)
			r.logger.Info("redis answers again: quotas are counted together")
			r.survey(ctx)
		}
	}
}

// answers asks Redis about no project and no quota: a server that answers a
// ping may be unable to write.
func (r *Redis) answers(ctx context.Context) bool {
	r.count.roundTrips.Add(1)
	_, err := r.tower.send(ctx, "", &flight{seq: r.seq.Add(1)}, r.now())
	if err != nil {
		r.count.failures.Add(1)
	}
	return err == nil
}

// sweep looks after the accounts that nobody uses.
func (r *Redis) sweep(ctx context.Context) error {
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			r.survey(ctx)
		case <-ctx.Done():
			return nil
		}
	}
}

// survey queues the accounts that need something and forgets those that nobody
// has used for long.
func (r *Redis) survey(ctx context.Context) {
	now := r.now()
	for _, a := range r.accounts.all() {
		if !r.inspect(a, now) {
			continue
		}
		select {
		case r.refills <- a:
		case <-ctx.Done():
			return
		}
	}
}

// inspect tells whether the account is to be queued, and marks it so.
func (r *Redis) inspect(a *account, now time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.turn(now)
	idle := a.isIdle(now, leaseIdle)
	switch {
	case a.queued || a.landed != nil || r.away.Load():
		return false
	case a.owes() || idle && a.holdsLease():
		a.queued = true
	case a.isIdle(now, forgetIdle):
		a.dropped = true
		r.accounts.drop(a.project, a)
	}
	return a.queued
}

// close gives back what is leased, as far as Redis takes it in time.
func (r *Redis) close(ctx context.Context) {
	r.draining.Store(true)
	ctx, cancel := context.WithTimeout(ctx, r.farewell)
	defer cancel()
	if r.away.Load() && !r.answers(ctx) {
		return // the leases lapse, and what was used without Redis is not counted
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(closers)
	for _, a := range r.accounts.all() {
		group.Go(func() error {
			r.settleUp(ctx, a)
			return nil
		})
	}
	_ = group.Wait() // no errors
}

// settleUp has an account owe nothing and hold nothing.
func (r *Redis) settleUp(ctx context.Context, a *account) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.turn(r.now())
	for ctx.Err() == nil && (a.landed != nil || a.owes() || a.holdsLease()) {
		if a.landed != nil {
			a.await(r.patience, cost{})
			continue
		}
		if r.fly(ctx, a, giveBack, cost{}); a.pending != nil {
			return
		}
	}
}
