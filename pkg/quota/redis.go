package quota

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"
)

// Redis is the Limiter of several processes with one Redis. While Run is not
// running, leases are not refilled in the background and an outage never ends.
type Redis struct {
	accounts       *registry[account]
	caller         caller
	now            func() time.Time
	logger         *slog.Logger
	patience       time.Duration // how long a batch waits for calls in progress
	releaseTimeout time.Duration // for returning the leases at the end

	seq      atomic.Uint64 // the number of the last call
	refills  chan *account // capacity: some hundreds of projects at once; while it is full, leases are used up
	away     atomic.Bool   // Redis did not answer, and probe has not reached it since
	draining atomic.Bool   // Run has ended: no more leases
	count    counters
}

var _ Limiter = (*Redis)(nil)

// errAway means that Redis did not answer in time.
var errAway = errors.New("redis did not answer")

// NewRedis returns a limiter over a client whose operations have timeouts. It
// neither connects nor starts anything, and does not close the client.
func NewRedis(client redis.UniversalClient, config Config) *Redis {
	config = config.withDefaults()
	return &Redis{
		accounts:       newRegistry(newAccount),
		caller:         caller{client: client, script: redis.NewScript(callScript), instance: rand.Text(), timeout: config.Timeout},
		now:            config.Now,
		logger:         config.Logger,
		patience:       config.Timeout * 4 / 5,
		releaseTimeout: 2 * time.Second,
		refills:        make(chan *account, 1024),
	}
}

// locked returns the project's account with its lock held.
func (r *Redis) locked(project string) *account {
	for {
		a := r.accounts.of(project)
		a.mu.Lock()
		if !a.dropped {
			return a
		}
		a.mu.Unlock()
	}
}

// Check implements Limiter. It calls Redis for a project that the process does
// not know yet, and once a second for one whose day or month is exceeded.
func (r *Redis) Check(ctx context.Context, project string, l Limits) error {
	if l = l.bounded(); l == (Limits{}) {
		return nil
	}
	a := r.locked(project)
	defer a.mu.Unlock()
	e := r.exceeded(a, l)
	if r.away.Load() || !a.isNew() && (e == nil || !a.isOld(e, r.now())) {
		return r.count.refuse(e)
	}
	if a.inflight != nil {
		a.await(r.patience, cost{})
	} else {
		r.call(ctx, a, refill, cost{})
	}
	return r.count.refuse(r.exceeded(a, l))
}

// exceeded returns the refusal of a project that may send nothing, as far as
// the process knows, or nil.
func (r *Redis) exceeded(a *account, l Limits) *Exceeded {
	now := r.now()
	a.lastUsed = now
	a.setLimits(l, now)
	a.advance(now)
	return a.exceeded(cost{1, 1}, r.neededRate(a), now)
}

// neededRate is how much of the rate must be available for a batch to be tried.
func (r *Redis) neededRate(a *account) float64 {
	if r.away.Load() {
		return 1
	}
	return a.rate.retryLevel()
}

// Charge implements Limiter. It serves most batches from leases, in memory.
func (r *Redis) Charge(ctx context.Context, project string, l Limits, records int, bytes int64) (Grant, error) {
	if l = l.bounded(); l == (Limits{}) {
		return Grant{project: project}, nil
	}
	n := newCost(records, bytes)
	a := r.locked(project)
	defer a.mu.Unlock()
	a.lastUsed = r.now()
	a.setLimits(l, a.lastUsed)
	a.advance(a.lastUsed)
	if a.use(n) {
		r.queueRefill(a)
		return a.grant(), nil
	}
	return r.chargeSlowly(ctx, a, n)
}

// chargeSlowly decides on a batch that the leases do not hold: by a call of
// Redis, or by the leases that another batch's call brought, or alone if Redis
// does not answer in time.
func (r *Redis) chargeSlowly(ctx context.Context, a *account, n cost) (Grant, error) {
	for started := time.Now(); ; {
		now := r.now()
		a.advance(now)
		e := a.exceeded(n, r.neededRate(a), now)
		left := r.patience - time.Since(started)
		switch {
		case a.use(n):
			return a.grant(), nil
		case r.away.Load() || left <= 0:
			return r.chargeAlone(a, n, now)
		case e != nil && !a.isOld(e, now):
			return Grant{}, r.count.refuse(e)
		case a.inflight != nil:
			a.await(left, n)
		default:
			if c, granted := r.call(ctx, a, decide, n); granted {
				return a.claim(c), nil
			}
		}
	}
}

