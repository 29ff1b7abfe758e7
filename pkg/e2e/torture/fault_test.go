//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

func names(faults []*fault) []string {
	var names []string
	for _, f := range faults {
		names = append(names, f.Name())
	}
	return names
}

func TestFaultsAreChosenByNameAndGroup(t *testing.T) {
	t.Parallel()
	all := (&tools{}).all()
	apart := func(f *fault) bool { return f.apart }
	if got, err := chosen(all, "all"); err != nil || slices.ContainsFunc(got, apart) || len(got) != len(slices.DeleteFunc(slices.Clone(all), apart)) {
		t.Errorf("all: %d of %d (%v)", len(got), len(all), err)
	}
	if got, err := chosen(all, "all,clock"); err != nil || len(got) != len(all) {
		t.Errorf("all and those that must be named: %d of %d (%v)", len(got), len(all), err)
	}
	if got, err := chosen(all, "none"); err != nil || len(got) != 0 {
		t.Errorf("none: %v (%v)", names(got), err)
	}
	got, err := chosen(all, "resets, poison")
	if err != nil || !slices.Equal(names(got), []string{"reset-intake", "reset-queue", "reset-tables", "reset-redis", "poison"}) {
		t.Errorf("resets, poison: %v (%v)", names(got), err)
	}
	if got, err := chosen(all, "resets,-reset-queue,-reset-tables"); err != nil || !slices.Equal(names(got), []string{"reset-intake", "reset-redis"}) {
		t.Errorf("resets without two: %v (%v)", names(got), err)
	}
	if _, err := chosen(all, "poison,earthquake"); err == nil || !strings.Contains(err.Error(), "earthquake") {
		t.Errorf("an unknown fault: %v", err)
	}
	if unique := slices.Compact(slices.Sorted(slices.Values(names(all)))); len(unique) != len(all) {
		t.Errorf("%d names for %d faults", len(unique), len(all))
	}
}

func TestControlsHaveTheirFaults(t *testing.T) {
	t.Parallel()
	for _, c := range []control{naive, byToken} {
		if got, err := chosen((&tools{}).all(), faultsOf(c)); err != nil || len(got) < 3 {
			t.Errorf("%s: %v (%v)", c, names(got), err)
		}
	}
}

// Each round has every fault once and retries a fault without an effect, which does
// not count as inflicted.
func TestEveryRoundHasEveryFault(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	calls := 0
	count := func(err error) func(context.Context) error {
		return func(context.Context) error {
			if calls++; calls == 3*(2+attempts) {
				stop()
			}
			return err
		}
	}
	faults := []*fault{
		{name: "a", inflict: count(nil)}, {name: "b", inflict: count(fmt.Errorf("too late: %w", errNoEffect))}, {name: "c", inflict: count(nil)},
	}
	i := newInflictor(faults, rand.New(rand.NewPCG(1, 2)), 0, func(string, ...any) {})
	if err := i.run(ctx); err != nil {
		t.Fatal(err)
	}
	if a, b, c := i.tallies[0], i.tallies[1], i.tallies[2]; a.inflicted != 3 || b.empty > 3*attempts || b.inflicted != 0 || c.inflicted != 3 {
		t.Errorf("tallies: %+v", i.tallies)
	}
	if !i.made(0) || i.made(2) {
		t.Errorf("2 rounds made: %v, though one fault had no effect", i.made(2))
	}
}

// What a fault should break may still be starting after the fault before: a round
// retries for a while, and ends once every fault had an effect.
func TestFaultIsRetriedUntilItHasAnEffect(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	calls := 0
	late := func(context.Context) error {
		if calls++; calls <= 2*attempts {
			return fmt.Errorf("not up yet: %w", errNoEffect)
		}
		stop()
		return nil
	}
	i := newInflictor([]*fault{{name: "late", inflict: late}}, rand.New(rand.NewPCG(1, 2)), 0, func(string, ...any) {})
	i.patience = time.Hour
	if err := i.run(ctx); err != nil {
		t.Fatal(err)
	}
	if got := i.tallies[0]; got.empty != 2*attempts || got.inflicted != 1 || i.rounds.Load() != 1 || !i.made(1) || i.made(2) {
		t.Errorf("after %d rounds: %+v", i.rounds.Load(), got)
	}
}

// A fault that fails ends the run, because its effect is not
// known.
func TestFailedFaultEndsTheRun(t *testing.T) {
	t.Parallel()
	faults := []*fault{{name: "umount", inflict: func(context.Context) error { return errors.New("busy") }}}
	i := newInflictor(faults, rand.New(rand.NewPCG(1, 2)), 0, func(string, ...any) {})
	if err := i.run(t.Context()); err == nil || !strings.Contains(err.Error(), "umount") {
		t.Errorf("the run ended with %v", err)
	}
}

func TestBadOptionsAreNamed(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"-control careful":        "careful",
		"-faults earthquake":      "earthquake",
		"-duration 0s":            "-duration",
		"-rate 0":                 "-rate",
		"everything":              "everything",
		"-duration 5m -x":         "-x",
		"-senders 100000":         "-senders",
		"-records -1 -keep":       "-records",
		"-duration 1000h -rate 5": "-duration",
	} {
		var said strings.Builder
		if _, err := parseOptions(strings.Fields(args), &said); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", args, err)
		}
	}
}
