package people

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alexedwards/argon2id"

	"github.com/logboom/logboom/pkg/embedded"
	"github.com/logboom/logboom/pkg/embedded/natstest"
	"github.com/logboom/logboom/pkg/project"
	"github.com/logboom/logboom/pkg/secret"
)

func TestUserSignsInWithTheRightPasswordOnly(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	password := secret.New("correct horse")
	u, err := store.CreateUser(t.Context(), " Ann@Example.org", password, RoleMember)
	if err != nil || u.Email != "ann@example.org" {
		t.Fatalf("%+v: %v", u, err)
	}
	if _, err := store.CreateUser(t.Context(), "ann@example.ORG", password, RoleAdmin); !errors.Is(err, project.ErrNameTaken) {
		t.Errorf("created twice: %v", err)
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
		if _, err := store.SignIn(t.Context(), email, secret.New(password)); !errors.Is(err, ErrCredentials) {
			t.Errorf("%q: %v", email, err)
		}
	}
	if found, err := store.User(t.Context(), "ann@example.org"); err != nil || found != u {
		t.Errorf("%+v: %v", found, err)
	}
}

func TestInvalidUserIsRefusedByField(t *testing.T) {
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
		var invalid *project.InvalidError
		_, err := store.CreateUser(t.Context(), c.email, secret.New(c.password), c.role)
		if !errors.As(err, &invalid) || invalid.Field != c.field {
			t.Errorf("%.20q %.10q %s: %v", c.email, c.password, c.role, err)
		}
	}
}

