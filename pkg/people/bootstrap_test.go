package people

import (
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/logboom/logboom/pkg/config"
	"github.com/logboom/logboom/pkg/embedded"
	"github.com/logboom/logboom/pkg/embedded/natstest"
	"github.com/logboom/logboom/pkg/project"
	"github.com/logboom/logboom/pkg/secret"
	"github.com/logboom/logboom/pkg/token"
)

func wantedAll() config.Bootstrap {
	return config.Bootstrap{
		AdminEmail:    "ann@example.org",
		AdminPassword: secret.New("correct horse"),
		APIKey:        secret.New(strings.Repeat("k", 32)),
		Project:       "shop",
		Token:         token.New(),
	}
}

func TestBootstrapCreatesWhatTheSettingsNameOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	server := natstest.Start(t, embedded.NATSConfig{DataDir: dir})
	store := connect(t, server.URL())
	wanted := wantedAll()
	made, err := store.Bootstrap(t.Context(), store.tokenStore, wanted, false)
	if err != nil || !made.First || made.Token.IsSet() || made.AdminPassword.IsSet() {
		t.Fatalf("%+v: %v", made, err)
	}
	before := contents(t, store, wanted)
	natstest.Stop(t, server)

	store = connect(t, natstest.Start(t, embedded.NATSConfig{DataDir: dir}).URL())
	made, err = store.Bootstrap(t.Context(), store.tokenStore, wanted, false)
	if err != nil || made.First {
		t.Errorf("the next start: %+v: %v", made, err)
	}
	if after := contents(t, store, wanted); after != before {
		t.Errorf("changed from %s to %s", before, after)
	}
	other := wantedAll()
	other.Project = "later"
	if _, err := store.Bootstrap(t.Context(), store.tokenStore, other, false); err != nil {
		t.Error(err)
	}
	if _, err := store.Project(t.Context(), "later"); !errors.Is(err, project.ErrNotFound) {
		t.Errorf("a store in use followed other settings: %v", err)
	}
}

// contents checks that everything wanted exists once, and returns the IDs.
func contents(t *testing.T, store stores, wanted config.Bootstrap) string {
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
	cache := token.NewCache(store.tokenStore, nil, slog.New(slog.DiscardHandler))
	identity, err := cache.Authenticate(ctx, wanted.Token.Reveal())
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

func TestBootstrapByFourProcessesAtOnceCreatesOneOfEach(t *testing.T) {
	t.Parallel()
	server := natstest.Start(t, embedded.NATSConfig{DataDir: t.TempDir()})
	wanted := wantedAll()
	var first atomic.Int32
	var processes sync.WaitGroup
	for range 4 {
		store := connect(t, server.URL())
		processes.Go(func() {
			made, err := store.Bootstrap(t.Context(), store.tokenStore, wanted, false)
			if err != nil {
				t.Error(err)
			}
			if made.First {
				first.Add(1)
			}
			if _, err := store.APIKey(t.Context(), wanted.APIKey.Reveal()); err != nil {
				t.Errorf("a process continued before everything was created: %v", err)
			}
		})
	}
	processes.Wait()
	if first.Load() != 1 {
		t.Errorf("%d processes were first", first.Load())
	}
	contents(t, connect(t, server.URL()), wanted)
}

func TestBootstrapOfADemoReturnsWhatItCreated(t *testing.T) {
	t.Parallel()
	server := natstest.Start(t, embedded.NATSConfig{DataDir: t.TempDir()})
	both := []stores{connect(t, server.URL()), connect(t, server.URL())}
	results := make([]Created, len(both))
	var processes sync.WaitGroup
	for i, store := range both {
		processes.Go(func() {
			var err error
			if results[i], err = store.Bootstrap(t.Context(), store.tokenStore, config.Bootstrap{}, true); err != nil {
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
	contents(t, both[0], config.Bootstrap{AdminEmail: made.AdminEmail, AdminPassword: made.AdminPassword, APIKey: made.APIKey, Project: made.Project, Token: made.Token})
}

func TestInterruptedBootstrapIsFinishedByTheNextStart(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	wanted := wantedAll()
	// A process claimed the bootstrap, created an admin and a project, and died.
	if claim, err := store.claimBootstrap(t.Context()); err != nil || claim == 0 {
		t.Fatal(err)
	}
	if isNew, err := store.neverWritten(t.Context()); err != nil || !isNew {
		t.Errorf("the claim of another process counts as contents: %v", err)
	}
	if _, err := store.CreateFirstAdmin(t.Context(), wanted.AdminEmail, secret.New("nobody saw this")); err != nil {
		t.Fatal(err)
	}
	if _, err := store.CreateProject(t.Context(), wanted.Project); err != nil {
		t.Fatal(err)
	}
	made, err := store.Bootstrap(t.Context(), store.tokenStore, wanted, false)
	if err != nil || !made.First {
		t.Fatalf("%+v: %v", made, err)
	}
	contents(t, store, wanted)
}

func TestBootstrapDoesNotChangeAStoreInUse(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	if _, err := store.CreateFirstAdmin(t.Context(), "ann@example.org", secret.New("correct horse")); err != nil {
		t.Fatal(err)
	}
	made, err := store.Bootstrap(t.Context(), store.tokenStore, config.Bootstrap{}, true)
	if err != nil || made != (Created{}) {
		t.Errorf("%+v: %v", made, err)
	}
}

func TestBootstrapWithoutSettingsCreatesNothing(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	if made, err := store.Bootstrap(t.Context(), store.tokenStore, config.Bootstrap{}, false); err != nil || made.First {
		t.Errorf("%+v: %v", made, err)
	}
	if made, err := store.Bootstrap(t.Context(), store.tokenStore, wantedAll(), false); err != nil || !made.First {
		t.Errorf("a later start that names something: %+v: %v", made, err)
	}
}

func TestBootstrapNamesTheSettingThatIsWrong(t *testing.T) {
	t.Parallel()
	for setting, spoil := range map[string]func(*config.Bootstrap){
		settingEmail:    func(w *config.Bootstrap) { w.AdminEmail = "nobody" },
		settingPassword: func(w *config.Bootstrap) { w.AdminPassword = secret.New("short") },
		settingAPIKey:   func(w *config.Bootstrap) { w.APIKey = secret.New("short-canary") },
		settingProject:  func(w *config.Bootstrap) { w.Project = "No" },
		settingToken:    func(w *config.Bootstrap) { w.Token = secret.New("lgb_canary") },
	} {
		wanted := wantedAll()
		spoil(&wanted)
		err := ValidateBootstrap(wanted)
		if err == nil || !strings.HasPrefix(err.Error(), setting+":") || strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: %v", setting, err)
		}
	}
	for setting, wanted := range map[string]config.Bootstrap{
		settingPassword: {AdminEmail: "ann@example.org"},
		settingEmail:    {AdminPassword: secret.New("correct horse")},
		settingProject:  {Token: token.New()},
	} {
		if err := ValidateBootstrap(wanted); err == nil || !strings.HasPrefix(err.Error(), setting+":") {
			t.Errorf("%s missing: %v", setting, err)
		}
	}
}
