package admin

import (
	"context"
	"errors"
	"net"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/logboom/logboom/pkg/project"
)

// recorder is an Eraser that keeps what it was told to erase, and fails as long
// as it is told to.
type recorder struct {
	told chan string // room for all that a test erases

	mu     sync.Mutex
	broken bool
}

func (r *recorder) Erase(_ context.Context, projectID string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.broken {
		return errors.New("broken on purpose")
	}
	r.told <- projectID
	return nil
}

func (r *recorder) breakIt(broken bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.broken = broken
}

// erased is what was erased since it was last asked.
func (r *recorder) erased() (ids []string) {
	for {
		select {
		case id := <-r.told:
			ids = append(ids, id)
		default:
			return ids
		}
	}
}

func (b *bench) pending(t *testing.T) int {
	t.Helper()
	pending, err := b.graves.Pending(patient(t))
	if err != nil {
		t.Fatal(err)
	}
	return len(pending)
}

func TestDeletedProjectIsErasedTwiceAndThenForgotten(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	shop := b.project(t, "shop")
	b.project(t, "other")
	s := b.server(b.client, unhurried)
	b.do(t, s, http.MethodDelete, apiRoot+"/projects/shop", "")
	b.project(t, "shop") // another one of the name
	now := time.Now()
	for _, round := range []struct {
		at   time.Duration
		want []string
		left int
	}{
		{0, []string{shop.ID}, 1}, {time.Minute, nil, 1}, {eraseAgain + time.Second, []string{shop.ID}, 0}, {2 * eraseAgain, nil, 0},
	} {
		if err := s.cleanup.round(patient(t), now.Add(round.at)); err != nil {
			t.Fatal(err)
		}
		if got := b.eraser.erased(); !slices.Equal(got, round.want) || b.pending(t) != round.left {
			t.Errorf("after %s: erased %v, %d pending", round.at, got, b.pending(t))
		}
	}
}

func TestErasingGoesOnAfterARestart(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	shop, other := b.project(t, "shop"), b.project(t, "other")
	s := b.server(b.client, unhurried)
	b.eraser.breakIt(true)
	b.do(t, s, http.MethodDelete, apiRoot+"/projects/shop", "")
	b.do(t, s, http.MethodDelete, apiRoot+"/projects/other", "")
	if err := s.cleanup.round(patient(t), time.Now()); err == nil {
		t.Error("a failure is not told")
	}
	b.eraser.breakIt(false)
	var err error
	if b.graves, err = OpenGraves(patient(t), b.js, 1); err != nil {
		t.Fatal(err)
	}
	if err := b.server(b.client, unhurried).cleanup.round(patient(t), time.Now()); err != nil {
		t.Fatal(err)
	}
	got := b.eraser.erased()
	slices.Sort(got)
	if !slices.Equal(got, []string{other.ID, shop.ID}) {
		t.Errorf("erased %v", got)
	}
}

func TestLivingProjectIsNeverErased(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	shop := b.project(t, "shop")
	if err := b.graves.Bury(patient(t), shop.ID); err != nil { // its deletion was cut short
		t.Fatal(err)
	}
	s := b.server(b.client, unhurried)
	for _, at := range []time.Duration{0, eraseAgain + time.Second} {
		if err := s.cleanup.round(patient(t), time.Now().Add(at)); err != nil {
			t.Fatal(err)
		}
	}
	if got := b.eraser.erased(); len(got) != 0 || b.pending(t) != 0 {
		t.Errorf("erased %v, %d pending", got, b.pending(t))
	}
}

func TestNothingIsErasedWhileTheRecordIsAway(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	shop := b.project(t, "shop")
	s := b.server(b.client, unhurried)
	if err := b.nats.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second) // nobody will answer
	defer cancel()
	if err := s.cleanup.visit(ctx, Grave{ProjectID: shop.ID}, time.Now()); err == nil || len(b.eraser.erased()) != 0 {
		t.Errorf("erased although nobody knows whether it lives: %v", err)
	}
}

func TestGraveBuriedAgainIsNotForgotten(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	if err := b.graves.Bury(patient(t), "shop~00000000"); err != nil {
		t.Fatal(err)
	}
	pending, err := b.graves.Pending(patient(t))
	if err != nil || len(pending) != 1 {
		t.Fatalf("pending %v, %v", pending, err)
	}
	if err := b.graves.Bury(patient(t), "shop~00000000"); err != nil {
		t.Fatal(err)
	}
	if err := b.graves.Done(patient(t), pending[0]); err != nil || b.pending(t) != 1 {
		t.Errorf("%d pending, %v", b.pending(t), err)
	}
}

func TestDeletionIsErasedAtOnceAndRunEnds(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	shop := b.project(t, "shop")
	s := b.server(b.client, unhurried)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx, listener) }()
	b.do(t, s, http.MethodDelete, apiRoot+"/projects/shop", "")
	select {
	case id := <-b.eraser.told:
		if id != shop.ID {
			t.Errorf("erased %s", id)
		}
	case <-time.After(cleanupPause * 3 / 4): // less than the pause between two looks
		t.Error("nothing was erased")
	}
	cancel()
	if err := <-done; err != nil {
		t.Errorf("run: %v", err)
	}
}

func TestRecordIsSweptAtTheStartAndThenHourly(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	c := b.server(b.client, unhurried).cleanup
	sweeps := &countingSweeper{}
	c.sweeper = sweeps
	now := time.Now()
	for _, step := range []struct {
		at   time.Duration
		want int
	}{{0, 1}, {time.Minute, 1}, {sweepPause, 2}, {sweepPause + time.Minute, 2}} {
		if err := c.round(patient(t), now.Add(step.at)); err != nil || sweeps.count != step.want {
			t.Errorf("after %s: swept %d times, %v", step.at, sweeps.count, err)
		}
	}
}

// countingSweeper counts how often it was asked.
type countingSweeper struct{ count int }

func (s *countingSweeper) Sweep(context.Context) (project.Swept, error) {
	s.count++
	return project.Swept{}, nil
}
