package notify

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/logboom/logboom/pkg/stream"
)

// watchUnit is the unit of what one notifier does for all: logs and quotas.
const watchUnit = "watch"

// goodbye bounds the giving back of what is held, when a notifier stops.
const goodbye = 3 * time.Second

// work is a unit that is being worked. Its fields belong to the goroutine of Run.
type work struct {
	stop context.CancelCauseFunc
	done chan error // holds the one error, so that its end never waits
}

// errHandedOver ends a unit that another notifier is to take.
var errHandedOver = errors.New("handed over")

// Run works this notifier's share until ctx ends, brings what is under way to
// its end, and gives its share back.
func (n *Notifier) Run(ctx context.Context) error {
	working := map[string]*work{}
	next := time.NewTimer(0)
	defer next.Stop()
	for {
		select {
		case <-next.C:
			n.balance(ctx, working)
			next.Reset(n.cfg.Beat)
		case <-ctx.Done():
			n.leave(ctx, working)
			return nil
		}
	}
}

// balance is one look at who lives and holds what, and what follows from it.
func (n *Notifier) balance(ctx context.Context, working map[string]*work) {
	members, free, err := n.leases.beat(ctx, n.units)
	if err != nil {
		if ctx.Err() == nil {
			n.note("sharing", err)
		}
		return // whoever works goes on: the swaps are the fence
	}
	n.note("sharing", nil)
	n.metrics.members.Set(float64(members))
	for unit, w := range working {
		if _, mine := n.leases.held[unit]; !mine {
			w.stop(stream.ErrFenced)
		}
		n.reap(ctx, working, unit, w)
	}
	for unit := range n.leases.held {
		if working[unit] == nil {
			working[unit] = n.start(ctx, unit)
		}
	}
	take, give := share(slices.Collect(maps.Keys(n.leases.held)), free, n.units, members)
	for _, unit := range take {
		if n.leases.claim(ctx, unit) {
			working[unit] = n.start(ctx, unit)
		}
	}
	if w := working[give]; w != nil {
		n.deps.Logger.Info("partition handed over", "partition", give)
		w.stop(errHandedOver)
	}
}

// reap gives back a unit that is no longer worked.
func (n *Notifier) reap(ctx context.Context, working map[string]*work, unit string, w *work) {
	select {
	case err := <-w.done:
		if !errors.Is(err, errHandedOver) && !errors.Is(err, stream.ErrFenced) {
			n.deps.Logger.Warn("partition no longer worked", "partition", unit, "err", err)
		}
		delete(working, unit)
		n.leases.release(ctx, unit)
	default:
	}
}

// start works a unit until it is told to stop or another notifier takes it.
func (n *Notifier) start(ctx context.Context, unit string) *work {
	ctx, stop := context.WithCancelCause(ctx)
	w := &work{stop: stop, done: make(chan error, 1)}
	n.deps.Logger.Info("partition taken", "partition", unit)
	go func() { // Run waits for it, by done
		defer stop(nil)
		w.done <- n.workUnit(ctx, unit)
	}()
	return w
}

func (n *Notifier) workUnit(ctx context.Context, unit string) error {
	group, ctx := errgroup.WithContext(ctx)
	part := func(name string, run func(context.Context) error) {
		group.Go(func() error { return n.keep(ctx, name+" "+unit, run) })
	}
	if unit == watchUnit {
		part("logs", n.watchLogs)
		part("quotas", n.watchQuotas)
		return group.Wait()
	}
	partition, err := strconv.Atoi(unit)
	if err != nil {
		return err
	}
	part("events", func(ctx context.Context) error { return newIntake(n, partition).run(ctx) })
	part("deliveries", func(ctx context.Context) error { return newDesk(n, partition).run(ctx) })
	part("rows", func(ctx context.Context) error { return newRecorder(n, partition).run(ctx) })
	return group.Wait()
}

// leave waits until nothing is worked any more and gives all back, so that
// others need not wait for the leases to lapse.
func (n *Notifier) leave(ctx context.Context, working map[string]*work) {
	for _, w := range working {
		w.stop(context.Cause(ctx))
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), longestAttempt+goodbye)
	defer cancel()
	for unit, w := range working {
		<-w.done
		n.leases.release(ctx, unit)
	}
	n.leases.leave(ctx)
}
