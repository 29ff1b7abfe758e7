package project

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alexedwards/argon2id"
)

func TestUserSignsInWithTheRightPasswordOnly(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	password := NewSecret("correct horse")
	u, err := store.CreateUser(t.Context(), " Ann@Example.org", password, RoleMember)
	if err != nil || u.Email != "ann@example.org" {
		t.Fatalf("%+v: %v", u, err)
	}
	if _, err := store.CreateUser(t.Context(), "ann@example.ORG", password, RoleAdmin); !errors.Is(err, ErrNameTaken) {
		t.Errorf("made twice: %v", err)
	}
	got, err := store.SignIn(t.Context(), "ANN@example.org ", password)
	if err != nil || got != u {
		t.Errorf("%+v: %v", got, err)
	}
	for email, password := range map[string]string{
		"ann@example.org":     "wrong horse",
		"bob@example.org":     "correct horse",
		"no address":          "correct horse",
		"ann@example.org\x00": "correct horse",
		"Ann@Example.Org":     strings.Repeat("x", maxPasswordLen+1),
	} {
		if _, err := store.SignIn(t.Context(), email, NewSecret(password)); !errors.Is(err, ErrCredentials) {
			t.Errorf("%q: %v", email, err)
		}
	}
	if found, err := store.User(t.Context(), "ann@example.org"); err != nil || found != u {
		t.Errorf("%+v: %v", found, err)
	}
}

func TestUserOfAWrongFormIsRefusedByField(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	for _, c := range []struct {
		email, password string
		role            Role
		field           string
	}{
		{"", "correct horse", RoleAdmin, "email"},
		{"ann", "correct horse", RoleAdmin, "email"},
		{"Ann <ann@example.org>", "correct horse", RoleAdmin, "email"},
		{strings.Repeat("a", 260) + "@example.org", "correct horse", RoleAdmin, "email"},
		{"ann@example.org", "short", RoleAdmin, "password"},
		{"ann@example.org", strings.Repeat("x", 1025), RoleAdmin, "password"},
		{"ann@example.org", "correct horse", "root", "role"},
	} {
		var invalid *InvalidError
		_, err := store.CreateUser(t.Context(), c.email, NewSecret(c.password), c.role)
		if !errors.As(err, &invalid) || invalid.Field != c.field {
			t.Errorf("%.20q %.10q %s: %v", c.email, c.password, c.role, err)
		}
	}
}

func TestUnknownUsersHashCostsAsMuchAsAnyOther(t *testing.T) {
	t.Parallel()
	own, err := newPasswords().hash(t.Context(), NewSecret("correct horse"))
	if err != nil {
		t.Fatal(err)
	}
	want, _, key, err := argon2id.DecodeHash(own)
	if err != nil {
		t.Fatal(err)
	}
	got, _, dummyKey, err := argon2id.DecodeHash(unknownUserHash)
	if err != nil {
		t.Fatal(err)
	}
	if *got != *want || len(dummyKey) != len(key) {
		t.Errorf("cost %+v, want %+v", *got, *want)
	}
}

