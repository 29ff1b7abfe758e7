package project

import (
	"context"
	"sync/atomic"
	"time"
)

// How the uses of tokens get into the record. Each that is written costs the
// queue a sync, so a token's is at most every ten minutes by each process; the
// pause lets a new token's first use be seen soon.
const (
	useEvery    = 10 * time.Minute
	usePause    = 5 * time.Second
	useTimeout  = 20 * time.Second // for one round of writing (measured: 0.6 s for 1,000 projects)
	useFarewell = 2 * time.Second  // for the last one

	maxUsesNoted   = 4096   // between two turns of the writer
	maxUsesWaiting = 50_000 // to be written
)

// useRecorder keeps when tokens were last used; Store does.
type useRecorder interface {
	RecordUses(ctx context.Context, uses []Use) error
}

// useNotes carries what requests tell of tokens' uses to the record, without
// ever making one wait. What finds no room is dropped: a token in use is told
// of again.
type useNotes struct {
	recorder useRecorder
	noted    chan Use // capacity: a burst of tokens used for the first time in useEvery
	dropped  atomic.Uint64
	health   health

	// Of run's goroutine alone.
	waiting map[string]Use       // to be written, by token ID
	written map[string]time.Time // which uses were, within useEvery
}

func newUseNotes(recorder useRecorder, h health) *useNotes {
	return &useNotes{
		recorder: recorder,
		noted:    make(chan Use, maxUsesNoted),
		health:   h,
		waiting:  map[string]Use{},
		written:  map[string]time.Time{},
	}
}

// noteUse notes that the token is used now, unless that was noted within
// useEvery. It is on every request's way.
func (c *Cache) noteUse(t *holder, now time.Duration) {
	last := t.noted.Load()
	if now-time.Duration(last) < useEvery || !t.noted.CompareAndSwap(last, int64(now)) {
		return
	}
	if !c.notes.note(Use{t.identity.ProjectID, t.identity.TokenID, time.Now()}) {
		t.noted.Store(last) // the next request tells it
	}
}

// note tells whether there was room.
func (n *useNotes) note(use Use) bool {
	select {
	case n.noted <- use:
		return true
	default:
		n.dropped.Add(1)
		return false
	}
}

// run writes what is noted until ctx ends, and then once more.
func (n *useNotes) run(ctx context.Context) error {
	tick := time.NewTicker(usePause)
	defer tick.Stop()
	for {
		select {
		case use := <-n.noted:
			n.add(use)
		case <-tick.C:
			n.write(ctx, useTimeout)
		case <-ctx.Done():
			for len(n.noted) > 0 {
				n.add(<-n.noted)
			}
			n.write(context.WithoutCancel(ctx), useFarewell)
			return nil
		}
	}
}

// add has a use wait, unless the token's was written within useEvery: a
// token that is looked up anew is noted anew.
func (n *useNotes) add(use Use) {
	if use.At.Sub(n.written[use.TokenID]) < useEvery {
		return
	}
	if _, waits := n.waiting[use.TokenID]; !waits && len(n.waiting) >= maxUsesWaiting {
		n.dropped.Add(1)
		return
	}
	n.waiting[use.TokenID] = use
}

// write gives the record what waits. Where it fails, everything goes on
// waiting: to write a use twice makes no difference.
func (n *useNotes) write(ctx context.Context, timeout time.Duration) {
	n.forgetWritten(time.Now())
	if len(n.waiting) == 0 {
		return
	}
	uses := make([]Use, 0, len(n.waiting))
	for _, use := range n.waiting {
		uses = append(uses, use)
	}
	bounded, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	err := n.recorder.RecordUses(bounded, uses)
	if ctx.Err() != nil && err != nil {
		return // it was cut short by run's end, which writes once more
	}
	n.health.note(err)
	if err != nil {
		return
	}
	for _, use := range uses {
		n.written[use.TokenID] = use.At
	}
	clear(n.waiting)
}

func (n *useNotes) forgetWritten(now time.Time) {
	for id, at := range n.written {
		if now.Sub(at) >= useEvery {
			delete(n.written, id)
		}
	}
}
