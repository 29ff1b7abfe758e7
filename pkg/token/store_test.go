package token

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/logboom/logboom/pkg/embedded"
	"github.com/logboom/logboom/pkg/embedded/natstest"
	"github.com/logboom/logboom/pkg/kv"
	"github.com/logboom/logboom/pkg/project"
	"github.com/logboom/logboom/pkg/redis/redistest"
	"github.com/logboom/logboom/pkg/secret"
)

func TestChangedSettingsReachEveryProcess(t *testing.T) {
	t.Parallel()
	server := natstest.Start(t, embedded.NATSConfig{DataDir: t.TempDir()})
	admin := connect(t, server.URL())
	_, value := newToken(t, admin, "demo")
	shared := openShared(t, redistest.Start(t).URL())
	defaults := project.Quotas{Rate: 100, DailyRecords: 200, MonthlyBytes: 300}
	var caches []*Cache
	for range 3 {
		caches = append(caches, newCache(t, connectWith(t, server.URL(), project.Config{Defaults: defaults}), shared))
		follow(t, caches[len(caches)-1])
	}
	for _, cache := range caches {
		if identity := known(t, cache, value); identity.Quotas != defaults || identity.OnQuota != project.OnQuotaDrop {
			t.Fatalf("%+v", identity)
		}
	}
	for _, change := range []func(*project.Settings){
		func(s *project.Settings) { s.Rate, s.DailyRecords = new(int64(5)), new(int64(0)) },
		func(s *project.Settings) { s.OnQuota, s.StderrAs, s.RetentionDays = project.OnQuotaRefuse, "warn", 3 },
		func(s *project.Settings) { s.Rate = nil },
	} {
		p, err := admin.ChangeSettings(t.Context(), "demo", change)
		if err != nil {
			t.Fatal(err)
		}
		for _, cache := range caches {
			eventually(t, func() bool {
				got := known(t, cache, value)
				return got.Quotas == p.Settings.Quotas(defaults) && got.OnQuota == p.Settings.OnQuota &&
					got.StderrAs == p.Settings.StderrAs && got.RetentionDays == p.Settings.RetentionDays
			})
		}
	}
}

func TestChangedDefaultsCountAtOnceDespiteASharedCache(t *testing.T) {
	t.Parallel()
	server := natstest.Start(t, embedded.NATSConfig{DataDir: t.TempDir()})
	_, value := newToken(t, connect(t, server.URL()), "demo")
	slow := connectWith(t, server.URL(), project.Config{Defaults: project.Quotas{Rate: 10}})
	fast := connectWith(t, server.URL(), project.Config{Defaults: project.Quotas{Rate: 20}})
	var second *Cache
	eventually(t, func() bool {
		shared := NewMemoryShared()
		first := newCache(t, slow, shared)
		second = newCache(t, fast, shared)
		follow(t, first)
		follow(t, second)
		firstCalm, secondCalm := undisturbed(first), undisturbed(second)
		for i, cache := range []*Cache{first, second} {
			if rate := known(t, cache, value).Quotas.Rate; rate != int64(10*(i+1)) {
				t.Errorf("process %d goes by the default %d", i, rate)
			}
		}
		return firstCalm() && secondCalm()
	})
	if s := second.Stats(); s.SharedHits != 1 {
		t.Errorf("the shared cache was not asked: %+v", s)
	}
}

func TestTokensOfAProjectAreBounded(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	store.maxTokens = 5
	newToken(t, store, "other")
	if _, err := store.CreateProject(t.Context(), "demo"); err != nil {
		t.Fatal(err)
	}
	errs := make(chan error, 20) // one for each caller
	for range cap(errs) {
		go func() {
			_, _, err := store.CreateToken(t.Context(), "demo", "x")
			errs <- err
		}()
	}
	for range cap(errs) {
		if err := <-errs; err != nil && !errors.Is(err, project.ErrFull) && !errors.Is(err, project.ErrUnavailable) {
			t.Error(err)
		}
	}
	list, err := store.Tokens(t.Context(), "demo")
	if err != nil || len(list) == 0 || len(list) > 5 {
		t.Fatalf("%d tokens: %v", len(list), err)
	}
	for range 5 - len(list) {
		if _, _, err := store.CreateToken(t.Context(), "demo", "x"); err != nil {
			t.Error(err)
		}
	}
	if _, _, err := store.CreateToken(t.Context(), "demo", "x"); !errors.Is(err, project.ErrFull) || !strings.Contains(err.Error(), "demo") {
		t.Errorf("one too many: %v", err)
	}
	if err := store.DeleteToken(t.Context(), "demo", list[0].ID); err != nil {
		t.Fatal(err)
	}
	if _, _, err := store.CreateToken(t.Context(), "demo", "x"); err != nil {
		t.Errorf("after one was deleted: %v", err)
	}
}

