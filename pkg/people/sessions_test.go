package people

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/logboom/logboom/pkg/secret"
)

func TestSessionIsKnownToEveryProcessUntilItEnds(t *testing.T) {
	t.Parallel()
	js := newQueue(t)
	one, store := openSessions(t, js)
	other, err := OpenSessions(patient(t), js, store.Store, 1)
	if err != nil {
		t.Fatal(err)
	}
	who := createUser(t, store, "one@example.org", RoleAdmin)
	token, err := one.Begin(patient(t), who)
	if err != nil {
		t.Fatal(err)
	}
	second, err := one.Begin(patient(t), who)
	if err != nil || second == token {
		t.Fatalf("two sessions share a token, or %v", err)
	}
	found, err := other.Person(patient(t), token)
	if err != nil || found.Email != who.Email || found.Role != RoleAdmin || len(found.Projects) != 0 {
		t.Fatalf("found %+v, %v", found, err)
	}
	if err := other.End(patient(t), token); err != nil {
		t.Fatal(err)
	}
	if _, err := one.Person(patient(t), token); !errors.Is(err, ErrNoSession) {
		t.Errorf("after its end: %v", err)
	}
	if _, err := one.Person(patient(t), second); err != nil {
		t.Errorf("the other session ended too: %v", err)
	}
}

func TestUnknownSessionTokensAreRefused(t *testing.T) {
	t.Parallel()
	sessions, _ := openSessions(t, newQueue(t))
	for _, token := range []string{"", "x", strings.Repeat("A", 43), strings.Repeat("*", 43), strings.Repeat("A", 10_000), "session.>", "*"} {
		if _, err := sessions.Person(patient(t), token); !errors.Is(err, ErrNoSession) {
			t.Errorf("token %.20q: %v", token, err)
		}
	}
}

func TestSessionEndsWhenIdleOrOld(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		step  time.Duration
		steps int // until it is over
	}{
		"idle": {Idle + time.Minute, 1},
		"old":  {Idle - time.Hour, int(Lifetime/(Idle-time.Hour)) + 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sessions, store := openSessions(t, newQueue(t))
			now := time.Now()
			sessions.now = func() time.Time { return now }
			token, err := sessions.Begin(patient(t), createUser(t, store, "one@example.org", RoleMember))
			if err != nil {
				t.Fatal(err)
			}
			for i := 1; i <= tc.steps; i++ {
				now = now.Add(tc.step)
				_, err := sessions.Person(patient(t), token)
				if over := errors.Is(err, ErrNoSession); over != (i == tc.steps) || err != nil && !over {
					t.Fatalf("after step %d: %v", i, err)
				}
			}
			now = now.Add(-tc.step)
			if _, err := sessions.Person(patient(t), token); !errors.Is(err, ErrNoSession) {
				t.Errorf("it is valid again: %v", err)
			}
		})
	}
}

func TestWhatAUserMayDoCountsFromTheNextRequestOn(t *testing.T) {
	t.Parallel()
	sessions, store := openSessions(t, newQueue(t))
	createUser(t, store, "boss@example.org", RoleAdmin)
	who := createUser(t, store, "one@example.org", RoleAdmin)
	shop, err := store.CreateProject(patient(t), "shop")
	if err != nil {
		t.Fatal(err)
	}
	token, err := sessions.Begin(patient(t), who)
	if err != nil {
		t.Fatal(err)
	}
	person := func() Person {
		found, err := sessions.Person(patient(t), token)
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	if _, err := store.ChangeRole(patient(t), who.Email, RoleMember); err != nil {
		t.Fatal(err)
	}
	if now := person(); now.Role != RoleMember || len(now.Projects) != 0 {
		t.Errorf("a member without projects: %+v", now)
	}
	if err := sessions.Limit(patient(t), who, []string{shop.ID}); err != nil {
		t.Fatal(err)
	}
	if now := person(); now.Role != RoleMember || !slices.Equal(now.Projects, []string{shop.ID}) {
		t.Errorf("a member of the project: %+v", now)
	}
	if err := store.DeleteUser(patient(t), who.Email); err != nil {
		t.Fatal(err)
	}
	again := createUser(t, store, who.Email, RoleMember)
	if _, err := sessions.Person(patient(t), token); !errors.Is(err, ErrNoSession) {
		t.Errorf("the session is valid for a later user with the address: %v", err)
	}
	if projects, err := sessions.Projects(patient(t), again); err != nil || len(projects) != 0 {
		t.Errorf("the projects belong to a later user with the address: %v, %v", projects, err)
	}
}

func TestSessionsEndWhenThePasswordIsChanged(t *testing.T) {
	t.Parallel()
	sessions, store := openSessions(t, newQueue(t))
	who := createUser(t, store, "one@example.org", RoleMember)
	other := createUser(t, store, "two@example.org", RoleMember)
	begin := func(who User) string {
		token, err := sessions.Begin(patient(t), who)
		if err != nil {
			t.Fatal(err)
		}
		return token
	}
	first, second, others := begin(who), begin(who), begin(other)
	changed, err := store.ChangePassword(patient(t), who.Email, secret.New("a long password"), secret.New("a longer password"))
	if err != nil {
		t.Fatal(err)
	}
	late, fresh := begin(who), begin(changed) // late: read before the change, begun after it
	for name, token := range map[string]string{"first": first, "second": second, "late": late} {
		if _, err := sessions.Person(patient(t), token); !errors.Is(err, ErrNoSession) {
			t.Errorf("the %s session: %v", name, err)
		}
	}
	for name, token := range map[string]string{"fresh": fresh, "another's": others} {
		if _, err := sessions.Person(patient(t), token); err != nil {
			t.Errorf("the %s session: %v", name, err)
		}
	}
}

func TestSetupCodeIsValidInAnySpellingAndNoOtherIs(t *testing.T) {
	t.Parallel()
	sessions, _ := openSessions(t, newQueue(t))
	code, err := sessions.NewSetupCode(patient(t))
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]bool{code: true, " " + strings.ToLower(code) + "\n": true, "": false, code[1:]: false, code + "A": false, "*": false} {
		if good, err := sessions.IsSetupCode(patient(t), text); err != nil || good != want {
			t.Errorf("code %q: %v, %v", text, good, err)
		}
	}
}
