//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"time"
)

// errNoEffect means that a fault had no effect this time: what it waits for did not
// happen.
var errNoEffect = errors.New("no effect")

// fault is one way to break the system.
type fault struct {
	name    string
	check   func() error // nil: it needs nothing
	inflict func(ctx context.Context) error
	disks   bool // it needs the volumes
	apart   bool // not included in all: it must be named
	damages bool // ClickHouse may lose or double acknowledged rows
}

// Name returns the fault's name in -faults and in the report.
func (f *fault) Name() string { return f.name }

// Check returns what the fault lacks on this machine. It is called before anything
// is started.
func (f *fault) Check() error {
	if f.check == nil {
		return nil
	}
	return f.check()
}

// Inflict breaks something and repairs it. It returns when the next fault may be
// inflicted. errNoEffect means that nothing was broken.
func (f *fault) Inflict(ctx context.Context) error { return f.inflict(ctx) }

// group returns the first word of a fault's name. In -faults it means all faults of
// the group, with or without an s.
func group(name string) string {
	first, _, _ := strings.Cut(name, "-")
	return first
}

// tools creates the faults and has what they need. The system is set once it
// exists.
type tools struct {
	system *system
	random *rand.Rand // used only by the goroutine that inflicts
	poison *poison
	// The fields below are set when the load begins.
	queue   *queue
	journal *journal
	away    time.Duration // how long an engine stays away
	notes   []string      // for the report; used only by the goroutine that inflicts
}

// all returns all faults in the order of the list.
func (t *tools) all() []*fault {
	return slices.Concat(t.processFaults(), t.failpointFaults(), t.networkFaults(), t.errorFaults(), t.diskFaults(), t.awayFaults(), t.clockFaults(), []*fault{
		{name: "poison", inflict: func(ctx context.Context) error { return t.poison.publish(ctx, t.random) }},
	})
}

// chosen returns the faults of a list: names, groups such as kills, or all (without
// those that must be named). A name or group after a - is left out.
func chosen(all []*fault, list string) ([]*fault, error) {
	picked := map[string]bool{}
	for word := range strings.SplitSeq(list, ",") {
		name, without := strings.CutPrefix(strings.TrimSpace(word), "-")
		known := name == "none"
		for _, f := range all {
			if name == "all" && !f.apart || name == f.name || strings.TrimSuffix(name, "s") == strings.TrimSuffix(group(f.name), "s") {
				known, picked[f.name] = true, !without
			}
		}
		if !known {
			return nil, fmt.Errorf("-faults: there is no fault %q, -list shows all", name)
		}
	}
	return slices.DeleteFunc(slices.Clone(all), func(f *fault) bool { return !picked[f.name] }), nil
}

// tally counts one fault.
type tally struct {
	name             string
	inflicted, empty int // with and without effect
	elapsed          time.Duration
}

// inflictor inflicts faults one after the other, in rounds of all faults, each in a
// new order.
type inflictor struct {
	faults []*fault
	random *rand.Rand
	calm   time.Duration // between two faults, at most
	// patience is how long a round tries a fault that has no effect: what it should
	// break may still be starting after the fault before.
	patience time.Duration
	rounds   atomic.Int64 // finished
	felt     atomic.Int64 // faults that had an effect
	tallies  []tally
	tell     func(format string, arguments ...any)
}

func newInflictor(faults []*fault, random *rand.Rand, calm time.Duration, tell func(string, ...any)) *inflictor {
	i := &inflictor{faults: faults, random: random, calm: calm, tell: tell}
	for _, f := range faults {
		i.tallies = append(i.tallies, tally{name: f.Name()})
	}
	return i
}

// run inflicts faults until ctx ends. A fault that has begun is completed.
func (i *inflictor) run(ctx context.Context) error {
	for ctx.Err() == nil {
		for _, at := range i.random.Perm(len(i.faults)) {
			if err := i.attempt(ctx, at); err != nil {
				return err
			}
		}
		i.rounds.Add(1)
		if len(i.faults) == 0 {
			<-ctx.Done()
		}
	}
	return nil
}

// attempts is the minimum number of attempts of a fault in a round.
const attempts = 3

// made reports whether so many rounds are done and every fault had an effect.
func (i *inflictor) made(rounds int) bool {
	return rounds == 0 || i.rounds.Load() >= int64(rounds) && i.felt.Load() == int64(len(i.faults))
}

func (i *inflictor) attempt(ctx context.Context, at int) error {
	before, began := i.tallies[at].inflicted, time.Now()
	for tried := 0; tried < attempts || time.Since(began) < i.patience; tried++ {
		if pause(ctx, i.calm/2+time.Duration(i.random.Int64N(int64(i.calm/2)+1))) != nil {
			return nil
		}
		if err := i.inflict(ctx, at); err != nil || i.tallies[at].inflicted > before {
			return err
		}
	}
	return nil
}

func (i *inflictor) inflict(ctx context.Context, at int) error {
	began, name := time.Now(), i.faults[at].Name()
	err := i.faults[at].Inflict(ctx)
	elapsed := time.Since(began)
	switch {
	case err == nil:
		if i.tallies[at].inflicted++; i.tallies[at].inflicted == 1 {
			i.felt.Add(1)
		}
		i.tallies[at].elapsed += elapsed
		i.tell("%-32s %.1fs", name, elapsed.Seconds())
	case ctx.Err() != nil:
		return nil // cut short by the end of the run, which repairs the rest
	case errors.Is(err, errNoEffect):
		i.tallies[at].empty++
		i.tell("%-32s no effect: %v", name, err)
	default:
		return fmt.Errorf("fault %s: %w", name, err)
	}
	return nil
}
