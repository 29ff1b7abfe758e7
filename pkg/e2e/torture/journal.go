//go:build linux

package main

import (
	"fmt"
	"hash/crc32"
	"strconv"
	"strings"
	"sync"
	"time"
)

// fate is what the answers to a request promise.
type fate uint8

const (
	unknown  fate = iota // no answer, or one without a promise: stored or not, but never twice
	accepted             // stored once
	refused              // nothing of it is stored
)

func (f fate) String() string {
	return [...]string{"unknown", "accepted", "refused"}[f]
}

// sent is one request in the journal: a run of a sender's records.
type sent struct {
	first, count int
	kind         string // the route: logs or events
	key          string // its Idempotency-Key, or empty
	fate         fate
	began        time.Time
	detail       string // the last answer, unless it was accepted
}

// journal has what every sender sent and which answers it got. A sender writes only
// to its own page; pages are read when all senders have ended.
type journal struct {
	pages []page
}

// page is one sender's part. Its records are numbered from 0 without gaps.
type page struct {
	mu       sync.Mutex // guards what is read while the sender runs
	requests []sent
	records  [refused + 1]int // by fate
}

func newJournal(senders int) *journal { return &journal{pages: make([]page, senders)} }

func (p *page) add(s sent) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.requests = append(p.requests, s)
	p.records[s.fate] += s.count
}

// totals returns the records of all senders by fate.
func (j *journal) totals() (records [refused + 1]int, requests int) {
	for i := range j.pages {
		p := &j.pages[i]
		p.mu.Lock()
		for f, n := range p.records {
			records[f] += n
		}
		requests += len(p.requests)
		p.mu.Unlock()
	}
	return records, requests
}

// identity names one record of a run.
type identity struct{ sender, number int }

func (id identity) String() string { return fmt.Sprintf("%d/%d", id.sender, id.number) }

// filler makes records of different lengths: a part of it follows a record's
// identity and depends only on that.
var filler = strings.Repeat("the quick brown fox jumps over the lazy dog; ", 8)

// appendText appends a record's text: its identity, a checksum and filler.
func (id identity) appendText(dst []byte) []byte {
	from := len(dst)
	dst = strconv.AppendInt(dst, int64(id.sender), 10)
	dst = append(dst, '/')
	dst = strconv.AppendInt(dst, int64(id.number), 10)
	dst = append(dst, ' ')
	dst = append(dst, filler[:16+id.number*37%(len(filler)-16)]...)
	return fmt.Appendf(dst, " %08x", crc32.ChecksumIEEE(dst[from:]))
}

// parseText parses a record's text and checks that it is complete.
func parseText(text string) (identity, bool) {
	var id identity
	head, _, _ := strings.Cut(text, " ")
	sender, number, found := strings.Cut(head, "/")
	var err1, err2 error
	id.sender, err1 = strconv.Atoi(sender)
	id.number, err2 = strconv.Atoi(number)
	if !found || err1 != nil || err2 != nil || id.sender < 0 || id.number < 0 {
		return identity{}, false
	}
	return id, string(id.appendText(nil)) == text
}
