package project

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

func TestProjectNamesAreChecked(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"a", "0", "demo", "my.shop", "a..b", "a.", ".hidden", "_x", "x-", strings.Repeat("a", 40)} {
		if err := CheckName(name); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
	for _, name := range []string{"", ".", "..", "-_-", "Demo", "a b", "a/b", "a~b", "a=b", "ä", "a\x00", "*", ">", strings.Repeat("a", 41)} {
		var invalid *InvalidError
		if err := CheckName(name); !errors.As(err, &invalid) || invalid.Field != "name" {
			t.Errorf("%q: %v", name, err)
		}
	}
}

func TestProjectsOfEveryNameAreKeptApart(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	names := []string{".a", "..a", "a.", "a..", "a.b", "a-b", "a_b", "ab", "a...b"}
	for _, name := range names {
		p, err := store.CreateProject(t.Context(), name)
		if err != nil {
			t.Fatalf("%q: %v", name, err)
		}
		if !regexp.MustCompile(`^` + regexp.QuoteMeta(name) + `~[0-9a-hjkmnp-tv-z]{8}$`).MatchString(p.ID) {
			t.Errorf("ID %q", p.ID)
		}
	}
	list, err := store.Projects(t.Context(), "", 0)
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(names)
	if got := namesOf(list); !slices.Equal(got, names) {
		t.Errorf("listed %q, want %q", got, names)
	}
	page, err := store.Projects(t.Context(), names[2], 3)
	if err != nil {
		t.Fatal(err)
	}
	if got := namesOf(page); !slices.Equal(got, names[3:6]) {
		t.Errorf("page %q, want %q", got, names[3:6])
	}
}

func namesOf(list []Project) []string {
	var names []string
	for _, p := range list {
		names = append(names, p.Name)
	}
	return names
}

func TestProjectIsMadeByExactlyOneOfManyCallers(t *testing.T) {
	t.Parallel()
	server := startNATS(t, t.TempDir())
	var made atomic.Int32
	var callers sync.WaitGroup
	for range 4 {
		store := connect(t, server.URL())
		for range 8 {
			callers.Go(func() {
				_, err := store.CreateProject(t.Context(), "demo")
				if err == nil {
					made.Add(1)
				} else if !errors.Is(err, ErrNameTaken) {
					t.Error(err)
				}
			})
		}
	}
	callers.Wait()
	if made.Load() != 1 {
		t.Errorf("%d callers made it", made.Load())
	}
}

func TestProjectMadeAgainIsAnother(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	_, token := newToken(t, store, "demo")
	old, err := store.DeleteProject(t.Context(), "demo")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.DeleteProject(t.Context(), "demo"); !errors.Is(err, ErrNotFound) {
		t.Errorf("deleted twice: %v", err)
	}
	if _, err := store.projects.read(t.Context(), tokenKey(mustDigest(t, token).ID()), &Token{}); !errors.Is(err, ErrNotFound) {
		t.Errorf("the token's document stayed behind: %v", err)
	}
	fresh, err := store.CreateProject(t.Context(), "demo")
	if err != nil {
		t.Fatal(err)
	}
	if fresh.ID == old.ID {
		t.Error("the new project has the old one's ID")
	}
	if _, err := store.Identify(t.Context(), mustDigest(t, token)); !errors.Is(err, ErrUnknownToken) {
		t.Errorf("the old project's token: %v", err)
	}
	if tokens, err := store.Tokens(t.Context(), "demo"); err != nil || len(tokens) != 0 {
		t.Errorf("tokens %v: %v", tokens, err)
	}
}

