package lease_test

import (
	"fmt"
	"maps"
	"testing"

	"pgregory.net/rapid"

	"github.com/logboom/logboom/pkg/lease"
)

// Whoever joins and leaves: where all members see the same and follow their plans,
// no member holds more than one unit more than another, and no unit is free.
func TestPlanSharesEvenly(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		names := make([]string, rapid.IntRange(1, 12).Draw(rt, "units"))
		for i := range names {
			names[i] = fmt.Sprint(i)
		}
		members := make([]string, rapid.IntRange(1, 6).Draw(rt, "members"))
		for i := range members {
			members[i] = string(rune('a' + i))
		}
		holders := map[string]string{}
		for _, name := range names {
			if holder := rapid.SampledFrom(append([]string{""}, members...)).Draw(rt, "holder"); holder != "" {
				holders[name] = holder
			}
		}
		rounds := 0
		for ; !even(names, members, holders); rounds++ {
			if rounds > len(names)+len(members) {
				rt.Fatalf("not even after %d rounds: %v", rounds, holders)
			}
			follow(names, members, holders)
		}
		before := maps.Clone(holders)
		if follow(names, members, holders); !maps.Equal(before, holders) {
			rt.Fatalf("what was even moved: %v became %v", before, holders)
		}
	})
}

// follow is a round in which all members see the same and then follow their plans;
// of two that claim one unit, one gets it.
func follow(names, members []string, holders map[string]string) {
	seen := maps.Clone(holders)
	for _, member := range members {
		claim, release := lease.View{Self: member, Members: members, Holders: seen}.Plan(names)
		for _, name := range release {
			delete(holders, name)
		}
		for _, name := range claim {
			if holders[name] == "" {
				holders[name] = member
			}
		}
	}
}

func even(names, members []string, holders map[string]string) bool {
	count := map[string]int{}
	for _, holder := range holders {
		count[holder]++
	}
	least, most := len(names), 0
	for _, member := range members {
		least, most = min(least, count[member]), max(most, count[member])
	}
	return len(holders) == len(names) && most-least <= 1
}

func TestPlanLeavesNoUnitFreeAndExceedsNoShare(t *testing.T) {
	t.Parallel()
	units := []string{"watch", "0", "1", "2", "3"}
	alone := lease.View{Self: "a", Members: []string{"a"}}
	if claim, release := alone.Plan(units); len(claim) != 5 || len(release) != 0 {
		t.Errorf("alone: claim %v, release %v", claim, release)
	}
	first := lease.View{Self: "a", Members: []string{"a", "b"}}
	if claim, _ := first.Plan(units); len(claim) != 3 {
		t.Errorf("one of two claims %v", claim)
	}
	first.Holders = map[string]string{"0": "a", "1": "a", "2": "a", "3": "a"}
	if claim, release := first.Plan(units); len(claim) != 0 || len(release) != 1 || release[0] != "3" {
		t.Errorf("with too many: claim %v, release %v", claim, release)
	}
}
