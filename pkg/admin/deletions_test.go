package admin_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/logboom/logboom/pkg/admin"
	"github.com/logboom/logboom/pkg/admin/admintest"
	"github.com/logboom/logboom/pkg/embedded/engine/enginetest"
	"github.com/logboom/logboom/pkg/people"
	"github.com/logboom/logboom/pkg/project"
	"github.com/logboom/logboom/pkg/secret"
)

func TestMain(m *testing.M) { enginetest.Main(m) }

// owner may do everything.
var owner = admin.Caller{KeyID: "test", Role: people.RoleAdmin, AllProjects: true}

// recorder is an Eraser that records which projects it erases. It fails while
// it is broken.
type recorder struct {
	ids chan string // capacity: more than a test erases

	mu     sync.Mutex
	broken bool
}

func (r *recorder) Erase(_ context.Context, projectID string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.broken {
		return errors.New("broken on purpose")
	}
	r.ids <- projectID
	return nil
}

func (r *recorder) setBroken(broken bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.broken = broken
}

// erased returns what was erased since the last call.
func (r *recorder) erased() (ids []string) {
	for {
		select {
		case id := <-r.ids:
			ids = append(ids, id)
		default:
			return ids
		}
	}
}

// start starts an installation whose eraser is a recorder.
func start(t *testing.T) (*admintest.Installation, *recorder) {
	t.Helper()
	i, r := admintest.Start(t), &recorder{ids: make(chan string, 100)}
	i.Deps.Eraser = r
	return i, r
}

func pending(t *testing.T, i *admintest.Installation) int {
	t.Helper()
	list, err := i.Deps.Deletions.List(admintest.Context(t))
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

func remove(t *testing.T, s *admin.Service, p project.Project) {
	t.Helper()
	if err := s.DeleteProject(admintest.Context(t), owner, p); err != nil {
		t.Fatal(err)
	}
}

func TestDeletedProjectIsErasedTwiceAndItsDeletionRemoved(t *testing.T) {
	t.Parallel()
	i, eraser := start(t)
	shop := i.Project(t, "shop")
	i.Project(t, "other")
	s := i.New()
	remove(t, s, shop)
	i.Project(t, "shop") // another project with the name
	now := time.Now()
	for _, round := range []struct {
		at   time.Duration
		want []string
		left int
	}{
		{0, []string{shop.ID}, 1}, {time.Minute, nil, 1}, {admin.EraseAgain + time.Second, []string{shop.ID}, 0}, {2 * admin.EraseAgain, nil, 0},
	} {
		if err := s.CleanUp(admintest.Context(t), now.Add(round.at)); err != nil {
			t.Fatal(err)
		}
		if got := eraser.erased(); !slices.Equal(got, round.want) || pending(t, i) != round.left {
			t.Errorf("after %s: erased %v, %d pending", round.at, got, pending(t, i))
		}
	}
}

func TestErasingContinuesAfterARestart(t *testing.T) {
	t.Parallel()
	i, eraser := start(t)
	shop, other := i.Project(t, "shop"), i.Project(t, "other")
	s := i.New()
	eraser.setBroken(true)
	remove(t, s, shop)
	remove(t, s, other)
	if err := s.CleanUp(admintest.Context(t), time.Now()); err == nil {
		t.Error("a failure is not reported")
	}
	eraser.setBroken(false)
	var err error
	if i.Deps.Deletions, err = admin.OpenDeletions(admintest.Context(t), i.Queue, 1); err != nil {
		t.Fatal(err)
	}
	if err := i.New().CleanUp(admintest.Context(t), time.Now()); err != nil {
		t.Fatal(err)
	}
	got := eraser.erased()
	slices.Sort(got)
	if !slices.Equal(got, []string{other.ID, shop.ID}) {
		t.Errorf("erased %v", got)
	}
}

func TestExistingProjectIsNeverErased(t *testing.T) {
	t.Parallel()
	i, eraser := start(t)
	shop := i.Project(t, "shop")
	if err := i.Deps.Deletions.Add(admintest.Context(t), shop.ID); err != nil { // as if a crash interrupted the deletion
		t.Fatal(err)
	}
	s := i.New()
	for _, at := range []time.Duration{0, admin.EraseAgain + time.Second} {
		if err := s.CleanUp(admintest.Context(t), time.Now().Add(at)); err != nil {
			t.Fatal(err)
		}
	}
	if got := eraser.erased(); len(got) != 0 || pending(t, i) != 0 {
		t.Errorf("erased %v, %d pending", got, pending(t, i))
	}
}

func TestNothingIsErasedWhileTheQueueIsDown(t *testing.T) {
	t.Parallel()
	i, eraser := start(t)
	shop := i.Project(t, "shop")
	s := i.New()
	if err := i.NATS.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second) // the queue will not answer
	defer cancel()
	if err := s.Advance(ctx, admin.Deletion{ProjectID: shop.ID}, time.Now()); err == nil || len(eraser.erased()) != 0 {
		t.Errorf("erased although the project may exist: %v", err)
	}
}

