package stream_test

import (
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/logboom/logboom/pkg/stream"
)

func (q *queue) member(topology *stream.Topology, name string) *stream.Leases {
	q.tb.Helper()
	l, err := topology.Leases(name)
	if err != nil {
		q.tb.Fatal(err)
	}
	return l
}

func (q *queue) beat(l *stream.Leases) stream.LeaseView {
	q.tb.Helper()
	view, err := l.Beat(q.ctx())
	if err != nil {
		q.tb.Fatal(err)
	}
	return view
}

func (q *queue) claim(l *stream.Leases, name string) bool {
	q.tb.Helper()
	taken, err := l.Claim(q.ctx(), name)
	if err != nil {
		q.tb.Fatal(err)
	}
	return taken
}

func TestLeasesShowWhoLivesAndWhatIsHeld(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	topology := q.open(stream.Config{Shards: 1})
	a, b := q.member(topology, "a"), q.member(topology, "b")
	if view := q.beat(a); view.Self != "a" || !slices.Equal(view.Members, []string{"a"}) || len(view.Holders) != 0 {
		t.Fatalf("the first sees %+v", view)
	}
	q.beat(b)
	if !q.claim(a, "0") || q.claim(b, "0") {
		t.Error("one claim must win")
	}
	if view := q.beat(b); !slices.Equal(view.Members, []string{"a", "b"}) || view.Holders["0"] != "a" {
		t.Errorf("the second sees %+v", view)
	}
	if err := b.Release(q.ctx(), "0"); err != nil {
		t.Error(err)
	}
	if view := q.beat(b); view.Holders["0"] != "a" {
		t.Errorf("what another holds was released: %+v", view)
	}
	if err := a.Release(q.ctx(), "0"); err != nil {
		t.Error(err)
	}
	if view := q.beat(b); view.Holders["0"] != "" || !q.claim(b, "0") {
		t.Errorf("what was released is held: %+v", view)
	}
	if err := a.Leave(q.ctx()); err != nil {
		t.Error(err)
	}
	if view := q.beat(b); !slices.Equal(view.Members, []string{"b"}) {
		t.Errorf("who has left is there: %+v", view)
	}
}

func TestClaimByManyAtOnceIsGivenToOne(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	topology := q.open(stream.Config{Shards: 1})
	const members = 8
	var won atomic.Int32
	var running sync.WaitGroup
	for range members {
		l := q.member(topology, "")
		q.beat(l)
		running.Go(func() {
			if taken, err := l.Claim(q.ctx(), "0"); err != nil {
				t.Error(err)
			} else if taken {
				won.Add(1)
			}
		})
	}
	running.Wait()
	if won.Load() != 1 {
		t.Errorf("%d members hold it", won.Load())
	}
}

// Time passes for real here: that others stand still is measured, not told.
func TestMemberThatStandsStillIsGoneWithin10Seconds(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	topology := q.open(stream.Config{Shards: 1})
	dead, alive, looker := q.member(topology, "dead"), q.member(topology, "alive"), q.member(topology, "looker")
	q.beat(dead)
	if !q.claim(dead, "0") {
		t.Fatal("not taken")
	}
	beats := time.NewTicker(500 * time.Millisecond)
	defer beats.Stop()
	began := time.Now()
	for gone := false; !gone; <-beats.C {
		q.beat(alive)
		view := q.beat(looker)
		if !slices.Contains(view.Members, "alive") {
			t.Fatalf("who beats is gone: %+v", view)
		}
		gone = !slices.Contains(view.Members, "dead")
		if gone && (view.Holders["0"] != "" || !q.claim(looker, "0")) {
			t.Errorf("what it held is not free: %+v", view)
		}
		if took := time.Since(began); took > 10*time.Second || gone && took < 5*time.Second {
			t.Fatalf("gone is %v after %s", gone, took)
		}
	}
	if err := dead.Release(q.ctx(), "0"); err != nil {
		t.Error(err)
	}
	if view := q.beat(dead); view.Holders["0"] != "looker" {
		t.Errorf("who woke up sees %+v", view)
	}
}

func TestMemberNameMustBeAWord(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	topology := q.open(stream.Config{Shards: 1})
	for _, name := range []string{"two words", "a.b", "l.>", strings.Repeat("x", 65)} {
		if _, err := topology.Leases(name); err == nil {
			t.Errorf("%q was accepted", name)
		}
	}
}
