//go:build linux

package main

import (
	"fmt"
	"slices"
)

// maxExamples is how many violations of each sort the report describes.
const maxExamples = 5

// row is what the oracle needs of a stored row.
type row struct {
	kind string // logs or events
	text string
	at   place
}

// place is a row's identity: stream and sequence of its message, position in
// it.
type place struct {
	shard uint8
	seq   uint64
	idx   uint32
}

// verdict is what the oracle found.
type verdict struct {
	stored, events uint64              // rows, and how many of them are events
	found          map[string]int      // records by sort of violation
	examples       map[string][]string // some of each
}

// The sorts of violation.
const (
	lost     = "lost"     // accepted, and not stored
	doubled  = "doubled"  // stored more than once
	phantom  = "phantom"  // refused or never sent, and stored
	misfiled = "misfiled" // in the other table
)

func (v *verdict) add(sort, format string, arguments ...any) {
	v.found[sort]++
	if len(v.examples[sort]) < maxExamples {
		v.examples[sort] = append(v.examples[sort], fmt.Sprintf(format, arguments...))
	}
}

// clean reports whether nothing was found.
func (v *verdict) clean() bool { return len(v.found) == 0 }

// oracle counts rows and then compares them with the journal. It counts in a byte
// for each record, and keeps the places of records that are stored more than once.
type oracle struct {
	journal *journal
	seen    [][]uint8
	first   [][]place
	more    map[identity][]place
	verdict verdict
}

func newOracle(j *journal) *oracle {
	o := &oracle{
		journal: j,
		more:    map[identity][]place{},
		verdict: verdict{found: map[string]int{}, examples: map[string][]string{}},
	}
	for i := range j.pages {
		n := 0
		if requests := j.pages[i].requests; len(requests) > 0 {
			last := requests[len(requests)-1]
			n = last.first + last.count
		}
		o.seen = append(o.seen, make([]uint8, n))
		o.first = append(o.first, make([]place, n))
	}
	return o
}

// count counts a stored row.
func (o *oracle) count(r row) {
	o.verdict.stored++
	if r.kind == "events" {
		o.verdict.events++
	}
	id, whole := parseText(r.text)
	switch {
	case !whole:
		o.verdict.add(phantom, "a row that was never sent, at %v: %.80q", r.at, r.text)
		return
	case id.sender >= len(o.seen) || id.number >= len(o.seen[id.sender]):
		o.verdict.add(phantom, "%v was never sent, at %v", id, r.at)
		return
	}
	if s := o.journal.request(id); s.kind != r.kind {
		o.verdict.add(misfiled, "%v was sent to %s and is in %s", id, s.kind, r.kind)
	}
	seen := &o.seen[id.sender][id.number]
	switch *seen {
	case 0:
		o.first[id.sender][id.number] = r.at
	default:
		o.more[id] = append(o.more[id], r.at)
	}
	*seen = min(*seen+1, 255-1) // more would change nothing
}

// request returns the request of a record, which must have been sent.
func (j *journal) request(id identity) sent {
	requests := j.pages[id.sender].requests
	at, _ := slices.BinarySearchFunc(requests, id.number, func(s sent, number int) int {
		switch {
		case number < s.first:
			return 1
		case number >= s.first+s.count:
			return -1
		}
		return 0
	})
	return requests[at]
}

// judge ends the counting and returns the lost records.
func (o *oracle) judge() (v verdict, missing []identity) {
	for sender := range o.journal.pages {
		for _, s := range o.journal.pages[sender].requests {
			for number := s.first; number < s.first+s.count; number++ {
				if id := (identity{sender, number}); o.judgeOne(id, s) {
					missing = append(missing, id)
				}
			}
		}
	}
	return o.verdict, missing
}

// judgeOne reports whether the record is lost.
func (o *oracle) judgeOne(id identity, s sent) bool {
	n := o.seen[id.sender][id.number]
	if n == 1 && s.fate != refused || n == 0 && s.fate != accepted {
		return false // correct, as most are
	}
	record := fmt.Sprintf("%v, %s at %s%s", id, s.fate, s.began.Format("15:04:05.000"), s.describe())
	switch {
	case n == 0 && s.fate == accepted:
		o.verdict.add(lost, "%s, is not stored", record)
		return true
	case n > 1:
		places := append([]place{o.first[id.sender][id.number]}, o.more[id]...)
		o.verdict.add(doubled, "%s, is stored %d times: %v", record, n, places)
	case n == 1 && s.fate == refused:
		o.verdict.add(phantom, "%s, is stored: %v", record, o.first[id.sender][id.number])
	}
	return false
}

// describe returns what an example says about its request.
func (s sent) describe() string {
	text := fmt.Sprintf(" in a request of %d %s", s.count, s.kind)
	if s.key != "" {
		text += " with a key"
	}
	if s.detail != "" {
		text += " (" + s.detail + ")"
	}
	return text
}
