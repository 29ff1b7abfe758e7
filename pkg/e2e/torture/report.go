//go:build linux

package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// manyEnds is how often a process may end by itself before the report has its last
// output.
const manyEnds = 20

// report is the result of a run.
type report struct {
	run      *run
	verdict  verdict
	tortured time.Duration
	dead     uint64              // letters
	found    map[identity]string // lost records that are still on the queue
	detached []string            // parts that ClickHouse set aside as broken
	reported map[string]int      // records that the disk lost or doubled, and that the audit reports
	failures []failure
}

// failure is a violation that the oracle does not count by record.
type failure struct{ sort, detail string }

func (r *report) fail(sort, detail string) { r.failures = append(r.failures, failure{sort, detail}) }

// judgeRun checks the run itself: enough records, an effect of every chosen fault,
// nothing unexpected.
func (r *report) judgeRun() {
	records, _ := r.run.load.journal.totals()
	if records[accepted] < r.run.options.records {
		r.fail("records", fmt.Sprintf("%d were accepted, want %d", records[accepted], r.run.options.records))
	}
	if r.run.options.control == "" {
		for _, t := range r.run.inflict.tallies {
			if t.inflicted == 0 {
				r.fail("not tried", fmt.Sprintf("%s had no effect in %d attempts: use a longer -duration, or leave it out with -faults", t.name, t.empty))
			}
		}
	}
	for _, oddity := range r.run.oddities {
		r.fail("odd", oddity)
	}
}

// violated reports whether the system broke its promise.
func (r *report) violated() bool { return !r.verdict.clean() || len(r.failures) > 0 }

// caught reports whether the oracle found a control's flaw.
func (r *report) caught() bool { return r.verdict.found[lost]+r.verdict.found[doubled] > 0 }

// write prints the tables.
func (r *report) write(to io.Writer) {
	out := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	r.writeFaults(out)
	r.writeProcesses(out)
	r.run.sampler.write(out)
	r.writeRecords(out)
	_ = out.Flush() // there is nowhere to report the error
	r.writeFindings(to)
}

func (r *report) writeFaults(out io.Writer) {
	fmt.Fprintf(out, "\nfault\tinflicted\twithout effect\tseconds\t\n")
	total := 0
	for _, t := range r.run.inflict.tallies {
		fmt.Fprintf(out, "%s\t%d\t%d\t%.1f\t\n", t.name, t.inflicted, t.empty, t.elapsed.Seconds())
		total += t.inflicted
	}
	fmt.Fprintf(out, "all\t%d\t\t%.1f\t\n", total, r.tortured.Seconds())
}

func (r *report) writeProcesses(out io.Writer) {
	fmt.Fprintf(out, "\nprocess\tstarts\tended by itself\t\n")
	for _, s := range r.run.system.services() {
		starts, unexpected := s.counts()
		fmt.Fprintf(out, "%s\t%d\t%d\t\n", s.name, starts, unexpected)
	}
}

func (r *report) writeRecords(out io.Writer) {
	records, requests := r.run.load.journal.totals()
	fmt.Fprintf(out, "\nrecords\t\t\n")
	for _, line := range []struct {
		name string
		n    int
	}{
		{"requests", requests},
		{"accepted", records[accepted]},
		{"refused", records[refused]},
		{"unknown", records[unknown]},
		{"stored", int(r.verdict.stored)},
		{"of them events", int(r.verdict.events)},
		{"poison", r.run.tools.poison.sent},
		{"dead letters", int(r.dead)},
		{"lost", r.verdict.found[lost]},
		{"doubled", r.verdict.found[doubled]},
		{"lost and reported", r.reported[lost]},
		{"doubled and reported", r.reported[doubled]},
		{"phantom", r.verdict.found[phantom]},
		{"misfiled", r.verdict.found[misfiled]},
	} {
		fmt.Fprintf(out, "%s\t%d\t\n", line.name, line.n)
	}
}

func (r *report) writeFindings(out io.Writer) {
	for _, sort := range slices.Sorted(maps.Keys(r.verdict.examples)) {
		fmt.Fprintf(out, "\n%s, for example:\n", sort)
		for _, example := range r.verdict.examples[sort] {
			fmt.Fprintf(out, "  %s\n", example)
		}
	}
	if r.verdict.found[lost] > 0 {
		fmt.Fprintf(out, "\nof these lost records, the queue still has %d:\n", len(r.found))
		for id, where := range r.found {
			fmt.Fprintf(out, "  %v %s\n", id, where)
		}
	}
	for _, note := range r.run.tools.notes {
		fmt.Fprintf(out, "\n%s\n", note)
	}
	if r.run.audit.made {
		fmt.Fprintf(out, "\nthe audit reports %s\n", r.run.audit)
	}
	if len(r.detached) > 0 {
		fmt.Fprintf(out, "\nClickHouse set parts aside as broken: %s\n", strings.Join(r.detached, ", "))
	}
	for _, s := range r.run.system.services() {
		if _, unexpected := s.counts(); unexpected >= manyEnds {
			fmt.Fprintf(out, "\n%s ended by itself %d times; it printed last:\n%s", s.name, unexpected, s.out.last())
		}
	}
	if len(r.failures) > 0 {
		fmt.Fprintln(out)
	}
	for _, f := range r.failures {
		fmt.Fprintf(out, "%s: %s\n", f.sort, f.detail)
	}
}
