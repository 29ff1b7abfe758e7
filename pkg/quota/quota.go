// Package quota decides whether a project may send n records of b bytes now,
// and says when to try again if not.
//
// ingest calls Check before it reads a request's body, Charge when it has
// decoded the body, and Refund when the queue did not accept the records.
//
// Memory counts for one process. Redis counts for several processes, which
// share the counters by leases: a process takes a lease from a counter in Redis
// and uses it in memory. An account is what a process knows of one project:
//
//	  Charge, Check: in memory
//	           │
//	        leased ──── less than 30 % left ────▶ refilled in the background
//	         │  ▲                                        │
//	 used up │  └────── the script grants ◀──────────────┘
//	         ▼                  ▲
//	      calls Redis ──────────┤                 refuses: *Exceeded, and for a
//	         │                  │                 second no process asks again
//	no answer in 50 ms          │
//	         ▼                  │
//	    counts alone ── Redis answers again: what was used is counted first
//
// A newcomer might assume that a call without an answer was not carried out. A
// paused Redis carries it out later. So each call of the script has a number,
// an account has one call in progress at a time, and a call without an answer
// is repeated unchanged before any other. Redis carries out each number once.
//
// Bounds of daily_records and monthly_bytes: a batch is accepted whole while the
// counter, without what its process has leased, is below the limit.
//
//   - Upper bound: all processes together accept less than the limit plus one
//     batch.
//   - Lower bound: a project is refused only when less is left than the leases
//     of the other processes. A lease is what a process uses in 2 s, or 8 of its
//     batches if that is more, and never over an eighth of what was left. A
//     lease that is not used for a minute is returned, and Run returns all
//     leases at its end. The leases of a process that crashed are lost until
//     the window ends.
//
// Bound of rate: in any t seconds all processes together accept at most
// rate × t + 10 × rate records plus one batch. Redis records the leases and
// fills its bucket only up to the burst minus the leases. A lease ends after
// 10 s, even if its process crashed.
//
// While Redis does not answer, each process counts alone from the totals that it
// last saw. Nothing is refused because Redis is down, and each process may
// accept what was left then. When Redis answers again, what was used is added to
// the counters; for the rate, only until the bucket is empty. A Redis that lost
// its counters gets back the highest totals that any process has seen, from each
// process at its next call. What other processes used between that process's
// last call and the loss is added when they call. When no process remembers a
// counter, Complete reports it and Restore repairs it.
//
// The process's clock chooses the window, and the clock of Redis fills the
// bucket. A process whose clock differs by d changes windows d too early or too
// late; nothing is counted twice.
package quota

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"math"
	"sync"
	"sync/atomic"
	"time"
)

// Name is a quota's name in settings, answers and metrics.
type Name string

// The quotas.
const (
	Rate         Name = "rate"
	DailyRecords Name = "daily_records"
	MonthlyBytes Name = "monthly_bytes"
)

// Limits are a project's quotas; 0 or less means unlimited. Unlimited quotas are
// not counted: a quota that is set in the middle of its window counts from then
// on, unless Restore is called.
type Limits struct {
	Rate         int64 // records a second; up to ten seconds' worth may arrive at once
	DailyRecords int64
	MonthlyBytes int64
}

// maxLimit bounds all limits. Redis counts with Lua's numbers, which are exact
// up to 2^53.
const maxLimit = 1 << 50

// bounded returns the limits within 0 and maxLimit.
func (l Limits) bounded() Limits {
	return Limits{
		Rate:         min(max(l.Rate, 0), maxLimit),
		DailyRecords: min(max(l.DailyRecords, 0), maxLimit),
		MonthlyBytes: min(max(l.MonthlyBytes, 0), maxLimit),
	}
}

// burstSeconds is how many seconds' worth of the rate may arrive at once.
const burstSeconds = 10

// burst returns how many records a full bucket holds.
func burst(rate int64) float64 { return float64(rate) * burstSeconds }

// cost is what a batch uses of the quotas.
type cost struct {
	records int64
	bytes   int64
}

// newCost bounds a caller's numbers, so that sums of them stay exact. Negative
// numbers count as 0.
func newCost(records int, bytes int64) cost {
	return cost{min(max(int64(records), 0), maxLimit), min(max(bytes, 0), maxLimit)}
}

// State describes the quota of a project that is closest to its limit. The zero
// State means that the project has no limits.
type State struct {
	Quota     Name
	Limit     int64     // as set; for Rate in records a second
	Remaining int64     // what may still be sent; for Rate at once, up to ten times Limit
	Reset     time.Time // when the whole quota is available again
}

// nearest keeps the State of the quota with the smallest part left.
type nearest struct {
	state State
	left  float64
}

// add compares one quota's state; full is what the unused quota holds.
func (n *nearest) add(s State, full float64) {
	left := float64(s.Remaining) / full
	if n.state.Quota == "" || left < n.left {
		n.state, n.left = s, left
	}
}

// Grant is what one Charge counted. Refund needs it.
type Grant struct {
	State
	project    string
	rate       bool      // counted against the rate
	day, month time.Time // starts of the windows it was counted in; zero: not counted
}

// Exceeded is the error for an exceeded quota. If several quotas are exceeded,
// it names the one that resets last.
type Exceeded struct {
	Quota      Name
	Limit      int64 // as set; for Rate in records a second
	Remaining  int64 // always 0, because a batch is accepted whole while anything is left
	Reset      time.Time
	RetryAfter time.Duration // whole seconds, at least one
}

// Error names the quota and says when to try again.
func (e *Exceeded) Error() string {
	return fmt.Sprintf("quota %s of %d is exceeded until %s: try again in %s", e.Quota, e.Limit, e.Reset.UTC().Format(time.RFC3339), e.RetryAfter)
}

