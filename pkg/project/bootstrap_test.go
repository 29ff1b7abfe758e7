package project

import (
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

func wantedAll() Wanted {
	return Wanted{
		AdminEmail:    "ann@example.org",
		AdminPassword: NewSecret("correct horse"),
		APIKey:        NewSecret(strings.Repeat("k", 32)),
		Project:       "shop",
		Token:         NewToken(),
	}
}

func TestBootstrapMakesWhatIsNamedOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	server := startNATS(t, dir)
	store := connect(t, server.URL())
	wanted := wantedAll()
	made, err := Bootstrap(t.Context(), store, wanted)
	if err != nil || !made.First || made.Token.IsSet() || made.AdminPassword.IsSet() {
		t.Fatalf("%+v: %v", made, err)
	}
	before := contents(t, store, wanted)
	stopNATS(t, server)

	store = connect(t, startNATS(t, dir).URL())
	made, err = Bootstrap(t.Context(), store, wanted)
	if err != nil || made.First {
		t.Errorf("the next start: %+v: %v", made, err)
	}
	if after := contents(t, store, wanted); after != before {
		t.Errorf("changed from %s to %s", before, after)
	}
	other := wantedAll()
	other.Project = "later"
	if _, err := Bootstrap(t.Context(), store, other); err != nil {
		t.Error(err)
	}
	if _, err := store.Project(t.Context(), "later"); !errors.Is(err, ErrNotFound) {
		t.Errorf("other settings were followed by a store in use: %v", err)
	}
}

// contents checks that everything wanted is there, once, and tells which.
func contents(t *testing.T, store *Store, wanted Wanted) string {
	t.Helper()
	ctx := t.Context()
	u, err := store.SignIn(ctx, wanted.AdminEmail, wanted.AdminPassword)
	if err != nil || u.Role != RoleAdmin {
		t.Errorf("admin %+v: %v", u, err)
	}
	key, err := store.APIKey(ctx, wanted.APIKey.Reveal())
	if err != nil || key.Role != RoleAdmin {
		t.Errorf("API key %+v: %v", key, err)
	}
	identity, err := store.Identify(ctx, mustDigest(t, wanted.Token.Reveal()))
	if err != nil || identity.ProjectName != wanted.Project {
		t.Errorf("token %+v: %v", identity, err)
	}
	projects, err := store.Projects(ctx, "", 0)
	if err != nil || len(projects) != 1 {
		t.Errorf("projects %+v: %v", projects, err)
	}
	tokens, err := store.Tokens(ctx, wanted.Project)
	if err != nil || len(tokens) != 1 {
		t.Errorf("tokens %+v: %v", tokens, err)
	}
	keys, err := store.APIKeys(ctx)
	if err != nil || len(keys) != 1 {
		t.Errorf("keys %+v: %v", keys, err)
	}
	return identity.ProjectID + identity.TokenID + key.ID + u.Email
}

func TestBootstrapByTwoProcessesAtOnceMakesOneOfEach(t *testing.T) {
	t.Parallel()
	server := startNATS(t, t.TempDir())
	wanted := wantedAll()
	var first atomic.Int32
	var processes sync.WaitGroup
	for range 4 {
		store := connect(t, server.URL())
		processes.Go(func() {
			made, err := Bootstrap(t.Context(), store, wanted)
			if err != nil {
				t.Error(err)
			}
			if made.First {
				first.Add(1)
			}
			if _, err := store.APIKey(t.Context(), wanted.APIKey.Reveal()); err != nil {
				t.Errorf("a process went on before everything was made: %v", err)
			}
		})
	}
	processes.Wait()
	if first.Load() != 1 {
		t.Errorf("%d processes were first", first.Load())
	}
	contents(t, connect(t, server.URL()), wanted)
}

func TestBootstrapOfADemoPrintsWhatItMade(t *testing.T) {
	t.Parallel()
	server := startNATS(t, t.TempDir())
	stores := []*Store{connect(t, server.URL()), connect(t, server.URL())}
	results := make([]Made, len(stores))
	var processes sync.WaitGroup
	for i, store := range stores {
		processes.Go(func() {
			var err error
			if results[i], err = Bootstrap(t.Context(), store, Wanted{Demo: true}); err != nil {
				t.Error(err)
			}
		})
	}
	processes.Wait()
	made := results[0]
	if !made.First {
		made = results[1]
	}
	if results[0].First == results[1].First || made.Project != "demo" {
		t.Fatalf("%+v", results)
	}
	contents(t, stores[0], Wanted{made.AdminEmail, made.AdminPassword, made.APIKey, made.Project, made.Token, true})
}

func TestBootstrapCutShortIsFinishedByTheNextStart(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	wanted := wantedAll()
	// A process claimed the bootstrap, made an admin and a project, and died.
	if claim, err := store.claimBootstrap(t.Context()); err != nil || claim == 0 {
		t.Fatal(err)
	}
	if _, err := store.firstClaim(t.Context()); !errors.Is(err, errExists) {
		t.Errorf("a claim beside another: %v", err)
	}
	if _, err := store.CreateFirstAdmin(t.Context(), wanted.AdminEmail, NewSecret("nobody saw this")); err != nil {
		t.Fatal(err)
	}
	if _, err := store.CreateProject(t.Context(), wanted.Project); err != nil {
		t.Fatal(err)
	}
	made, err := Bootstrap(t.Context(), store, wanted)
	if err != nil || !made.First {
		t.Fatalf("%+v: %v", made, err)
	}
	contents(t, store, wanted)
}

func TestBootstrapLeavesAStoreInUseAlone(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	if _, err := store.CreateFirstAdmin(t.Context(), "ann@example.org", NewSecret("correct horse")); err != nil {
		t.Fatal(err)
	}
	made, err := Bootstrap(t.Context(), store, Wanted{Demo: true})
	if err != nil || made != (Made{}) {
		t.Errorf("%+v: %v", made, err)
	}
}

func TestBootstrapWithoutWishesLeavesTheStoreEmpty(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	if made, err := Bootstrap(t.Context(), store, Wanted{}); err != nil || made.First {
		t.Errorf("%+v: %v", made, err)
	}
	if made, err := Bootstrap(t.Context(), store, wantedAll()); err != nil || !made.First {
		t.Errorf("a later start that names something: %+v: %v", made, err)
	}
}

func TestBootstrapNamesTheSettingThatIsWrong(t *testing.T) {
	t.Parallel()
	for setting, spoil := range map[string]func(*Wanted){
		settingEmail:    func(w *Wanted) { w.AdminEmail = "nobody" },
		settingPassword: func(w *Wanted) { w.AdminPassword = NewSecret("short") },
		settingAPIKey:   func(w *Wanted) { w.APIKey = NewSecret("short-canary") },
		settingProject:  func(w *Wanted) { w.Project = "No" },
		settingToken:    func(w *Wanted) { w.Token = NewSecret("lgb_canary") },
	} {
		wanted := wantedAll()
		spoil(&wanted)
		err := wanted.Validate()
		if err == nil || !strings.HasPrefix(err.Error(), setting+":") || strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: %v", setting, err)
		}
	}
	for setting, wanted := range map[string]Wanted{
		settingPassword: {AdminEmail: "ann@example.org"},
		settingEmail:    {AdminPassword: NewSecret("correct horse")},
		settingProject:  {Token: NewToken()},
	} {
		if err := wanted.Validate(); err == nil || !strings.HasPrefix(err.Error(), setting+":") {
			t.Errorf("%s missing: %v", setting, err)
		}
	}
}
