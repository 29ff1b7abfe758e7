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
)

// Redis is the Limiter of several processes with one Redis. Run must be
// running for it to be fast, and for it to come back to a Redis that was away.
type Redis struct {
	accounts *registry[account]
	tower    tower
	now      func() time.Time
	logger   *slog.Logger
	patience time.Duration // with the flights of others
	farewell time.Duration // for giving the leases back at the end: closeTime, except in tests

	seq      atomic.Uint64 // of flights
	refills  chan *account // capacity: some hundreds of projects that need one at once; a full one is no harm
	away     atomic.Bool   // Redis did not answer, and the prober has not found it well since
	draining atomic.Bool   // Run has ended: no more leases
	count    counters
}

var _ Limiter = (*Redis)(nil)

// ErrAway says that Redis could not be told.
var ErrAway = errors.New("redis did not answer")

// NewRedis makes one over a client that bounds its operations in time, such as
// one of project.OpenRedis. It neither connects nor starts anything, and does
// not close the client.
func NewRedis(client redis.UniversalClient, config Config) *Redis {
	config = config.withDefaults()
	return &Redis{
		accounts: newRegistry(newAccount),
		tower: tower{
			client:   client,
			script:   redis.NewScript(takeScript),
			instance: rand.Text(),
			timeout:  config.Timeout,
		},
		now:      config.Now,
		logger:   config.Logger,
		patience: config.Timeout * 4 / 5,
		farewell: closeTime,
		refills:  make(chan *account, 1024),
	}
}

// locked gives the project's account with its lock held.
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

// Check implements Limiter. It asks Redis about a project that it has not met
// before, and once a second about one whose day or month is spent.
func (r *Redis) Check(ctx context.Context, project string, l Limits) error {
	if l = l.bounded(); l == (Limits{}) {
		return nil
	}
	a := r.locked(project)
	defer a.mu.Unlock()
	e := r.spent(a, l)
	if r.away.Load() || !a.isNew() && (e == nil || !a.isOld(e, r.now())) {
		return r.count.refuse(e)
	}
	if a.landed != nil {
		a.await(r.patience, cost{})
	} else {
		r.fly(ctx, a, fill, cost{})
	}
	return r.count.refuse(r.spent(a, l))
}

// spent is the refusal of a project that can send nothing, as far as the
// process knows.
func (r *Redis) spent(a *account, l Limits) *Exceeded {
	now := r.now()
	a.used = now
	a.limitTo(l, now)
	a.turn(now)
	return a.exceeded(cost{1, 1}, r.level(a), now)
}

// level is what has to be there of the rate for a Take to be tried.
func (r *Redis) level(a *account) float64 {
	if r.away.Load() {
		return 1
	}
	return a.rate.retryLevel()
}

// Take implements Limiter. Most are served from leases, in memory.
func (r *Redis) Charge(ctx context.Context, project string, l Limits, records int, bytes int64) (Grant, error) {
	if l = l.bounded(); l == (Limits{}) {
		return Grant{project: project}, nil
	}
	n := newCost(records, bytes)
	a := r.locked(project)
	defer a.mu.Unlock()
	a.used = r.now()
	a.limitTo(l, a.used)
	a.turn(a.used)
	if a.spend(n) {
		r.refill(a)
		return a.grant(), nil
	}
	return r.takeSlowly(ctx, a, n)
}

// takeSlowly takes a batch that the leases do not hold: by asking Redis, or
// after somebody else's flight has brought more; or alone, where Redis is away
// or all that took too long.
func (r *Redis) takeSlowly(ctx context.Context, a *account, n cost) (Grant, error) {
	for started := time.Now(); ; {
		now := r.now()
		a.turn(now)
		e := a.exceeded(n, r.level(a), now)
		left := r.patience - time.Since(started)
		switch {
		case a.spend(n):
			return a.grant(), nil
		case r.away.Load() || left <= 0:
			return r.takeAlone(a, n, now)
		case e != nil && !a.isOld(e, now):
			return Grant{}, r.count.refuse(e)
		case a.landed != nil:
			a.await(left, n)
		default:
			if f, granted := r.fly(ctx, a, decide, n); granted {
				return a.claim(f), nil
			}
		}
	}
}