func mustDigest(t testing.TB, token string) Digest {
	t.Helper()
	d, err := ParseToken(token)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestSettingsChangedAtOnceAreAllApplied(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	if _, err := store.CreateProject(t.Context(), "demo"); err != nil {
		t.Fatal(err)
	}
	var callers sync.WaitGroup
	const many = 8
	for range many {
		callers.Go(func() {
			if _, err := store.ChangeSettings(t.Context(), "demo", func(s *Settings) { s.RetentionDays++ }); err != nil {
				t.Error(err)
			}
		})
	}
	callers.Wait()
	p, err := store.Project(t.Context(), "demo")
	if err != nil || p.Settings.RetentionDays != 30+many {
		t.Errorf("retention %d: %v", p.Settings.RetentionDays, err)
	}
	var invalid *InvalidError
	_, err = store.ChangeSettings(t.Context(), "demo", func(s *Settings) { s.RetentionDays = 0 })
	if !errors.As(err, &invalid) || invalid.Field != "retention_days" {
		t.Errorf("retention of 0 days: %v", err)
	}
}

func TestTokenIsKnownUntilItIsDeleted(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	token, value := newToken(t, store, "my.shop")
	p, err := store.Project(t.Context(), "my.shop")
	if err != nil {
		t.Fatal(err)
	}
	identity, err := store.Identify(t.Context(), mustDigest(t, value))
	want := Identity{ProjectID: p.ID, ProjectName: "my.shop", TokenID: token.ID, TokenName: "shop", RetentionDays: 30, OnQuota: OnQuotaDrop}
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
		if err := store.DeleteToken(t.Context(), wrong[0], wrong[1]); !errors.Is(err, ErrNotFound) {
			t.Errorf("delete %q: %v", wrong, err)
		}
	}
	if err := store.DeleteToken(t.Context(), "my.shop", token.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Identify(t.Context(), mustDigest(t, value)); !errors.Is(err, ErrUnknownToken) {
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
	if _, err := store.Tokens(t.Context(), "missing"); !errors.Is(err, ErrNotFound) {
		t.Errorf("tokens of no project: %v", err)
	}
}

func TestListThatIsGivenUpLeavesNobodyWaiting(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	if _, err := store.CreateProject(t.Context(), "demo"); err != nil {
		t.Fatal(err)
	}
	const many = 300 // more than the client's channel holds
	for range many {
		if _, _, err := store.CreateToken(t.Context(), "demo", "x"); err != nil {
			t.Fatal(err)
		}
	}
	enough := errors.New("enough")
	err := store.projects.scan(t.Context(), tokenKeys+"*", func(jetstream.KeyValueEntry) error { return enough })
	if !errors.Is(err, enough) {
		t.Error(err)
	}
}

func TestTokenBroughtAlongBelongsToOneProject(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	for _, project := range []string{"a", "b"} {
		if _, err := store.CreateProject(t.Context(), project); err != nil {
			t.Fatal(err)
		}
	}
	value := NewToken()
	first, err := store.AddToken(t.Context(), "a", "mine", value)
	if err != nil {
		t.Fatal(err)
	}
	again, err := store.AddToken(t.Context(), "a", "other name", value)
	if err != nil || again != first {
		t.Errorf("added again: %+v: %v", again, err)
	}
	if _, err := store.AddToken(t.Context(), "b", "mine", value); !errors.Is(err, ErrTokenTaken) {
		t.Errorf("added to another project: %v", err)
	}
	for name, attempt := range map[string]func() error{
		"malformed": func() error {
			_, err := store.AddToken(t.Context(), "a", "x", NewSecret("lgb_x"))
			if !errors.Is(err, ErrMalformed) {
				return err
			}
			return nil
		},
		"no name": func() error {
			_, err := store.AddToken(t.Context(), "a", "", NewToken())
			if invalid := (*InvalidError)(nil); !errors.As(err, &invalid) {
				return fmt.Errorf("a token without a name: %w", err)
			}
			return nil
		},
		"no project": func() error {
			_, _, err := store.CreateToken(t.Context(), "missing", "x")
			if !errors.Is(err, ErrNotFound) {
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

func TestTokenOfADeletedProjectMayBeBroughtToAnother(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	token, value := newToken(t, store, "old")
	// The project alone goes, as when its deletion is cut short.
	_, revision, err := store.project(t.Context(), "old")
	if err != nil {
		t.Fatal(err)
	}
	if err := store.projects.remove(t.Context(), projectKey("old"), revision); err != nil {
		t.Fatal(err)
	}
	if _, err := store.CreateProject(t.Context(), "new"); err != nil {
		t.Fatal(err)
	}
	if _, err := store.AddToken(t.Context(), "new", "taken over", NewSecret(value)); err != nil {
		t.Fatal(err)
	}
	identity, err := store.Identify(t.Context(), mustDigest(t, value))
	if err != nil || identity.ProjectName != "new" || identity.TokenID != token.ID {
		t.Errorf("%+v: %v", identity, err)
	}
}

func TestTokenOfAProjectDeletedMeanwhileIsTakenBack(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	token, value := newToken(t, store, "demo")
	document := tokenDocument{Token: token}
	document.ProjectID = "demo~00000000" // what was there before
	id := mustDigest(t, value).ID()
	revision, err := store.projects.read(t.Context(), tokenKey(id), &Token{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.projects.swap(t.Context(), tokenKey(id), document, revision); err != nil {
		t.Fatal(err)
	}
	if _, err := store.keepToken(t.Context(), document, id); !errors.Is(err, ErrNotFound) {
		t.Errorf("kept: %v", err)
	}
	if _, err := store.projects.read(t.Context(), tokenKey(id), &Token{}); !errors.Is(err, ErrNotFound) {
		t.Errorf("the document stayed behind: %v", err)
	}
}

func TestWriteWhoseAnswerWasLostIsSettledByReading(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	// Every answer is lost, though the server did what it was asked.
	lossy := *store.projects
	lossy.kv = lossyKV{store.projects.kv}
	var revision uint64
	settled(t, func() (err error) {
		revision, err = lossy.create(t.Context(), "project.a", Project{Name: "a"})
		return err
	})
	settled(t, func() error {
		_, err := lossy.swap(t.Context(), "project.a", Project{Name: "b"}, revision)
		return err
	})
	if _, err := lossy.create(t.Context(), "project.a", Project{Name: "c"}); !errors.Is(err, ErrUnavailable) {
		t.Errorf("a write that did not happen: %v", err)
	}
}

// settled writes, and writes the same again where the reading took too long.
func settled(t *testing.T, write func() error) {
	t.Helper()
	eventually(t, func() bool {
		err := write()
		if err != nil && !errors.Is(err, ErrUnavailable) {
			t.Fatal(err)
		}
		return err == nil
	})
}

// lossyKV writes and says that it does not know.
type lossyKV struct{ jetstream.KeyValue }

func (l lossyKV) Create(ctx context.Context, key string, value []byte, opts ...jetstream.KVCreateOpt) (uint64, error) {
	_, _ = l.KeyValue.Create(ctx, key, value, opts...)
	return 0, context.DeadlineExceeded
}

func (l lossyKV) Update(ctx context.Context, key string, value []byte, revision uint64) (uint64, error) {
	_, _ = l.KeyValue.Update(ctx, key, value, revision)
	return 0, context.DeadlineExceeded
}

func TestStoreKeepsItsPromisesOverRestarts(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	server := startNATS(t, dir)
	_, value := newToken(t, connect(t, server.URL()), "demo")
	stopNATS(t, server)

	store := connect(t, startNATS(t, dir).URL())
	if _, err := store.Identify(t.Context(), mustDigest(t, value)); err != nil {
		t.Errorf("after a restart: %v", err)
	}
}

func TestOpenRefusesABucketThatWouldBreakPromises(t *testing.T) {
	t.Parallel()
	js := patientStream(t, startNATS(t, t.TempDir()).URL())
	// As the client's own function makes it: with reads from any replica.
	if _, err := js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: "PROJECTS"}); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), js, StoreConfig{}); err == nil || !strings.Contains(err.Error(), "PROJECTS") {
		t.Errorf("opened: %v", err)
	}
	for _, config := range []StoreConfig{
		{Replicas: 6}, {RetentionDays: 5000}, {MaxBytes: 1}, {Defaults: Quotas{Rate: -1}}, {Key: NewSecret("short")},
		{OldKeys: []Secret{{}}},
	} {
		var invalid *InvalidError
		if _, err := Open(t.Context(), js, config); !errors.As(err, &invalid) {
			t.Errorf("%+v: %v", config, err)
		}
	}
}

func TestStoreThatDoesNotAnswerIsUnavailable(t *testing.T) {
	t.Parallel()
	server := startNATS(t, t.TempDir())
	store := connect(t, server.URL())
	_, value := newToken(t, store, "demo")
	stopNATS(t, server)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := store.Identify(ctx, mustDigest(t, value)); !errors.Is(err, ErrUnavailable) {
		t.Errorf("identify: %v", err)
	}
	if _, err := store.CreateProject(ctx, "other"); !errors.Is(err, ErrUnavailable) {
		t.Errorf("create: %v", err)
	}
	if _, err := store.Projects(ctx, "", 0); !errors.Is(err, ErrUnavailable) {
		t.Errorf("list: %v", err)
	}
}

// haltingKV has a first list that stops before its end.
type haltingKV struct {
	jetstream.KeyValue
	lists *atomic.Int32
}

func (h haltingKV) Watch(ctx context.Context, keys string, opts ...jetstream.WatchOpt) (jetstream.KeyWatcher, error) {
	if h.lists.Add(1) == 1 {
		return deafWatch{}, nil
	}
	return h.KeyValue.Watch(ctx, keys, opts...)
}

func TestListThatHaltsIsBegunAnew(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	newToken(t, store, "demo")
	halting := *store.projects
	halting.kv = haltingKV{store.projects.kv, new(atomic.Int32)}
	store.projects = &halting
	if list, err := store.Projects(t.Context(), "", 0); err != nil || len(list) != 1 {
		t.Errorf("%d projects: %v", len(list), err)
	}
}
