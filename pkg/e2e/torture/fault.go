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

// errNoEffect says that a fault came to nothing this time: what it waits for
// did not happen.
var errNoEffect = errors.New("no effect")

// fault is one way to break the system.
type fault struct {
	name    string
	check   func() error // nil: it needs nothing
	inflict func(ctx context.Context) error
	disks   bool // it needs the volumes
	apart   bool // all does not mean it: it has to be named
	damages bool // ClickHouse may lose or double rows by it that it acknowledged
}

// Name is what -faults and the report call it.
func (f *fault) Name() string { return f.name }

// Check tells what it lacks on this machine. It is asked before anything is
// started.
func (f *fault) Check() error {
	if f.check == nil {
		return nil
	}
	return f.check()
}

// Inflict breaks something and mends it again. It returns when whatever it
// broke may be broken anew. errNoEffect says that it could not break what it
// meant to.
func (f *fault) Inflict(ctx context.Context) error { return f.inflict(ctx) }

// group is the first word of a fault's name; -faults takes it, with an s or
// without, for all of them.
func group(name string) string {
	first, _, _ := strings.Cut(name, "-")
	return first
}

// tools makes the faults. It holds what they act upon; the system is set once
// it exists.
type tools struct {
	system *system
	random *rand.Rand // of the goroutine that inflicts
	poison *poison
	// What follows is set once the load begins.
	queue   *queue
	journal *journal
	away    time.Duration // how long an engine stays away
	notes   []string      // for the report; of the goroutine that inflicts
}

// all are the faults that there are, in the order of the list.
func (t *tools) all() []*fault {
	return slices.Concat(t.processFaults(), t.failpointFaults(), t.networkFaults(), t.errorFaults(), t.diskFaults(), t.awayFaults(), t.clockFaults(), []*fault{
		{name: "poison", inflict: func(ctx context.Context) error { return t.poison.publish(ctx, t.random) }},
	})
}

// chosen are the faults that a list names: names, groups such as kills, or all
// but those that stand apart; a name or group behind a - is left out.
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
			return nil, fmt.Errorf("-faults: there is no fault %q: -list shows them", name)
		}
	}
	return slices.DeleteFunc(slices.Clone(all), func(f *fault) bool { return !picked[f.name] }), nil
}

// tally is what became of one fault.
type tally struct {
	name             string
	inflicted, empty int // with and without effect
	elapsed          time.Duration
}

// inflictor inflicts faults one after the other: rounds of all of them, each
// in a new order.
type inflictor struct {
	faults []*fault
	random *rand.Rand
	calm   time.Duration // between two faults, at most
	// patience is for how long a round tries a fault that has no effect: what it
	// is to break may be starting still after the fault before.
	patience time.Duration
	rounds   atomic.Int64 // that are over
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

// run goes on until ctx ends. A fault that has begun is ended in order.
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

// attempts is how often a round tries a fault that has no effect, at least.
const attempts = 3

// made tells whether there were so many rounds, and every fault was felt in one.
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
		return nil // cut short by the end of the run, which mends what is left
	case errors.Is(err, errNoEffect):
		i.tallies[at].empty++
		i.tell("%-32s no effect: %v", name, err)
	default:
		return fmt.Errorf("fault %s: %w", name, err)
	}
	return nil
}
