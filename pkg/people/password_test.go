package people

import (
	"context"
	"errors"
	"fmt"
	"runtime/metrics"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/logboom/logboom/pkg/project"
	"github.com/logboom/logboom/pkg/secret"
)

func TestPasswordIsChangedWithTheOldOne(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	old, fresh := secret.New("correct horse"), secret.New("battery staple")
	u, err := store.CreateUser(t.Context(), "ann@example.org", old, RoleAdmin)
	if err != nil {
		t.Fatal(err)
	}
	for email, password := range map[string]string{"ann@example.org": "wrong horse", "bob@example.org": "correct horse", "": ""} {
		if _, err := store.ChangePassword(t.Context(), email, secret.New(password), fresh); !errors.Is(err, ErrCredentials) {
			t.Errorf("%q with %q: %v", email, password, err)
		}
	}
	var invalid *project.InvalidError
	for _, password := range []string{"", "short", strings.Repeat("x", maxPasswordLen+1)} {
		_, err := store.ChangePassword(t.Context(), u.Email, old, secret.New(password))
		if !errors.As(err, &invalid) || invalid.Field != "password" {
			t.Errorf("to %.10q: %v", password, err)
		}
	}
	changed, err := store.ChangePassword(t.Context(), " ANN@example.org", old, fresh)
	u.PasswordChanges = 1
	if err != nil || changed != u {
		t.Fatalf("%+v: %v", changed, err)
	}
	if _, err := store.SignIn(t.Context(), u.Email, old); !errors.Is(err, ErrCredentials) {
		t.Errorf("the old password: %v", err)
	}
	if got, err := store.SignIn(t.Context(), u.Email, fresh); err != nil || got != u {
		t.Errorf("the new password: %+v: %v", got, err)
	}
}

func TestPasswordIsSetWithoutTheOldOne(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	addUsers(t, store, RoleMember, "ann@x.org")
	set, err := store.SetPassword(t.Context(), "ann@x.org", secret.New("battery staple"))
	if err != nil || set.PasswordChanges != 1 || set.Role != RoleMember {
		t.Fatalf("%+v: %v", set, err)
	}
	if got, err := store.SignIn(t.Context(), "ann@x.org", secret.New("battery staple")); err != nil || got != set {
		t.Errorf("%+v: %v", got, err)
	}
	var invalid *project.InvalidError
	if _, err := store.SetPassword(t.Context(), "ann@x.org", secret.New("short")); !errors.As(err, &invalid) {
		t.Errorf("a short one: %v", err)
	}
	if _, err := store.SetPassword(t.Context(), "bob@x.org", secret.New("battery staple")); !errors.Is(err, project.ErrNotFound) {
		t.Errorf("of no user: %v", err)
	}
}

func TestOneOfSeveralPasswordChangesAtOnceWins(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	old := secret.New("correct horse")
	if _, err := store.CreateUser(t.Context(), "ann@example.org", old, RoleMember); err != nil {
		t.Fatal(err)
	}
	var won atomic.Value
	var changes atomic.Int32
	var callers sync.WaitGroup
	for i := range 8 {
		callers.Go(func() {
			fresh := secret.New(fmt.Sprintf("battery staple %d", i))
			_, err := store.ChangePassword(t.Context(), "ann@example.org", old, fresh)
			switch {
			case err == nil:
				changes.Add(1)
				won.Store(fresh)
			case !errors.Is(err, ErrCredentials):
				t.Error(err)
			}
		})
	}
	callers.Wait()
	if changes.Load() != 1 {
		t.Fatalf("%d of eight changed it", changes.Load())
	}
	if u, err := store.SignIn(t.Context(), "ann@example.org", won.Load().(secret.Value)); err != nil || u.PasswordChanges != 1 {
		t.Errorf("%+v: %v", u, err)
	}
}

func TestRoleChangedTogetherWithAPasswordIsKept(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	addUsers(t, store, RoleMember, "ann@x.org")
	known, revision, err := store.loadUser(t.Context(), "ann@x.org")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.ChangeRole(t.Context(), "ann@x.org", RoleAdmin); err != nil {
		t.Fatal(err)
	}
	u, err := store.storePassword(t.Context(), known, revision, unknownUserHash)
	if err != nil || u.Role != RoleAdmin || u.PasswordChanges != 1 {
		t.Errorf("%+v: %v", u, err)
	}
}

// counted counts the passwords that are hashed. The function that it returns
// returns how many there were since its last call.
func counted(t *testing.T, store stores) func() int32 {
	t.Helper()
	hashing := make(chan struct{}) // unbuffered: each acquire and release waits for the counter
	store.passwords.hashing = hashing
	var runs atomic.Int32
	go func() {
		for {
			select {
			case <-hashing: // acquire
				runs.Add(1)
			case <-t.Context().Done():
				return
			}
			hashing <- struct{}{} // release
		}
	}()
	return func() int32 { return runs.Swap(0) }
}

func TestUnknownUserCostsWhatAWrongPasswordCosts(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	addUsers(t, store, RoleMember, "ann@x.org")
	runs := counted(t, store)
	for name, try := range map[string]struct {
		email, password string
		hashes          int32 // all of one cost, see TestUnknownUsersHashCostsAsMuchAsAnyOther
	}{
		"wrong password":         {"ann@x.org", "wrong horse", 1},
		"no password":            {"ann@x.org", "", 1},
		"unknown user":           {"bob@x.org", "wrong horse", 1},
		"no address":             {"bob", "wrong horse", 1},
		"too long, known user":   {"ann@x.org", strings.Repeat("x", maxPasswordLen+1), 0},
		"too long, unknown user": {"bob@x.org", strings.Repeat("x", maxPasswordLen+1), 0},
	} {
		if _, err := store.SignIn(t.Context(), try.email, secret.New(try.password)); !errors.Is(err, ErrCredentials) {
			t.Errorf("%s: %v", name, err)
		}
		if got := runs(); got != try.hashes {
			t.Errorf("%s: %d hashes, want %d", name, got, try.hashes)
		}
	}
}

// inUse returns the memory that the process holds.
func inUse() uint64 {
	sample := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64() - sample[1].Value.Uint64()
}

// TestThousandSignInsAtOnceUseLittleMemory runs alone, because the memory of other
// tests would be counted too. A thousand callers wait, and give up once some of
// them were answered: the memory in use no longer grows by then.
func TestThousandSignInsAtOnceUseLittleMemory(t *testing.T) {
	const most, answers = 200 << 20, 100
	store := newStore(t)
	addUsers(t, store, RoleMember, "ann@x.org")
	before := inUse()
	peak := before
	ctx, giveUp := context.WithCancel(t.Context())
	defer giveUp()
	answered := make(chan error, 1000) // one for each
	for i := range cap(answered) {
		go func() {
			email := []string{"ann@x.org", "bob@x.org"}[i%2]
			_, err := store.SignIn(ctx, email, secret.New("wrong horse"))
			answered <- err
		}()
	}
	poll := time.NewTicker(2 * time.Millisecond)
	defer poll.Stop()
	for n := 0; n < cap(answered); {
		select {
		case err := <-answered:
			if n++; n == answers {
				giveUp()
			}
			if !errors.Is(err, ErrCredentials) && (n < answers || !errors.Is(err, context.Canceled)) {
				t.Errorf("answer %d: %v", n, err)
			}
		case <-poll.C:
			peak = max(peak, inUse())
		}
	}
	t.Logf("1,000 sign-ins at once took %d MiB more", (peak-before)>>20)
	if peak > before+most {
		t.Errorf("that is over %d MiB", most>>20)
	}
}