// chargeAlone decides without Redis.
func (r *Redis) chargeAlone(a *account, n cost, now time.Time) (Grant, error) {
	r.count.fallbacks.Add(1)
	if e := a.exceeded(n, 1, now); e != nil {
		return Grant{}, r.count.refuse(e)
	}
	a.useAlone(n)
	return a.grant(), nil
}

// await waits until the call in progress ends, or for the duration. It releases
// the account's lock meanwhile. n is what the caller needs, so that the next
// call leases enough for it.
func (a *account) await(longest time.Duration, n cost) {
	inflight := a.inflight
	a.waiting.records += n.records
	a.waiting.bytes += n.bytes
	a.mu.Unlock()
	timeout := time.NewTimer(longest)
	defer timeout.Stop()
	select {
	case <-inflight:
	case <-timeout.C:
	}
	a.mu.Lock()
	a.waiting.records -= n.records
	a.waiting.bytes -= n.bytes
}

// call calls Redis, applies the answer, and reports whether the batch was
// granted. If an earlier call was not answered, it repeats that call instead. It
// releases the account's lock meanwhile; no other call of the account may be in
// progress.
func (r *Redis) call(ctx context.Context, a *account, why purpose, n cost) (c *call, granted bool) {
	c = a.unanswered
	repeated := c != nil
	if !repeated {
		draining := r.draining.Load()
		if why == refill && draining {
			why = release
		}
		c = a.newCall(r.seq.Add(1), why, n, r.now())
		if draining {
			c.rate.want, c.day.want, c.month.want = 0, 0, 0
		}
		a.unanswered, a.committed = c, c.deciding
	}
	inflight := make(chan struct{})
	a.inflight = inflight
	now := r.now()
	a.mu.Unlock()
	r.count.roundTrips.Add(1)
	got, err := r.caller.send(ctx, a.project, c, now)
	a.mu.Lock()
	a.inflight, a.committed = nil, false
	close(inflight)
	if err != nil {
		r.recordFailure(err)
		if errors.Is(err, errStale) {
			a.unanswered = nil
		}
		return c, false
	}
	a.unanswered = nil
	now = r.now()
	a.advance(now)
	a.apply(c, got, now)
	return c, got.granted && c.deciding && !repeated
}

func (r *Redis) recordFailure(err error) {
	r.count.failures.Add(1)
	if r.away.CompareAndSwap(false, true) {
		r.count.outages.Add(1)
		r.logger.Warn("redis did not answer: this process counts quotas alone", "err", err)
	}
}

// queueRefill queues the account if its leases are low.
func (r *Redis) queueRefill(a *account) {
	if a.queued || a.inflight != nil || !a.isLow() || r.away.Load() {
		return
	}
	select {
	case r.refills <- a:
		a.queued = true
	default: // the queue is full: a later batch tries again
	}
}

// Refund implements Limiter. What is returned becomes part of the leases.
func (r *Redis) Refund(g Grant, records int, bytes int64) {
	n := newCost(records, bytes)
	a := r.locked(g.project)
	defer a.mu.Unlock()
	a.advance(r.now())
	if g.rate {
		a.rate.refund(n.records)
	}
	a.day.refund(g.day, n.records)
	a.month.refund(g.month, n.bytes)
}

// Restore implements Limiter. If Redis does not answer, the error is errAway;
// the process then counts by the restored numbers and tells Redis later.
func (r *Redis) Restore(ctx context.Context, project string, l Limits, used Used) error {
	a := r.locked(project)
	defer a.mu.Unlock()
	now := r.now()
	a.setLimits(l.bounded(), now)
	a.advance(now)
	a.day.restore(used.Day, used.DailyRecords)
	a.month.restore(used.Month, used.MonthlyBytes)
	for a.day.floor > 0 || a.month.floor > 0 {
		if a.inflight != nil {
			a.await(r.patience, cost{})
			continue
		}
		if r.call(ctx, a, release, cost{}); a.unanswered != nil {
			return fmt.Errorf("restore quotas of %s: %w; the call is repeated later", project, errAway)
		}
	}
	return nil
}

// completeKey exists as long as Redis has lost no counter: MarkComplete sets it,
// and a flush or a lost disk removes it together with the counters.
const completeKey = "q:whole"

// Complete implements Limiter.
func (r *Redis) Complete(ctx context.Context) (bool, error) {
	n, err := r.caller.client.Exists(ctx, completeKey).Result()
	if err != nil {
		return false, fmt.Errorf("check for lost quota counters: %w", err)
	}
	return n == 1, nil
}