// newExceeded returns a refusal that lasts for the duration.
func newExceeded(name Name, limit int64, now time.Time, lasts time.Duration) *Exceeded {
	whole := max((lasts+time.Second-1)/time.Second, 1) * time.Second
	return &Exceeded{Quota: name, Limit: limit, Reset: now.Add(lasts), RetryAfter: whole}
}

// later returns the refusal that lasts longer; either may be nil.
func (e *Exceeded) later(other *Exceeded) *Exceeded {
	if e == nil || other != nil && other.Reset.After(e.Reset) {
		return other
	}
	return e
}

// Used is what a project has used in its windows, which Windows returns.
type Used struct {
	DailyRecords int64
	MonthlyBytes int64
	Day, Month   Window
}

// Limiter decides whether projects may send. It is safe for concurrent use. All
// methods but Complete, MarkComplete, Restore and Run return *Exceeded and no
// other error.
type Limiter interface {
	// Check refuses a project that may not send even one record now. It counts
	// nothing.
	Check(ctx context.Context, project string, l Limits) error

	// Charge counts a batch against every quota, or refuses it and counts it
	// against none. While anything is left of each quota, the batch is accepted
	// whole.
	Charge(ctx context.Context, project string, l Limits, records int, bytes int64) (Grant, error)

	// Refund returns all or part of a Grant whose records were not accepted. The
	// sum of all refunds of a Grant must not exceed it.
	Refund(g Grant, records int, bytes int64)

	// Restore raises the counters to what is known to have been used. It never
	// lowers a counter, and ignores windows other than the current ones.
	Restore(ctx context.Context, project string, l Limits, used Used) error

	// Complete reports whether no counter was lost since MarkComplete was called.
	// If counters were lost, call Restore for every project and then MarkComplete.
	Complete(ctx context.Context) (bool, error)

	// MarkComplete records that every lost counter was restored.
	MarkComplete(ctx context.Context) error

	// Run does the background work until ctx ends, and then returns the leases of
	// the process. Call it once, and end it after the last Charge and Refund.
	Run(ctx context.Context) error

	// Stats returns the counts since the limiter was created.
	Stats() Stats
}

// Config is a limiter's settings; the zero value means the defaults.
type Config struct {
	// Timeout is how long a call of Redis may take. A Charge ends within twice
	// that. Default 50 ms.
	Timeout time.Duration

	// Logger gets a line when Redis stops answering and when it answers again.
	// Default: none.
	Logger *slog.Logger

	// Now is the clock. Default time.Now.
	Now func() time.Time
}

const defaultTimeout = 50 * time.Millisecond

func (c Config) withDefaults() Config {
	if c.Timeout <= 0 {
		c.Timeout = defaultTimeout
	}
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	if c.Now == nil {
		c.Now = time.Now
	}
	return c
}

// seconds converts s to a Duration, within what a Duration can hold.
func seconds(s float64) time.Duration {
	return time.Duration(min(max(s*float64(time.Second), 0), math.MaxInt64/2))
}

// Stats are a limiter's counts since it was created.
type Stats struct {
	RefusedRate         uint64 // calls of Check and Charge refused by that quota
	RefusedDailyRecords uint64
	RefusedMonthlyBytes uint64

	RoundTrips uint64 // calls of Redis
	Failures   uint64 // calls of Redis that were not answered in time
	Outages    uint64 // times that Redis stopped answering
	Fallbacks  uint64 // calls of Charge that the process decided alone
	Away       bool   // Redis does not answer now

	Projects int // projects that the process keeps in memory
}

// counters are the counts that Stats returns.
type counters struct {
	refusedRate, refusedDaily, refusedMonthly atomic.Uint64
	roundTrips, failures, outages, fallbacks  atomic.Uint64
}

// refuse counts a refusal and returns it as an error; nil is no refusal.
func (c *counters) refuse(e *Exceeded) error {
	if e == nil {
		return nil
	}
	switch e.Quota {
	case Rate:
		c.refusedRate.Add(1)
	case DailyRecords:
		c.refusedDaily.Add(1)
	case MonthlyBytes:
		c.refusedMonthly.Add(1)
	}
	return e
}

func (c *counters) stats() Stats {
	return Stats{
		RefusedRate:         c.refusedRate.Load(),
		RefusedDailyRecords: c.refusedDaily.Load(),
		RefusedMonthlyBytes: c.refusedMonthly.Load(),
		RoundTrips:          c.roundTrips.Load(),
		Failures:            c.failures.Load(),
		Outages:             c.outages.Load(),
		Fallbacks:           c.fallbacks.Load(),
	}
}

// registry keeps one *T a project.
type registry[T any] struct {
	items sync.Map // from the project's ID
	fresh func(project string) *T
}

func newRegistry[T any](fresh func(project string) *T) *registry[T] {
	return &registry[T]{fresh: fresh}
}

// of returns the project's item and creates it if there is none.
func (r *registry[T]) of(project string) *T {
	item, found := r.items.Load(project)
	if !found {
		item, _ = r.items.LoadOrStore(project, r.fresh(project))
	}
	return item.(*T)
}

// drop forgets the project's item if it is still this one.
func (r *registry[T]) drop(project string, item *T) { r.items.CompareAndDelete(project, item) }

// all returns the items.
func (r *registry[T]) all() (items []*T) {
	r.items.Range(func(_, item any) bool {
		items = append(items, item.(*T))
		return true
	})
	return items
}

func (r *registry[T]) size() (n int) {
	r.items.Range(func(_, _ any) bool {
		n++
		return true
	})
	return n
}
