//go:build linux

package main

import "testing"

func TestLossesAndDoublesMustBeReportedByTheAudit(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		found    map[string]int
		audit    auditReport
		damages  bool
		violated bool
	}{
		"nothing, without disk faults":     {map[string]int{}, auditReport{}, false, false},
		"a false alarm":                    {map[string]int{}, auditReport{missing: 1}, false, true},
		"a part set aside":                 {map[string]int{}, auditReport{setAside: 1}, false, true},
		"reported, but without disk fault": {map[string]int{lost: 3}, auditReport{missing: 3}, false, true},
		"lost and reported":                {map[string]int{lost: 3}, auditReport{missing: 3}, true, false},
		"lost and reported in part":        {map[string]int{lost: 3}, auditReport{missing: 2}, true, true},
		"doubled and reported":             {map[string]int{doubled: 2}, auditReport{doubled: 4}, true, false},
		"doubled and not reported":         {map[string]int{doubled: 2}, auditReport{missing: 2}, true, true},
		"a phantom is never excused":       {map[string]int{phantom: 1}, auditReport{missing: 1}, true, true},
		"rows ahead of the ledger":         {map[string]int{}, auditReport{ahead: 1}, true, true},
	} {
		r := &report{verdict: verdict{found: c.found, examples: map[string][]string{}}, reported: map[string]int{}}
		r.judgeAudit(c.audit, c.damages)
		if r.violated() != c.violated {
			t.Errorf("%s: violated %v, %v", name, r.violated(), r.failures)
		}
	}
}