// MarkComplete implements Limiter.
func (r *Redis) MarkComplete(ctx context.Context) error {
	if err := r.caller.client.Set(ctx, completeKey, 1, 0).Err(); err != nil {
		return fmt.Errorf("mark quota counters as complete: %w", err)
	}
	return nil
}

// Stats implements Limiter.
func (r *Redis) Stats() Stats {
	s := r.count.stats()
	s.Away = r.away.Load()
	s.Projects = r.accounts.size()
	return s
}

const (
	refillers  = 4                      // goroutines; a call takes less than a millisecond
	probeEvery = 100 * time.Millisecond // while Redis does not answer
	sweepEvery = 2 * time.Second
	leaseIdle  = time.Minute      // unused leases are returned after this; those of the rate end earlier
	forgetIdle = 10 * time.Minute // unused projects are forgotten after this
	releasers  = 16               // goroutines that return the leases at the end
)

// Run implements Limiter.
func (r *Redis) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	for range refillers {
		group.Go(func() error {
			for {
				select {
				case a := <-r.refills:
					r.update(ctx, a)
				case <-ctx.Done():
					return nil
				}
			}
		})
	}
	group.Go(func() error {
		every(ctx, probeEvery, func() { r.probe(ctx) })
		return nil
	})
	group.Go(func() error {
		every(ctx, sweepEvery, func() { r.sweep(ctx) })
		return nil
	})
	err := group.Wait()
	r.releaseAll(context.WithoutCancel(ctx))
	return err
}

// every calls do at each tick until ctx ends.
func every(ctx context.Context, interval time.Duration, do func()) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			do()
		case <-ctx.Done():
			return
		}
	}
}

// update calls Redis for an account if it has to: to refill its leases, to
// return them, or to count what was used without Redis.
func (r *Redis) update(ctx context.Context, a *account) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.queued = false
	if a.inflight != nil || r.away.Load() {
		return
	}
	now := r.now()
	a.advance(now)
	switch {
	case a.isIdle(now, leaseIdle):
		r.call(ctx, a, release, cost{})
	case a.isLow() || a.hasUncounted():
		r.call(ctx, a, refill, cost{})
	}
}

// probe ends an outage if Redis answers again.
func (r *Redis) probe(ctx context.Context) {
	if r.away.Load() && r.answers(ctx) {
		r.away.Store(false)
		r.logger.Info("redis answered again: quotas are counted together")
		r.sweep(ctx)
	}
}

// answers makes a call for no project and no quota. A ping would not do: a
// server that answers it may be unable to write.
func (r *Redis) answers(ctx context.Context) bool {
	r.count.roundTrips.Add(1)
	_, err := r.caller.send(ctx, "", &call{seq: r.seq.Add(1)}, r.now())
	if err != nil {
		r.count.failures.Add(1)
	}
	return err == nil
}

// sweep queues the accounts that need a call and forgets those that are unused.
func (r *Redis) sweep(ctx context.Context) {
	now := r.now()
	for _, a := range r.accounts.all() {
		if !r.needsCall(a, now) {
			continue
		}
		select {
		case r.refills <- a:
		case <-ctx.Done():
			return
		}
	}
}

// needsCall reports whether the account must be queued, and marks it as queued.
// It forgets an unused account.
func (r *Redis) needsCall(a *account, now time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.advance(now)
	switch {
	case a.queued || a.inflight != nil || r.away.Load():
		return false
	case a.hasUncounted() || a.isIdle(now, leaseIdle) && a.holdsLease():
		a.queued = true
	case a.isIdle(now, forgetIdle):
		a.dropped = true
		r.accounts.drop(a.project, a)
	}
	return a.queued
}

// releaseAll returns all leases, as far as Redis answers in time. If it does
// not, the leases end with their windows, and what was used without Redis stays
// uncounted.
func (r *Redis) releaseAll(ctx context.Context) {
	r.draining.Store(true)
	ctx, cancel := context.WithTimeout(ctx, r.releaseTimeout)
	defer cancel()
	if r.away.Load() && !r.answers(ctx) {
		return
	}
	var group errgroup.Group
	group.SetLimit(releasers)
	for _, a := range r.accounts.all() {
		group.Go(func() error {
			r.release(ctx, a)
			return nil
		})
	}
	_ = group.Wait() // no errors
}

// release makes calls until the account has nothing uncounted and no lease.
func (r *Redis) release(ctx context.Context, a *account) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.advance(r.now())
	for ctx.Err() == nil && (a.inflight != nil || a.hasUncounted() || a.holdsLease()) {
		if a.inflight != nil {
			a.await(r.patience, cost{})
			continue
		}
		if r.call(ctx, a, release, cost{}); a.unanswered != nil {
			return
		}
	}
}