func TestSharedEntryKeepsTheSettingsAsTheyWereWritten(t *testing.T) {
	t.Parallel()
	entry := sharedEntry{7, grant{"a~1", "a", "t", "n", project.Settings{RetentionDays: 3, Rate: new(int64(0)), OnQuota: project.OnQuotaRefuse, StderrAs: "warn"}}}
	document, err := json.Marshal(entry)
	if err != nil {
		t.Fatal(err)
	}
	var got sharedEntry
	if err := json.Unmarshal(document, &got); err != nil || !reflect.DeepEqual(got, entry) {
		t.Errorf("%+v: %v", got, err)
	}
}

func mustDigest(t testing.TB, token string) secret.Digest {
	t.Helper()
	d, err := Parse(token)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestTokenIsKnownUntilItIsDeleted(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	token, value := newToken(t, store, "my.shop")
	p, err := store.Project(t.Context(), "my.shop")
	if err != nil {
		t.Fatal(err)
	}
	identity, err := store.identify(t.Context(), mustDigest(t, value))
	want := Identity{ProjectID: p.ID, ProjectName: "my.shop", TokenID: token.ID, TokenName: "shop", RetentionDays: 30, OnQuota: project.OnQuotaDrop}
	if err != nil || identity != want {
		t.Errorf("%+v, want %+v: %v", identity, want, err)
	}
	if token.Last4 != value[len(value)-4:] {
		t.Errorf("last four %q of %q", token.Last4, value)
	}
	if _, err := store.CreateProject(t.Context(), "other"); err != nil {
		t.Fatal(err)
	}
	for _, wrong := range [][2]string{{"other", token.ID}, {"missing", token.ID}, {"my.shop", "x"}, {"my.shop", strings.Repeat("0", 32)}} {
		if err := store.DeleteToken(t.Context(), wrong[0], wrong[1]); !errors.Is(err, project.ErrNotFound) {
			t.Errorf("delete %q: %v", wrong, err)
		}
	}
	if err := store.DeleteToken(t.Context(), "my.shop", token.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := store.identify(t.Context(), mustDigest(t, value)); !errors.Is(err, ErrUnknown) {
		t.Errorf("a deleted token: %v", err)
	}
}

func TestTokensAreListedByProjectAndAge(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	for _, project := range []string{"a", "b"} {
		if _, err := store.CreateProject(t.Context(), project); err != nil {
			t.Fatal(err)
		}
		for i := range 5 {
			if _, _, err := store.CreateToken(t.Context(), project, fmt.Sprintf("%s%d", project, i)); err != nil {
				t.Fatal(err)
			}
		}
	}
	list, err := store.Tokens(t.Context(), "b")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, token := range list {
		names = append(names, token.Name)
	}
	if want := []string{"b0", "b1", "b2", "b3", "b4"}; !slices.Equal(names, want) {
		t.Errorf("%q, want %q", names, want)
	}
	if _, err := store.Tokens(t.Context(), "missing"); !errors.Is(err, project.ErrNotFound) {
		t.Errorf("tokens of no project: %v", err)
	}
}

func TestAddedTokenBelongsToOneProject(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	for _, project := range []string{"a", "b"} {
		if _, err := store.CreateProject(t.Context(), project); err != nil {
			t.Fatal(err)
		}
	}
	value := New()
	first, err := store.AddToken(t.Context(), "a", "mine", value)
	if err != nil {
		t.Fatal(err)
	}
	again, err := store.AddToken(t.Context(), "a", "other name", value)
	if err != nil || again != first {
		t.Errorf("added again: %+v: %v", again, err)
	}
	if _, err := store.AddToken(t.Context(), "b", "mine", value); !errors.Is(err, ErrTaken) {
		t.Errorf("added to another project: %v", err)
	}
	for name, attempt := range map[string]func() error{
		"malformed": func() error {
			_, err := store.AddToken(t.Context(), "a", "x", secret.New("lgb_x"))
			if !errors.Is(err, ErrMalformed) {
				return err
			}
			return nil
		},
		"no name": func() error {
			_, err := store.AddToken(t.Context(), "a", "", New())
			if invalid := (*project.InvalidError)(nil); !errors.As(err, &invalid) {
				return fmt.Errorf("a token without a name: %w", err)
			}
			return nil
		},
		"no project": func() error {
			_, _, err := store.CreateToken(t.Context(), "missing", "x")
			if !errors.Is(err, project.ErrNotFound) {
				return err
			}
			return nil
		},
	} {
		if err := attempt(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestTokenOfADeletedProjectMayBeAddedToAnother(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	token, value := newToken(t, store, "old")
	// The process dies before it deletes the tokens.
	if _, err := store.projectStore.DeleteProject(t.Context(), "old"); err != nil {
		t.Fatal(err)
	}
	if _, err := store.CreateProject(t.Context(), "new"); err != nil {
		t.Fatal(err)
	}
	if _, err := store.AddToken(t.Context(), "new", "taken over", secret.New(value)); err != nil {
		t.Fatal(err)
	}
	identity, err := store.identify(t.Context(), mustDigest(t, value))
	if err != nil || identity.ProjectName != "new" || identity.TokenID != token.ID {
		t.Errorf("%+v: %v", identity, err)
	}
}

func TestTokenOfAProjectDeletedAtTheSameTimeIsDeleted(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	token, value := newToken(t, store, "demo")
	document := document{Token: token}
	document.ProjectID = "demo~00000000" // what was there before
	id := mustDigest(t, value).ID()
	revision, err := store.bucket.Load(t.Context(), tokenKey(id), &Token{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.bucket.Update(t.Context(), tokenKey(id), document, revision); err != nil {
		t.Fatal(err)
	}
	if _, err := store.confirm(t.Context(), document, id); !errors.Is(err, project.ErrNotFound) {
		t.Errorf("kept: %v", err)
	}
	if _, err := store.bucket.Load(t.Context(), tokenKey(id), &Token{}); !errors.Is(err, project.ErrNotFound) {
		t.Errorf("the document stayed behind: %v", err)
	}
}

func TestTokenIsValidAfterARestart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	server := natstest.Start(t, embedded.NATSConfig{DataDir: dir})
	_, value := newToken(t, connect(t, server.URL()), "demo")
	natstest.Stop(t, server)

	store := connect(t, natstest.Start(t, embedded.NATSConfig{DataDir: dir}).URL())
	if _, err := store.identify(t.Context(), mustDigest(t, value)); err != nil {
		t.Errorf("after a restart: %v", err)
	}
}

func TestStoreThatDoesNotAnswerIsUnavailable(t *testing.T) {
	t.Parallel()
	server := natstest.Start(t, embedded.NATSConfig{DataDir: t.TempDir()})
	store := connect(t, server.URL())
	_, value := newToken(t, store, "demo")
	natstest.Stop(t, server)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := store.identify(ctx, mustDigest(t, value)); !errors.Is(err, project.ErrUnavailable) {
		t.Errorf("identify: %v", err)
	}
	if _, err := store.CreateProject(ctx, "other"); !errors.Is(err, project.ErrUnavailable) {
		t.Errorf("create: %v", err)
	}
	if _, err := store.Projects(ctx, "", 0); !errors.Is(err, project.ErrUnavailable) {
		t.Errorf("list: %v", err)
	}
}

func TestSweepRemovesWhatDeletedProjectsLeft(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	for _, name := range []string{"dead.project", "alive"} {
		token, _ := newToken(t, store, name)
		if err := store.RecordUses(t.Context(), []Use{{token.ProjectID, token.ID, time.Now()}}); err != nil {
			t.Fatal(err)
		}
	}
	// The process dies before it deletes the tokens, and another project is
	// created under the name.
	if _, err := store.projectStore.DeleteProject(t.Context(), "dead.project"); err != nil {
		t.Fatal(err)
	}
	newToken(t, store, "dead.project")
	for _, want := range []Swept{{1, 1}, {}} {
		if swept, err := store.Sweep(t.Context()); err != nil || swept != want {
			t.Errorf("%+v, want %+v: %v", swept, want, err)
		}
	}
	for _, name := range []string{"dead.project", "alive"} {
		if tokens, err := store.Tokens(t.Context(), name); err != nil || len(tokens) != 1 {
			t.Errorf("%s: %d tokens: %v", name, len(tokens), err)
		}
	}
}

func TestTokensOfADeletedProjectLeaveNothingBehind(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	token, value := newToken(t, store, "my.shop")
	if err := store.RecordUses(t.Context(), []Use{{token.ProjectID, token.ID, time.Now()}}); err != nil {
		t.Fatal(err)
	}
	if _, err := store.DeleteProject(t.Context(), "my.shop"); err != nil {
		t.Fatal(err)
	}
	for name, b := range map[string]*kv.Bucket{"projects": store.bucket, "uses": store.uses} {
		if entries, err := b.List(t.Context()); err != nil || len(entries) != 0 {
			t.Errorf("%s: %v: %v", name, entries, err)
		}
	}
	if _, err := store.CreateProject(t.Context(), "my.shop"); err != nil {
		t.Fatal(err)
	}
	if _, err := store.identify(t.Context(), mustDigest(t, value)); !errors.Is(err, ErrUnknown) {
		t.Errorf("a token of the project that had the name before: %v", err)
	}
	if tokens, err := store.Tokens(t.Context(), "my.shop"); err != nil || len(tokens) != 0 {
		t.Errorf("tokens %v: %v", tokens, err)
	}
}

func TestUsesDoNotWakeTheWatchersOfTokens(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	token, _ := newToken(t, store, "demo")
	before, err := store.bucket.Revision(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := store.RecordUses(t.Context(), []Use{{token.ProjectID, token.ID, time.Now()}}); err != nil {
		t.Fatal(err)
	}
	if after, err := store.bucket.Revision(t.Context()); err != nil || after != before {
		t.Errorf("revision %d, before %d: %v", after, before, err)
	}
}