func TestUnknownUsersHashCostsAsMuchAsAnyOther(t *testing.T) {
	t.Parallel()
	own, err := newPasswords().hash(t.Context(), secret.New("correct horse"))
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
	for range maxHashing {
		if err := p.acquire(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := p.match(ctx, secret.New("correct horse"), unknownUserHash); !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, ErrBusy) {
		t.Errorf("more were hashed at once than allowed: %v", err)
	}
	p.release()
	if same, err := p.match(t.Context(), secret.New("correct horse"), unknownUserHash); err != nil || same {
		t.Errorf("%v: %v", same, err)
	}
}

func TestFirstAdminIsCreatedByOneOfFifty(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	server := natstest.Start(t, embedded.NATSConfig{DataDir: dir})
	both := []stores{connect(t, server.URL()), connect(t, server.URL())}
	var winner atomic.Value
	var won atomic.Int32
	var callers sync.WaitGroup
	for i := range 50 {
		callers.Go(func() {
			u, err := both[i%2].CreateFirstAdmin(t.Context(), fmt.Sprintf("admin%d@example.org", i), secret.New("correct horse"))
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
		t.Fatalf("%d callers created the first admin", won.Load())
	}
	natstest.Stop(t, server)

	store := connect(t, natstest.Start(t, embedded.NATSConfig{DataDir: dir}).URL())
	if open, err := store.FirstAdminOpen(t.Context()); err != nil || open {
		t.Errorf("open after a restart: %v: %v", open, err)
	}
	if _, err := store.CreateFirstAdmin(t.Context(), "late@example.org", secret.New("correct horse")); !errors.Is(err, ErrClosed) {
		t.Errorf("created again after a restart: %v", err)
	}
	u, err := store.SignIn(t.Context(), winner.Load().(User).Email, secret.New("correct horse"))
	if err != nil || u.Role != RoleAdmin {
		t.Errorf("%+v: %v", u, err)
	}
}

func TestFirstAdminIsFinishedAfterACrash(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	u, err := store.newUser(t.Context(), "ann@example.org", secret.New("correct horse"), RoleAdmin)
	if err != nil {
		t.Fatal(err)
	}
	// The process ended between the mark and the user.
	if _, err := store.users.Create(t.Context(), firstAdminKey, firstAdmin{u.Email, &u}); err != nil {
		t.Fatal(err)
	}
	if _, err := store.CreateFirstAdmin(t.Context(), "eve@example.org", secret.New("correct horse")); !errors.Is(err, ErrClosed) {
		t.Errorf("a second first admin: %v", err)
	}
	if _, err := store.SignIn(t.Context(), "ann@example.org", secret.New("correct horse")); err != nil {
		t.Errorf("the first one: %v", err)
	}
	var mark firstAdmin
	if _, err := store.users.Load(t.Context(), firstAdminKey, &mark); err != nil || mark.User != nil {
		t.Errorf("the mark still holds the user: %v", err)
	}
}

func TestAPIKeyIsKnownUntilItIsDeleted(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	made, value, err := store.CreateAPIKey(t.Context(), "ci", RoleMember)
	if err != nil || !strings.HasPrefix(value.Reveal(), apiKeyPrefix) {
		t.Fatal(err)
	}
	brought, err := store.AddAPIKey(t.Context(), "own", RoleAdmin, secret.New(strings.Repeat("k", 32)))
	if err != nil {
		t.Fatal(err)
	}
	again, err := store.AddAPIKey(t.Context(), "own again", RoleMember, secret.New(strings.Repeat("k", 32)))
	if err != nil || !reflect.DeepEqual(again, brought) {
		t.Errorf("added again: %+v: %v", again, err)
	}
	if found, err := store.APIKey(t.Context(), value.Reveal()); err != nil || !reflect.DeepEqual(found, made) {
		t.Errorf("%+v: %v", found, err)
	}
	if list, err := store.APIKeys(t.Context()); err != nil || !reflect.DeepEqual(list, []APIKey{made, brought}) {
		t.Errorf("%+v: %v", list, err)
	}
	if err := store.DeleteAPIKey(t.Context(), made.ID); err != nil {
		t.Fatal(err)
	}
	for _, unknown := range []string{value.Reveal(), "", "short", secret.Generate(apiKeyPrefix).Reveal(), strings.Repeat("x", 100_000)} {
		if _, err := store.APIKey(t.Context(), unknown); !errors.Is(err, ErrUnknownKey) {
			t.Errorf("%.10q: %v", unknown, err)
		}
	}
	if err := store.DeleteAPIKey(t.Context(), made.ID); !errors.Is(err, project.ErrNotFound) {
		t.Errorf("deleted twice: %v", err)
	}
}

func TestAPIKeyKeepsItsRoleAndProjects(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	mine, err := store.CreateProject(t.Context(), "mine")
	if err != nil {
		t.Fatal(err)
	}
	theirs, err := store.CreateProject(t.Context(), "theirs")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		role     Role
		projects []string
		ids      []string
	}{
		{RoleAdmin, nil, nil},
		{RoleAdmin, []string{"mine"}, []string{mine.ID}},
		{RoleMember, nil, nil},
		{RoleMember, []string{"mine"}, []string{mine.ID}},
		{RoleMember, []string{"mine", "theirs"}, []string{mine.ID, theirs.ID}},
	} {
		_, value, err := store.CreateAPIKey(t.Context(), "x", c.role, c.projects...)
		if err != nil {
			t.Fatal(err)
		}
		key, err := store.APIKey(t.Context(), value.Reveal())
		if err != nil || key.Role != c.role || !slices.Equal(key.Projects, c.ids) {
			t.Errorf("%s %q: %+v: %v", c.role, c.projects, key, err)
		}
	}
}

func TestAPIKeyIsNotValidForALaterProjectWithTheName(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	if _, err := store.CreateProject(t.Context(), "demo"); err != nil {
		t.Fatal(err)
	}
	key, _, err := store.CreateAPIKey(t.Context(), "x", RoleAdmin, "demo")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.DeleteProject(t.Context(), "demo"); err != nil {
		t.Fatal(err)
	}
	again, err := store.CreateProject(t.Context(), "demo")
	if err != nil || len(key.Projects) != 1 || key.Projects[0] == again.ID {
		t.Errorf("the key of a deleted project is valid for another: %v", err)
	}
	for _, projects := range [][]string{{"missing"}, {"demo", ""}, make([]string, maxKeyProjects+1)} {
		var invalid *project.InvalidError
		_, _, err := store.CreateAPIKey(t.Context(), "x", RoleAdmin, projects...)
		if !errors.As(err, &invalid) || invalid.Field != "projects" {
			t.Errorf("%.2q: %v", projects, err)
		}
	}
}

func TestAPIKeysAreBounded(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	store.maxKeys = 3
	for range store.maxKeys {
		if _, _, err := store.CreateAPIKey(t.Context(), "x", RoleMember); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := store.CreateAPIKey(t.Context(), "x", RoleMember); !errors.Is(err, project.ErrFull) {
		t.Errorf("one too many: %v", err)
	}
	if list, err := store.APIKeys(t.Context()); err != nil || len(list) != store.maxKeys {
		t.Errorf("%d keys: %v", len(list), err)
	}
}

// addUsers creates users without the cost of hashing a password.
func addUsers(t *testing.T, store stores, role Role, emails ...string) {
	t.Helper()
	for _, email := range emails {
		u := userDocument{User{Email: email, Role: role, Created: time.Now().UTC()}, unknownUserHash}
		if _, err := store.users.Create(t.Context(), userKey(email), u); err != nil {
			t.Fatal(err)
		}
	}
}

func TestUsersAreListedByAddressAndPage(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	addUsers(t, store, RoleMember, "d@x.org", "a@x.org", "c@x.org", "b@x.org")
	for _, c := range []struct {
		after string
		limit int
		want  string
	}{{"", 0, "abcd"}, {"a@x.org", 2, "bc"}, {"c@x.org", 5000, "d"}, {"d@x.org", 1, ""}} {
		list, err := store.Users(t.Context(), c.after, c.limit)
		var got string
		for _, u := range list {
			got += u.Email[:1]
		}
		if err != nil || got != c.want {
			t.Errorf("after %q: %q, want %q: %v", c.after, got, c.want, err)
		}
	}
}

func TestUsersRoleCanBeChangedAndTheUserDeleted(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	addUsers(t, store, RoleAdmin, "ann@x.org")
	addUsers(t, store, RoleMember, "bob@x.org")
	if u, err := store.ChangeRole(t.Context(), " BOB@x.org", RoleAdmin); err != nil || u.Role != RoleAdmin {
		t.Errorf("%+v: %v", u, err)
	}
	if u, err := store.User(t.Context(), "bob@x.org"); err != nil || u.Role != RoleAdmin {
		t.Errorf("%+v: %v", u, err)
	}
	if err := store.DeleteUser(t.Context(), "ann@x.org"); err != nil {
		t.Error(err)
	}
	for name, err := range map[string]error{
		"delete again": store.DeleteUser(t.Context(), "ann@x.org"),
		"delete none":  store.DeleteUser(t.Context(), "no address"),
		"find":         func() error { _, err := store.User(t.Context(), "ann@x.org"); return err }(),
		"change":       func() error { _, err := store.ChangeRole(t.Context(), "ann@x.org", RoleMember); return err }(),
	} {
		if !errors.Is(err, project.ErrNotFound) {
			t.Errorf("%s: %v", name, err)
		}
	}
	var invalid *project.InvalidError
	if _, err := store.ChangeRole(t.Context(), "bob@x.org", ""); !errors.As(err, &invalid) || invalid.Field != "role" {
		t.Errorf("no role: %v", err)
	}
}

func TestLastAdminStaysAdmin(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	addUsers(t, store, RoleAdmin, "ann@x.org")
	addUsers(t, store, RoleMember, "bob@x.org")
	_, err := store.ChangeRole(t.Context(), "ann@x.org", RoleMember)
	for _, err := range []error{err, store.DeleteUser(t.Context(), "ann@x.org")} {
		if !errors.Is(err, ErrLastAdmin) {
			t.Error(err)
		}
	}
	if err := store.DeleteUser(t.Context(), "bob@x.org"); err != nil {
		t.Errorf("a member: %v", err)
	}
}

func TestOfAdminsThatRemoveEachOtherOneStays(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	for round := range 10 {
		emails := []string{fmt.Sprintf("a%d@x.org", round), fmt.Sprintf("b%d@x.org", round), fmt.Sprintf("c%d@x.org", round)}
		addUsers(t, store, RoleAdmin, emails...)
		var callers sync.WaitGroup
		left, err := store.Users(t.Context(), "", 0)
		if err != nil {
			t.Fatal(err)
		}
		for i, u := range left {
			callers.Go(func() {
				var err error
				if i%2 == 0 {
					err = store.DeleteUser(t.Context(), u.Email)
				} else {
					_, err = store.ChangeRole(t.Context(), u.Email, RoleMember)
				}
				if err != nil && !errors.Is(err, ErrLastAdmin) && u.Role == RoleAdmin {
					t.Error(err)
				}
			})
		}
		callers.Wait()
		if err := store.checkAnotherAdmin(t.Context(), ""); err != nil {
			t.Fatal(err)
		}
	}
}

func TestAdminRemovedInARaceIsRestored(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	addUsers(t, store, RoleAdmin, "ann@x.org")
	for _, role := range []Role{"", RoleMember} {
		old, revision, err := store.loadUser(t.Context(), "ann@x.org")
		if err != nil {
			t.Fatal(err)
		}
		changed := old
		changed.Role = role
		if role == "" {
			err, revision = store.users.Delete(t.Context(), userKey(old.Email), revision), 0
		} else {
			revision, err = store.users.Update(t.Context(), userKey(old.Email), changed, revision)
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := store.restoreUser(t.Context(), old, revision); err != nil {
			t.Error(err)
		}
		if err := store.restoreUser(t.Context(), changed, revision); err != nil { // too late: left as it is
			t.Error(err)
		}
		if u, err := store.User(t.Context(), "ann@x.org"); err != nil || u.Role != RoleAdmin {
			t.Errorf("%+v: %v", u, err)
		}
	}
}

func TestMalformedAPIKeyIsRefused(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	for _, value := range []string{"", strings.Repeat("k", 31), strings.Repeat("k", 31) + " ", strings.Repeat("k", 40) + "\n", strings.Repeat("k", 513)} {
		if _, err := store.AddAPIKey(t.Context(), "x", RoleAdmin, secret.New(value)); !errors.Is(err, secret.ErrMalformed) {
			t.Errorf("%.10q: %v", value, err)
		}
	}
}
