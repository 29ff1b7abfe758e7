package quota

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"math"
	"time"
)

// Name is a quota's name, as settings, answers and metrics have it.
type Name string

// The quotas.
const (
	Rate         Name = "rate"
	DailyRecords Name = "daily_records"
	MonthlyBytes Name = "monthly_bytes"
)

// Limits are a project's quotas; 0 or less is unlimited. What is unlimited is
// not counted: a quota that is set later in its window counts from then on,
// unless Restore says what came before.
type Limits struct {
	Rate         int64 // records a second; up to ten seconds' worth may come at once
	DailyRecords int64
	MonthlyBytes int64
}

// maxLimit is what a limit is cut to: Lua's numbers, which do the counting in
// Redis, are exact up to 2^53.
const maxLimit = 1 << 50

// bounded gives the limits as they are worked with.
func (l Limits) bounded() Limits {
	return Limits{
		Rate:         min(max(l.Rate, 0), maxLimit),
		DailyRecords: min(max(l.DailyRecords, 0), maxLimit),
		MonthlyBytes: min(max(l.MonthlyBytes, 0), maxLimit),
	}
}

// burstSeconds is how many seconds' worth of the rate may come at once.
const burstSeconds = 10

// burst is what a bucket of the rate holds when it is full.
func burst(rate int64) float64 { return float64(rate) * burstSeconds }

// cost is what a batch takes from the quotas.
type cost struct {
	records int64
	bytes   int64
}

// newCost takes a caller's numbers; negative ones count as none, and absurd
// ones as more than any limit, so that sums of them stay exact.
func newCost(records int, bytes int64) cost {
	return cost{min(max(int64(records), 0), maxLimit), min(max(bytes, 0), maxLimit)}
}

// State is how a project stands with the quota that is closest to being spent.
// The zero State is that of a project without limits.
type State struct {
	Quota     Name
	Limit     int64     // as set; for Rate in records a second
	Remaining int64     // what may still be sent; of Rate at once, up to ten times Limit
	Reset     time.Time // when all of it is there again
}

// nearest finds the State of the quota with the smallest part left.
type nearest struct {
	state State
	left  float64
}

// weigh takes one quota's state; full is what it holds when nothing is used.
func (n *nearest) weigh(s State, full float64) {
	left := float64(s.Remaining) / full
	if n.state.Quota == "" || left < n.left {
		n.state, n.left = s, left
	}
}

// Grant is what a Take took. A Limiter's Refund takes it back.
type Grant struct {
	State
	project    string
	rate       bool      // counted against the rate
	day, month time.Time // starts of the windows counted in; zero: not counted
}

// Exceeded is the error where a quota is spent. Where several are, it is the
// one that stays so for longest.
type Exceeded struct {
	Quota      Name
	Limit      int64 // as set; for Rate in records a second
	Remaining  int64 // always 0: a batch is taken whole while anything is left
	Reset      time.Time
	RetryAfter time.Duration // whole seconds, at least one
}

// Error names the quota and says when to try again.
func (e *Exceeded) Error() string {
	return fmt.Sprintf("quota %s of %d is spent until %s: try again in %s", e.Quota, e.Limit, e.Reset.UTC().Format(time.RFC3339), e.RetryAfter)
}

// newExceeded is a refusal that lasts for a time from now on.
func newExceeded(name Name, limit int64, now time.Time, lasts time.Duration) *Exceeded {
	whole := max((lasts+time.Second-1)/time.Second, 1) * time.Second
	return &Exceeded{Quota: name, Limit: limit, Reset: now.Add(lasts), RetryAfter: whole}
}

// later gives the refusal that lasts longer; either may be nil.
func (e *Exceeded) later(other *Exceeded) *Exceeded {
	if e == nil || other != nil && other.Reset.After(e.Reset) {
		return other
	}
	return e
}

// Used is what a project is known to have used in its windows, as Windows
// gives them.
type Used struct {
	DailyRecords int64
	MonthlyBytes int64
	Day, Month   Window
}

// Limiter says whether projects may send. It is safe for concurrent use. Its
// errors are *Exceeded and no other, except Restore's and Run's.
type Limiter interface {
	// Check refuses a project that could send nothing at all now, before its
	// body is read.
	Check(ctx context.Context, project string, l Limits) error

	// Take counts a batch against every quota, or against none. While anything
	// is left of each, the batch is taken whole.
	Charge(ctx context.Context, project string, l Limits, records int, bytes int64) (Grant, error)

	// Refund takes back all or part of a Grant whose records were not accepted
	// after all. It may be called once for a record.
	Refund(g Grant, records int, bytes int64)

	// Restore raises the counters to what is known to have been used, and never
	// lowers one.
	Restore(ctx context.Context, project string, l Limits, used Used) error

	// Complete tells whether no counter was lost since MarkComplete was called.
	Complete(ctx context.Context) (bool, error)

	// MarkComplete says that every lost counter was restored.
	MarkComplete(ctx context.Context) error

	// Run does what is done in the background, until ctx ends; then it gives
	// back what the process holds. Call it once, and end it after the last Take
	// and Refund.
	Run(ctx context.Context) error

	// Stats reads the counts.
	Stats() Stats
}

// Config is a limiter's settings; the zero value means the defaults.
type Config struct {
	// Timeout is how long Redis may take to answer; a Take is over within twice
	// that. Default 50 ms.
	Timeout time.Duration

	// Logger is told when Redis stops answering and when it does so again.
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

// seconds is a duration of that many, within what a Duration holds.
func seconds(s float64) time.Duration {
	return time.Duration(min(max(s*float64(time.Second), 0), math.MaxInt64/2))
}
