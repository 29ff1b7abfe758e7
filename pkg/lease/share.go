package lease

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"
)

// leaveTimeout bounds each request with which a member releases what it holds.
const leaveTimeout = 3 * time.Second

// The causes with which a unit's context ends.
var (
	// ErrLost means that another member holds the unit now.
	ErrLost = errors.New("another member holds the lease")
	// ErrReleased means that this member hands the unit over to another.
	ErrReleased = errors.New("the unit is handed over to another member")
)

// ShareConfig configures Share.
type ShareConfig struct {
	Leases Leases
	Beat   time.Duration // between two beats, at most MaxBeat
	Units  []string
	// Work works on one unit until its context ends or it cannot continue. It
	// returns after all of its goroutines have ended. At most one call per unit
	// runs at a time.
	Work func(ctx context.Context, unit string) error
	// Report receives the outcome of each beat. It may be nil.
	Report func(View, error)
	Logger *slog.Logger
}

// sharing is the state of Share; one goroutine owns it.
type sharing struct {
	ShareConfig
	running map[string]*run
	ended   chan ending
	resting map[string]time.Time // units that must not be started before that time
}

// run is a unit that this member works on.
type run struct {
	cancel   context.CancelCauseFunc
	stopping bool
}

type ending struct {
	unit string
	err  error
}

// Share works on this member's share of the units until ctx ends. It starts the
// units that the member holds, claims free ones, hands over what exceeds its
// share, and stops units that another member has claimed. When ctx ends, it waits
// for all work, releases all units and leaves, so that other members need not
// wait.
//
// While leases cannot be read, work continues: the ledger fences it if needed.
func Share(ctx context.Context, cfg ShareConfig) {
	s := &sharing{
		ShareConfig: cfg,
		running:     map[string]*run{},
		ended:       make(chan ending, len(cfg.Units)), // one each: a unit runs once at a time
		resting:     map[string]time.Time{},
	}
	next := time.NewTimer(0)
	defer next.Stop()
	for {
		select {
		case <-next.C:
		case e := <-s.ended:
			s.finish(ctx, e)
		case <-ctx.Done():
			s.leave(ctx)
			return
		}
		s.balance(ctx)
		next.Reset(s.Beat)
	}
}

// balance beats once and acts on what the member saw.
func (s *sharing) balance(ctx context.Context) {
	view, err := s.Leases.Beat(ctx)
	if s.Report != nil && ctx.Err() == nil {
		s.Report(view, err)
	}
	if err != nil {
		return
	}
	for _, unit := range s.Units {
		mine, r := view.Holders[unit] == view.Self, s.running[unit]
		switch {
		case r != nil && !mine:
			r.stop(ErrLost)
		case r == nil && mine && s.rested(unit):
			s.start(ctx, unit)
		case r == nil && mine:
			s.release(ctx, unit)
		}
	}
	claim, release := view.Plan(s.Units)
	for _, unit := range release {
		if r := s.running[unit]; r != nil && !r.stopping {
			s.Logger.Info("lease handed over", "unit", unit)
			r.stop(ErrReleased)
		}
	}
	for _, unit := range s.Units {
		if slices.Contains(claim, unit) && s.running[unit] == nil && s.rested(unit) {
			s.claim(ctx, unit)
		}
	}
}

func (s *sharing) rested(unit string) bool { return time.Now().After(s.resting[unit]) }

func (s *sharing) claim(ctx context.Context, unit string) {
	claimed, err := s.Leases.Claim(ctx, unit)
	if err != nil {
		s.Logger.Warn("lease not claimed", "unit", unit, "err", err)
		return // the next beat shows whether it was
	}
	if claimed {
		s.start(ctx, unit)
	}
}

func (r *run) stop(cause error) {
	r.stopping = true
	r.cancel(cause)
}

func (s *sharing) start(ctx context.Context, unit string) {
	s.Logger.Info("lease acquired", "unit", unit)
	ctx, cancel := context.WithCancelCause(ctx)
	s.running[unit] = &run{cancel: cancel}
	go func() { s.ended <- ending{unit, s.Work(ctx, unit)} }() // Share waits for it
}

// finish releases a unit after its work has ended. If the work ended by itself,
// another member without the lease has fenced it; this member then does not start
// the unit for a while.
func (s *sharing) finish(ctx context.Context, e ending) {
	r := s.running[e.unit]
	delete(s.running, e.unit)
	if !r.stopping && ctx.Err() == nil {
		s.Logger.Warn("work ended by itself", "unit", e.unit, "err", e.err)
		s.resting[e.unit] = time.Now().Add(4 * s.Beat)
	}
	r.cancel(nil)
	s.release(ctx, e.unit)
}

func (s *sharing) release(ctx context.Context, unit string) {
	if err := s.Leases.Release(ctx, unit); err != nil {
		s.Logger.Warn("lease not released; it expires when this member is gone", "unit", unit, "err", err)
	}
}

func (s *sharing) leave(ctx context.Context) {
	finish := func(e ending) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveTimeout)
		defer cancel()
		s.finish(ctx, e)
	}
	for _, r := range s.running {
		r.stopping = true // by the end of ctx
	}
	for len(s.running) > 0 {
		finish(<-s.ended)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveTimeout)
	defer cancel()
	if err := s.Leases.Leave(ctx); err != nil {
		s.Logger.Warn("member not removed from the list; it expires", "err", err)
	}
}
