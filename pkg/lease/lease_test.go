package lease_test

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/logboom/logboom/pkg/kv"
	"github.com/logboom/logboom/pkg/leaktest"
	"github.com/logboom/logboom/pkg/lease"
	"github.com/logboom/logboom/pkg/stream/streamtest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

const patience = streamtest.Patience

// queue is a real server of one test, with a bucket for leases.
type queue struct {
	*streamtest.Queue
	bucket *kv.Bucket
}

func newQueue(t *testing.T) *queue {
	t.Helper()
	q := &queue{Queue: streamtest.New(t)}
	ctx := q.Ctx()
	bucket, err := streamtest.Answered(ctx, func() (*kv.Bucket, error) { return kv.Open(ctx, q.JS, kv.Config{Name: "LEASES"}) })
	if err != nil {
		t.Fatal(err)
	}
	q.bucket = bucket
	return q
}

func (q *queue) member(name string) *lease.Member {
	q.TB.Helper()
	m, err := lease.NewMember(q.bucket, lease.Keys{Member: "l.member.", Claim: "l.claim."}, name, slog.New(slog.DiscardHandler))
	if err != nil {
		q.TB.Fatal(err)
	}
	return m
}

func (q *queue) beat(l *lease.Member) lease.View {
	q.TB.Helper()
	ctx := q.Ctx()
	view, err := streamtest.Answered(ctx, func() (lease.View, error) { return l.Beat(ctx) })
	if err != nil {
		q.TB.Fatal(err)
	}
	return view
}

// swap claims or releases. The next beat shows whether a change without an answer
// was made.
func (q *queue) swap(l *lease.Member, change func(context.Context) (bool, error)) (bool, error) {
	ctx := q.Ctx()
	unsure := false
	return streamtest.Answered(ctx, func() (bool, error) {
		if unsure {
			if _, err := l.Beat(ctx); err != nil {
				return false, err
			}
		}
		unsure = true
		return change(ctx)
	})
}

func (q *queue) claim(l *lease.Member, name string) bool {
	q.TB.Helper()
	taken, err := q.swap(l, func(ctx context.Context) (bool, error) { return l.Claim(ctx, name) })
	if err != nil {
		q.TB.Fatal(err)
	}
	return taken
}

func (q *queue) release(l *lease.Member, name string) {
	q.TB.Helper()
	if _, err := q.swap(l, func(ctx context.Context) (bool, error) { return true, l.Release(ctx, name) }); err != nil {
		q.TB.Error(err)
	}
}

func TestBeatShowsLivingMembersAndHolders(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	a, b := q.member("a"), q.member("b")
	if view := q.beat(a); view.Self != "a" || !slices.Equal(view.Members, []string{"a"}) || len(view.Holders) != 0 {
		t.Fatalf("the first sees %+v", view)
	}
	q.beat(b)
	if !q.claim(a, "0") || q.claim(b, "0") {
		t.Error("exactly one claim must win")
	}
	if view := q.beat(b); !slices.Equal(view.Members, []string{"a", "b"}) || view.Holders["0"] != "a" {
		t.Errorf("the second sees %+v", view)
	}
	q.release(b, "0")
	if view := q.beat(b); view.Holders["0"] != "a" {
		t.Errorf("another member's unit was released: %+v", view)
	}
	q.release(a, "0")
	if view := q.beat(b); view.Holders["0"] != "" || !q.claim(b, "0") {
		t.Errorf("a released unit is held: %+v", view)
	}
	ctx := q.Ctx()
	if err := streamtest.Done(ctx, func() error { return a.Leave(ctx) }); err != nil {
		t.Error(err)
	}
	if view := q.beat(b); !slices.Equal(view.Members, []string{"b"}) {
		t.Errorf("a member that left is listed: %+v", view)
	}
}

func TestOneOfManyClaimsWins(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	const members = 8
	var won atomic.Int32
	var running sync.WaitGroup
	for range members {
		l := q.member("")
		q.beat(l)
		running.Go(func() {
			taken, err := q.swap(l, func(ctx context.Context) (bool, error) { return l.Claim(ctx, "0") })
			if err != nil {
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

// Real time passes here, 6.5 s on a quiet machine. A busy machine takes longer,
// because a pause of the machine counts only in part; the test
// TestMemberIsGoneAfterSixSecondsUnchanged checks how much.
func TestSilentMemberLosesItsLeases(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	dead, alive, looker := q.member("dead"), q.member("alive"), q.member("looker")
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
			t.Fatalf("a member that beats is gone: %+v", view)
		}
		gone = !slices.Contains(view.Members, "dead")
		if gone && (view.Holders["0"] != "" || !q.claim(looker, "0")) {
			t.Errorf("its unit is not free: %+v", view)
		}
		if took := time.Since(began); took > patience || gone && took < 5*time.Second {
			t.Fatalf("gone is %v after %s", gone, took)
		}
	}
	q.release(dead, "0")
	if view := q.beat(dead); view.Holders["0"] != "looker" {
		t.Errorf("a member that woke up sees %+v", view)
	}
}

func TestInvalidMemberNameIsRefused(t *testing.T) {
	t.Parallel()
	q := newQueue(t)
	for _, name := range []string{"two words", "a.b", "l.>", strings.Repeat("x", 65)} {
		if _, err := lease.NewMember(q.bucket, lease.Keys{}, name, nil); err == nil {
			t.Errorf("%q was accepted", name)
		}
	}
}