func TestDeletionThatWasAddedAgainIsNotRemoved(t *testing.T) {
	t.Parallel()
	i, _ := start(t)
	deletions := i.Deps.Deletions
	if err := deletions.Add(admintest.Context(t), "shop~00000000"); err != nil {
		t.Fatal(err)
	}
	list, err := deletions.List(admintest.Context(t))
	if err != nil || len(list) != 1 {
		t.Fatalf("pending %v, %v", list, err)
	}
	if err := deletions.Add(admintest.Context(t), "shop~00000000"); err != nil {
		t.Fatal(err)
	}
	if err := deletions.Remove(admintest.Context(t), list[0]); err != nil || pending(t, i) != 1 {
		t.Errorf("%d pending, %v", pending(t, i), err)
	}
}

func TestDeletedProjectIsErasedAtOnceAndRunReturns(t *testing.T) {
	t.Parallel()
	i, eraser := start(t)
	shop := i.Project(t, "shop")
	s := i.New()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	remove(t, s, shop)
	select {
	case id := <-eraser.ids:
		if id != shop.ID {
			t.Errorf("erased %s", id)
		}
	case <-time.After(admin.CleanupPause * 3 / 4): // less than the pause between two rounds
		t.Error("nothing was erased")
	}
	cancel()
	if err := <-done; err != nil {
		t.Errorf("run: %v", err)
	}
}

func TestStoreIsSweptAtTheStartAndThenHourly(t *testing.T) {
	t.Parallel()
	i, _ := start(t)
	s, sweeps := i.New(), 0
	s.SetSweep(func(context.Context) (admin.Swept, error) {
		sweeps++
		return admin.Swept{}, nil
	})
	now := time.Now()
	for _, step := range []struct {
		at   time.Duration
		want int
	}{{0, 1}, {time.Minute, 1}, {admin.SweepPause, 2}, {admin.SweepPause + time.Minute, 2}} {
		if err := s.CleanUp(admintest.Context(t), now.Add(step.at)); err != nil || sweeps != step.want {
			t.Errorf("after %s: swept %d times, %v", step.at, sweeps, err)
		}
	}
}

func TestWebhookAddressesAreReadableWithTheNewKeyAloneAfterAChange(t *testing.T) {
	t.Parallel()
	i, _ := start(t)
	i.Project(t, "shop")
	const address = "https://hooks.example.org/T0/secret"
	_, err := i.Projects.ChangeAlerts(admintest.Context(t), "shop", func(a *project.Alerts) { a.WebhookURL = secret.New(address) })
	if err != nil {
		t.Fatal(err)
	}
	oldKey := secret.New(base64.StdEncoding.EncodeToString(make([]byte, 32)))
	newKey := secret.New(base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{1}, 32)))
	i.Deps.Projects, err = project.Open(admintest.Context(t), i.Queue, project.Config{Key: newKey, OldKeys: []secret.Value{oldKey}})
	if err != nil {
		t.Fatal(err)
	}
	if err := i.New().CleanUp(admintest.Context(t), time.Now()); err != nil {
		t.Fatal(err)
	}
	alone, err := project.Open(admintest.Context(t), i.Queue, project.Config{Key: newKey})
	if err != nil {
		t.Fatal(err)
	}
	if alerts, err := alone.Alerts(admintest.Context(t), "shop"); err != nil || alerts.WebhookURL.Reveal() != address {
		t.Errorf("with the new key alone: %v", err)
	}
}
