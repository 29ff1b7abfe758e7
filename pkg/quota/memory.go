package quota

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// Memory is the Limiter of one process that shares its projects with no other.
// It is exact. Its counters are lost when the process ends: see Restore.
type Memory struct {
	tallies  *registry[tally]
	now      func() time.Time
	count    counters
	complete atomic.Bool
}

var _ Limiter = (*Memory)(nil)

// NewMemory returns a limiter that has counted nothing.
func NewMemory(config Config) *Memory {
	return &Memory{
		tallies: newRegistry(func(project string) *tally { return &tally{project: project} }),
		now:     config.withDefaults().Now,
	}
}

// tally is what one project has used.
type tally struct {
	project string

	mu      sync.Mutex
	dropped bool // no longer in the registry: load it again
	limits  Limits
	rate    bucket
	day     meter
	month   meter
}

// meter counts one window of a quota.
type meter struct {
	window Window
	used   int64
}

func (m *meter) advance(name Name, project string, now time.Time) {
	if !m.window.contains(now) {
		*m = meter{window: windowOf(name, project, now)}
	}
}

// bucket holds how many records the rate accepts now. The level is below zero
// after a batch that was larger than what was left.
type bucket struct {
	level float64
	at    time.Time // when level was computed; zero: the bucket is full
}

func (b *bucket) advance(rate int64, now time.Time) {
	full := burst(rate)
	if b.at.IsZero() {
		b.level = full
	} else {
		b.level = min(full, b.level+float64(rate)*max(now.Sub(b.at).Seconds(), 0))
	}
	b.at = now
}

// locked returns the project's tally with its lock held and its windows
// advanced to now.
func (m *Memory) locked(project string, l Limits, now time.Time) *tally {
	for {
		t := m.tallies.of(project)
		t.mu.Lock()
		if !t.dropped {
			t.advance(l, now)
			return t
		}
		t.mu.Unlock()
	}
}

func (t *tally) advance(l Limits, now time.Time) {
	if t.limits.Rate <= 0 {
		t.rate = bucket{}
	}
	t.limits = l
	if l.Rate > 0 {
		t.rate.advance(l.Rate, now)
	}
	t.day.advance(DailyRecords, t.project, now)
	t.month.advance(MonthlyBytes, t.project, now)
}

// exceeded returns the refusal of a project that has exceeded a quota, or nil.
func (t *tally) exceeded(now time.Time) *Exceeded {
	var e *Exceeded
	if l := t.limits.Rate; l > 0 && t.rate.level < 1 {
		e = newExceeded(Rate, l, now, seconds((1-t.rate.level)/float64(l)))
	}
	if l := t.limits.DailyRecords; l > 0 && t.day.used >= l {
		e = e.later(newExceeded(DailyRecords, l, now, t.day.window.End.Sub(now)))
	}
	if l := t.limits.MonthlyBytes; l > 0 && t.month.used >= l {
		e = e.later(newExceeded(MonthlyBytes, l, now, t.month.window.End.Sub(now)))
	}
	return e
}

// Check implements Limiter.
func (m *Memory) Check(_ context.Context, project string, l Limits) error {
	if l = l.bounded(); l == (Limits{}) {
		return nil
	}
	now := m.now()
	t := m.locked(project, l, now)
	defer t.mu.Unlock()
	return m.count.refuse(t.exceeded(now))
}

// Charge implements Limiter.
func (m *Memory) Charge(_ context.Context, project string, l Limits, records int, bytes int64) (Grant, error) {
	if l = l.bounded(); l == (Limits{}) {
		return Grant{project: project}, nil
	}
	now := m.now()
	t := m.locked(project, l, now)
	defer t.mu.Unlock()
	if e := t.exceeded(now); e != nil {
		return Grant{}, m.count.refuse(e)
	}
	return t.charge(newCost(records, bytes), now), nil
}

func (t *tally) charge(n cost, now time.Time) Grant {
	g := Grant{project: t.project}
	var closest nearest
	if l := t.limits.Rate; l > 0 {
		t.rate.level -= float64(n.records)
		g.rate = true
		closest.add(rateState(l, t.rate.level, now), burst(l))
	}
	if l := t.limits.DailyRecords; l > 0 {
		t.day.used += n.records
		g.day = t.day.window.Start
		closest.add(State{DailyRecords, l, max(l-t.day.used, 0), t.day.window.End}, float64(l))
	}
	if l := t.limits.MonthlyBytes; l > 0 {
		t.month.used += n.bytes
		g.month = t.month.window.Start
		closest.add(State{MonthlyBytes, l, max(l-t.month.used, 0), t.month.window.End}, float64(l))
	}
	g.State = closest.state
	return g
}

// rateState returns the State of a bucket with this level.
func rateState(rate int64, level float64, now time.Time) State {
	missing := max(burst(rate)-level, 0)
	return State{Rate, rate, int64(max(level, 0)), now.Add(seconds(missing / float64(rate)))}
}

// Refund implements Limiter.
func (m *Memory) Refund(g Grant, records int, bytes int64) {
	n := newCost(records, bytes)
	t := m.tallies.of(g.project)
	t.mu.Lock()
	defer t.mu.Unlock()
	if g.rate && t.limits.Rate > 0 {
		t.rate.level = min(burst(t.limits.Rate), t.rate.level+float64(n.records))
	}
	if g.day.Equal(t.day.window.Start) {
		t.day.used = max(t.day.used-n.records, 0)
	}
	if g.month.Equal(t.month.window.Start) {
		t.month.used = max(t.month.used-n.bytes, 0)
	}
}

// Restore implements Limiter.
func (m *Memory) Restore(_ context.Context, project string, l Limits, used Used) error {
	t := m.locked(project, l.bounded(), m.now())
	defer t.mu.Unlock()
	if used.Day.Start.Equal(t.day.window.Start) {
		t.day.used = max(t.day.used, min(used.DailyRecords, maxLimit))
	}
	if used.Month.Start.Equal(t.month.window.Start) {
		t.month.used = max(t.month.used, min(used.MonthlyBytes, maxLimit))
	}
	return nil
}

// Complete implements Limiter. A process begins without counters, so it reports
// whether MarkComplete was called.
func (m *Memory) Complete(context.Context) (bool, error) { return m.complete.Load(), nil }

// MarkComplete implements Limiter.
func (m *Memory) MarkComplete(context.Context) error {
	m.complete.Store(true)
	return nil
}

// memorySweep is how often Memory looks for projects to forget.
const memorySweep = time.Minute

// Run implements Limiter. It forgets projects whose month is over.
func (m *Memory) Run(ctx context.Context) error {
	tick := time.NewTicker(memorySweep)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			m.sweep()
		case <-ctx.Done():
			return nil
		}
	}
}

// sweep forgets the tallies that hold no more than a new one would.
func (m *Memory) sweep() {
	now := m.now()
	for _, t := range m.tallies.all() {
		t.mu.Lock()
		t.advance(t.limits, now)
		t.dropped = t.day.used == 0 && t.month.used == 0 && (t.limits.Rate <= 0 || t.rate.level >= burst(t.limits.Rate))
		if t.dropped {
			m.tallies.drop(t.project, t)
		}
		t.mu.Unlock()
	}
}

// Stats implements Limiter.
func (m *Memory) Stats() Stats {
	s := m.count.stats()
	s.Projects = m.tallies.size()
	return s
}
