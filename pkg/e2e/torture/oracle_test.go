//go:build linux

package main

import (
	"fmt"
	"testing"
)

// told returns a journal of two senders with a request of each fate.
func told() *journal {
	j := newJournal(2)
	j.pages[0].add(sent{first: 0, count: 3, kind: "logs", fate: accepted})
	j.pages[0].add(sent{first: 3, count: 2, kind: "logs", fate: refused})
	j.pages[1].add(sent{first: 0, count: 2, kind: "events", fate: unknown})
	return j
}

// stored returns the row of a record.
func stored(sender, number int) row {
	r := row{kind: "logs", text: string(identity{sender, number}.appendText(nil)), at: place{seq: uint64(number)}}
	if sender == 1 {
		r.kind = "events"
	}
	return r
}

func TestOracleNamesWhatIsWrong(t *testing.T) {
	t.Parallel()
	whole := []row{stored(0, 0), stored(0, 1), stored(0, 2)}
	for _, tc := range []struct {
		name string
		rows []row
		want map[string]int
	}{
		{"accepted once", whole, map[string]int{}},
		{"unknown once", append([]row{stored(1, 0), stored(1, 1)}, whole...), map[string]int{}},
		{"accepted and missing", whole[1:], map[string]int{lost: 1}},
		{"nothing there", nil, map[string]int{lost: 3}},
		{"accepted twice", append([]row{stored(0, 1)}, whole...), map[string]int{doubled: 1}},
		{"unknown twice", append([]row{stored(1, 1), stored(1, 1)}, whole...), map[string]int{doubled: 1}},
		{"refused and there", append([]row{stored(0, 4)}, whole...), map[string]int{phantom: 1}},
		{"refused and there twice", append([]row{stored(0, 4), stored(0, 4)}, whole...), map[string]int{doubled: 1}},
		{"never sent", append([]row{stored(0, 5), stored(7, 0), {kind: "logs", text: "hello"}}, whole...), map[string]int{phantom: 3}},
		{"altered", append([]row{{kind: "logs", text: whole[0].text + "x"}}, whole[1:]...), map[string]int{phantom: 1, lost: 1}},
		{"in the other table", append([]row{{kind: "events", text: whole[0].text}}, whole[1:]...), map[string]int{misfiled: 1}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			o := newOracle(told())
			for _, r := range tc.rows {
				o.count(r)
			}
			v, missing := o.judge()
			if fmt.Sprint(v.found) != fmt.Sprint(tc.want) || len(missing) != tc.want[lost] {
				t.Errorf("found %v (missing %v), not %v: %v", v.found, missing, tc.want, v.examples)
			}
			if v.clean() != (len(tc.want) == 0) || v.stored != uint64(len(tc.rows)) {
				t.Errorf("clean %v, stored %d", v.clean(), v.stored)
			}
		})
	}
}

// A record may be stored more often than a byte counts.
func TestOracleCountsPastAByte(t *testing.T) {
	t.Parallel()
	o := newOracle(told())
	for range 600 {
		o.count(stored(0, 0))
	}
	if v, _ := o.judge(); v.found[doubled] != 1 {
		t.Errorf("found %v", v.found)
	}
}