func TestPasswordsAreHashedFewAtATime(t *testing.T) {
	t.Parallel()
	p := newPasswords()
	for range passwordTurns {
		if err := p.wait(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := p.match(ctx, NewSecret("correct horse"), unknownUserHash); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("hashed beyond the bound: %v", err)
	}
	p.leave()
	if same, err := p.match(t.Context(), NewSecret("correct horse"), unknownUserHash); err != nil || same {
		t.Errorf("%v: %v", same, err)
	}
}

func TestFirstAdminIsMadeByOneOfFifty(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	server := startNATS(t, dir)
	stores := []*Store{connect(t, server.URL()), connect(t, server.URL())}
	var winner atomic.Value
	var won atomic.Int32
	var callers sync.WaitGroup
	for i := range 50 {
		callers.Go(func() {
			u, err := stores[i%2].CreateFirstAdmin(t.Context(), fmt.Sprintf("admin%d@example.org", i), NewSecret("correct horse"))
			switch {
			case err == nil:
				won.Add(1)
				winner.Store(u)
			case !errors.Is(err, ErrClosed):
				t.Error(err)
			}
		})
	}
	callers.Wait()
	if won.Load() != 1 {
		t.Fatalf("%d callers made the first admin", won.Load())
	}
	stopNATS(t, server)

	store := connect(t, startNATS(t, dir).URL())
	if open, err := store.FirstAdminOpen(t.Context()); err != nil || open {
		t.Errorf("open after a restart: %v: %v", open, err)
	}
	if _, err := store.CreateFirstAdmin(t.Context(), "late@example.org", NewSecret("correct horse")); !errors.Is(err, ErrClosed) {
		t.Errorf("made again after a restart: %v", err)
	}
	u, err := store.SignIn(t.Context(), winner.Load().(User).Email, NewSecret("correct horse"))
	if err != nil || u.Role != RoleAdmin {
		t.Errorf("%+v: %v", u, err)
	}
}

func TestFirstAdminOfACrashIsFinished(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	u, err := store.newUser(t.Context(), "ann@example.org", NewSecret("correct horse"), RoleAdmin)
	if err != nil {
		t.Fatal(err)
	}
	// The process ended between the mark and the user.
	if _, err := store.users.create(t.Context(), firstAdminKey, firstAdmin{u.Email, &u}); err != nil {
		t.Fatal(err)
	}
	if _, err := store.CreateFirstAdmin(t.Context(), "eve@example.org", NewSecret("correct horse")); !errors.Is(err, ErrClosed) {
		t.Errorf("a second first admin: %v", err)
	}
	if _, err := store.SignIn(t.Context(), "ann@example.org", NewSecret("correct horse")); err != nil {
		t.Errorf("the first one: %v", err)
	}
	var mark firstAdmin
	if _, err := store.users.read(t.Context(), firstAdminKey, &mark); err != nil || mark.User != nil {
		t.Errorf("the mark still holds the user: %v", err)
	}
}

func TestAPIKeyIsKnownUntilItIsDeleted(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	made, value, err := store.CreateAPIKey(t.Context(), "ci", RoleMember)
	if err != nil || !strings.HasPrefix(value.Reveal(), keyPrefix) {
		t.Fatal(err)
	}
	brought, err := store.AddAPIKey(t.Context(), "own", RoleAdmin, NewSecret(strings.Repeat("k", 32)))
	if err != nil {
		t.Fatal(err)
	}
	again, err := store.AddAPIKey(t.Context(), "own again", RoleMember, NewSecret(strings.Repeat("k", 32)))
	if err != nil || again != brought {
		t.Errorf("added again: %+v: %v", again, err)
	}
	if found, err := store.APIKey(t.Context(), value.Reveal()); err != nil || found != made {
		t.Errorf("%+v: %v", found, err)
	}
	if list, err := store.APIKeys(t.Context()); err != nil || len(list) != 2 || list[0] != made || list[1] != brought {
		t.Errorf("%+v: %v", list, err)
	}
	if err := store.DeleteAPIKey(t.Context(), made.ID); err != nil {
		t.Fatal(err)
	}
	for _, unknown := range []string{value.Reveal(), "", "short", newSecret(keyPrefix).Reveal(), strings.Repeat("x", 100_000)} {
		if _, err := store.APIKey(t.Context(), unknown); !errors.Is(err, ErrUnknownKey) {
			t.Errorf("%.10q: %v", unknown, err)
		}
	}
	if err := store.DeleteAPIKey(t.Context(), made.ID); !errors.Is(err, ErrNotFound) {
		t.Errorf("deleted twice: %v", err)
	}
}

func TestAPIKeyOfAWrongFormIsRefused(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	for _, value := range []string{"", strings.Repeat("k", 31), strings.Repeat("k", 31) + " ", strings.Repeat("k", 40) + "\n", strings.Repeat("k", 513)} {
		if _, err := store.AddAPIKey(t.Context(), "x", RoleAdmin, NewSecret(value)); !errors.Is(err, ErrMalformed) {
			t.Errorf("%.10q: %v", value, err)
		}
	}
}
