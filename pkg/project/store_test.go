package project

import (
	"errors"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/logboom/logboom/pkg/embedded"
	"github.com/logboom/logboom/pkg/embedded/natstest"
	"github.com/logboom/logboom/pkg/kv"
	"github.com/logboom/logboom/pkg/secret"
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

func TestProjectIsCreatedByExactlyOneOfManyCallers(t *testing.T) {
	t.Parallel()
	server := natstest.Start(t, embedded.NATSConfig{DataDir: t.TempDir()})
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
		t.Errorf("%d callers created it", made.Load())
	}
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

func TestOpenRefusesABucketInMemoryAndInvalidSettings(t *testing.T) {
	t.Parallel()
	js := patientStream(t, natstest.Start(t, embedded.NATSConfig{DataDir: t.TempDir()}).URL())
	if _, err := js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: "PROJECTS", Storage: jetstream.MemoryStorage}); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), js, Config{}); err == nil || !strings.Contains(err.Error(), "PROJECTS") {
		t.Errorf("opened: %v", err)
	}
	for _, config := range []Config{
		{Replicas: 6}, {Defaults: Quotas{Rate: -1}}, {Key: secret.New("short")},
		{OldKeys: []secret.Value{{}}},
	} {
		var invalid *InvalidError
		if _, err := Open(t.Context(), js, config); !errors.As(err, &invalid) {
			t.Errorf("%+v: %v", config, err)
		}
	}
}

func TestProjectCreatedAgainIsAnother(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	if _, err := store.CreateProject(t.Context(), "demo"); err != nil {
		t.Fatal(err)
	}
	old, err := store.DeleteProject(t.Context(), "demo")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.DeleteProject(t.Context(), "demo"); !errors.Is(err, ErrNotFound) {
		t.Errorf("deleted twice: %v", err)
	}
	fresh, err := store.CreateProject(t.Context(), "demo")
	if err != nil {
		t.Fatal(err)
	}
	if fresh.ID == old.ID {
		t.Error("the new project has the old one's ID")
	}
	for id, want := range map[string]bool{old.ID: false, fresh.ID: true, "demo": false, "": false} {
		if exists, err := store.Exists(t.Context(), id); err != nil || exists != want {
			t.Errorf("%q exists: %v: %v", id, exists, err)
		}
	}
}

func TestDeletedProjectLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	store := sealingStore(t)
	p, err := store.CreateProject(t.Context(), "my.shop")
	if err != nil {
		t.Fatal(err)
	}
	if err := setAlerts(t, store, "my.shop", Alerts{WebhookURL: secret.New(webhook)}); err != nil {
		t.Fatal(err)
	}
	if _, err := store.DeleteProject(t.Context(), "my.shop"); err != nil {
		t.Fatal(err)
	}
	for name, b := range map[string]*kv.Bucket{"projects": store.projects, "alerts": store.alerts} {
		if entries, err := b.List(t.Context()); err != nil || len(entries) != 0 {
			t.Errorf("%s: %v: %v", name, entries, err)
		}
	}
	if _, err := store.AlertsByID(t.Context(), p.ID); !errors.Is(err, ErrNotFound) {
		t.Errorf("alerts by ID: %v", err)
	}
}

func TestSweepRemovesTheAlertsOfDeletedProjects(t *testing.T) {
	t.Parallel()
	store := sealingStore(t)
	for _, name := range []string{"dead.project", "alive"} {
		if _, err := store.CreateProject(t.Context(), name); err != nil {
			t.Fatal(err)
		}
		if err := setAlerts(t, store, name, Alerts{WebhookURL: secret.New(webhook)}); err != nil {
			t.Fatal(err)
		}
	}
	// The process dies before it deletes the alerts, and another project is
	// created under the name.
	if err := store.projects.Delete(t.Context(), nameKey("dead.project"), 0); err != nil {
		t.Fatal(err)
	}
	if _, err := store.CreateProject(t.Context(), "dead.project"); err != nil {
		t.Fatal(err)
	}
	for _, want := range []int{1, 0} {
		if swept, err := store.SweepAlerts(t.Context()); err != nil || swept != want {
			t.Errorf("%d, want %d: %v", swept, want, err)
		}
	}
	for name, host := range map[string]string{"dead.project": "", "alive": "hooks.example.org"} {
		a, err := store.Alerts(t.Context(), name)
		if err != nil || a.Redacted().Host != host {
			t.Errorf("%s: %+v: %v", name, a.Redacted(), err)
		}
	}
}