// takeAlone decides without Redis.
func (r *Redis) takeAlone(a *account, n cost, now time.Time) (Grant, error) {
	r.count.fallbacks.Add(1)
	if e := a.exceeded(n, 1, now); e != nil {
		return Grant{}, r.count.refuse(e)
	}
	a.spendAlone(n)
	return a.grant(), nil
}

// await waits until the flight in the air is over, or for as long as that. The
// account's lock is let go meanwhile.
func (a *account) await(longest time.Duration, n cost) {
	landed := a.landed
	a.waiting.records += n.records
	a.waiting.bytes += n.bytes
	a.mu.Unlock()
	late := time.NewTimer(longest)
	defer late.Stop()
	select {
	case <-landed:
	case <-late.C:
	}
	a.mu.Lock()
	a.waiting.records -= n.records
	a.waiting.bytes -= n.bytes
}

// fly sends a flight and settles its answer, and tells whether it was granted
// its batch. A flight that was not answered before goes first, and alone. The
// account's lock is let go meanwhile; no other flight of it may be in the air.
func (r *Redis) fly(ctx context.Context, a *account, why purpose, n cost) (f *flight, granted bool) {
	f = a.pending
	again := f != nil
	if !again {
		if why == fill && r.draining.Load() {
			why = giveBack
		}
		f = a.compose(r.seq.Add(1), why, n, r.now())
		if r.draining.Load() {
			f.rate.want, f.day.want, f.month.want = 0, 0, 0
		}
		a.pending, a.reserved = f, f.deciding
	}
	landed := make(chan struct{})
	a.landed = landed
	now := r.now()
	a.mu.Unlock()
	r.count.roundTrips.Add(1)
	got, err := r.tower.send(ctx, a.project, f, now)
	a.mu.Lock()
	a.landed, a.reserved = nil, false
	close(landed)
	r.note(err)
	if err == nil || errors.Is(err, errStale) {
		a.pending = nil
	}
	if err != nil {
		return f, false
	}
	now = r.now()
	a.turn(now)
	a.settle(f, got, now)
	return f, got.granted && f.deciding && !again
}

// note takes the outcome of one more flight.
func (r *Redis) note(err error) {
	if err == nil {
		return
	}
	r.count.failures.Add(1)
	if r.away.CompareAndSwap(false, true) {
		r.count.outages.Add(1)
		r.logger.Warn("redis did not answer: quotas are counted by this process alone", "err", err)
	}
}

// refill has the leases filled up in the background if they are low.
func (r *Redis) refill(a *account) {
	if a.queued || a.landed != nil || !a.isLow() || r.away.Load() {
		return
	}
	select {
	case r.refills <- a:
		a.queued = true
	default: // later, or when the lease is used up
	}
}

// Refund implements Limiter. What comes back is leased again, to be used or
// given back.
func (r *Redis) Refund(g Grant, records int, bytes int64) {
	n := newCost(records, bytes)
	a := r.locked(g.project)
	defer a.mu.Unlock()
	a.turn(r.now())
	if g.rate {
		a.rate.refund(n.records)
	}
	a.day.refund(g.day, n.records)
	a.month.refund(g.month, n.bytes)
}

// Restore implements Limiter. What is of another window than the present one
// is left out. Where Redis could not be told, the process itself goes by it,
// and tells Redis later.
func (r *Redis) Restore(ctx context.Context, project string, l Limits, used Used) error {
	a := r.locked(project)
	defer a.mu.Unlock()
	now := r.now()
	a.limitTo(l.bounded(), now)
	a.turn(now)
	a.day.restore(used.Day, used.DailyRecords)
	a.month.restore(used.Month, used.MonthlyBytes)
	for a.day.least > 0 || a.month.least > 0 {
		if a.landed != nil {
			a.await(r.patience, cost{})
			continue
		}
		if r.fly(ctx, a, giveBack, cost{}); a.pending != nil {
			return fmt.Errorf("restore quotas of %s: %w; it is told later", project, ErrAway)
		}
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
