package project

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/logboom/logboom/pkg/project/redistest"
)

func TestSettingsAreRefusedByName(t *testing.T) {
	t.Parallel()
	for field, change := range map[string]func(*Settings){
		"retention_days": func(s *Settings) { s.RetentionDays = 3651 },
		"rate":           func(s *Settings) { s.Rate = new(int64(-1)) },
		"daily_records":  func(s *Settings) { s.DailyRecords = new(int64(-1)) },
		"monthly_bytes":  func(s *Settings) { s.MonthlyBytes = new(int64(1 << 53)) },
		"on_quota":       func(s *Settings) { s.OnQuota = "block" },
		"stderr_as":      func(s *Settings) { s.StderrAs = "3" },
	} {
		s := Settings{RetentionDays: 30}
		change(&s)
		var invalid *InvalidError
		if err := s.Validate(); !errors.As(err, &invalid) || invalid.Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
	s := Settings{RetentionDays: 30, Rate: new(int64(0)), OnQuota: "", StderrAs: "ERROR"}
	if err := s.Validate(); err != nil || s.OnQuota != OnQuotaDrop || s.StderrAs != "error" {
		t.Errorf("%+v: %v", s, err)
	}
}

// A document as it was before there were any settings but one.
const oldDocument = `{"id":"old~00000000","name":"old","created":"2026-01-01T00:00:00Z","changed":"2026-01-01T00:00:00Z","settings":{"retention_days":7}}`

func TestDocumentFromBeforeASettingReadsAsItsDefault(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	if _, err := store.projects.kv.Create(t.Context(), projectKey("old"), []byte(oldDocument)); err != nil {
		t.Fatal(err)
	}
	want := Settings{RetentionDays: 7, OnQuota: OnQuotaDrop}
	p, err := store.Project(t.Context(), "old")
	if err != nil || p.Settings != want {
		t.Errorf("%+v: %v", p.Settings, err)
	}
	list, err := store.Projects(t.Context(), "", 0)
	if err != nil || len(list) != 1 || list[0].Settings != want {
		t.Errorf("%+v: %v", list, err)
	}
	if made, err := store.CreateProject(t.Context(), "new"); err != nil || made.Settings.OnQuota != OnQuotaDrop {
		t.Errorf("%+v: %v", made, err)
	}
}

func TestSettingsSayOfEveryQuotaWhetherItIsTheDefault(t *testing.T) {
	t.Parallel()
	document, err := json.Marshal(Settings{RetentionDays: 30, DailyRecords: new(int64(0)), OnQuota: OnQuotaDrop})
	want := `{"retention_days":30,"rate":null,"daily_records":0,"monthly_bytes":null,"on_quota":"drop","stderr_as":""}`
	if err != nil || string(document) != want {
		t.Errorf("%s: %v", document, err)
	}
	s := Settings{DailyRecords: new(int64(0)), MonthlyBytes: new(int64(7))}
	if got, want := s.Quotas(Quotas{1, 2, 3}), (Quotas{1, 0, 7}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

func TestChangedSettingsReachEveryProcess(t *testing.T) {
	t.Parallel()
	server := startNATS(t, t.TempDir())
	admin := connect(t, server.URL())
	_, value := newToken(t, admin, "demo")
	shared := openShared(t, redistest.Start(t).URL())
	defaults := Quotas{Rate: 100, DailyRecords: 200, MonthlyBytes: 300}
	var caches []*Cache
	for range 3 {
		caches = append(caches, newCache(t, connectWith(t, server.URL(), StoreConfig{Defaults: defaults}), shared))
		follow(t, caches[len(caches)-1])
	}
	for _, cache := range caches {
		if identity := known(t, cache, value); identity.Quotas != defaults || identity.OnQuota != OnQuotaDrop {
			t.Fatalf("%+v", identity)
		}
	}
	for _, change := range []func(*Settings){
		func(s *Settings) { s.Rate, s.DailyRecords = new(int64(5)), new(int64(0)) },
		func(s *Settings) { s.OnQuota, s.StderrAs, s.RetentionDays = OnQuotaRefuse, "warn", 3 },
		func(s *Settings) { s.Rate = nil },
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

func TestChangedDefaultsCountAtOnceInSpiteOfASharedCache(t *testing.T) {
	t.Parallel()
	server := startNATS(t, t.TempDir())
	_, value := newToken(t, connect(t, server.URL()), "demo")
	slow := connectWith(t, server.URL(), StoreConfig{Defaults: Quotas{Rate: 10}})
	fast := connectWith(t, server.URL(), StoreConfig{Defaults: Quotas{Rate: 20}})
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
		if err := <-errs; err != nil && !errors.Is(err, ErrFull) && !errors.Is(err, ErrUnavailable) {
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
	if _, _, err := store.CreateToken(t.Context(), "demo", "x"); !errors.Is(err, ErrFull) || !strings.Contains(err.Error(), "demo") {
		t.Errorf("one too many: %v", err)
	}
	if err := store.DeleteToken(t.Context(), "demo", list[0].ID); err != nil {
		t.Fatal(err)
	}
	if _, _, err := store.CreateToken(t.Context(), "demo", "x"); err != nil {
		t.Errorf("after one was deleted: %v", err)
	}
}

func TestSweepRemovesWhatDeadProjectsLeft(t *testing.T) {
	t.Parallel()
	store := sealingStore(t)
	for _, name := range []string{"dead.project", "alive"} {
		token, _ := newToken(t, store, name)
		if err := store.SetAlerts(t.Context(), name, Alerts{WebhookURL: NewSecret(webhook)}); err != nil {
			t.Fatal(err)
		}
		if err := store.RecordUses(t.Context(), []Use{{token.ProjectID, token.ID, now()}}); err != nil {
			t.Fatal(err)
		}
	}
	// The project alone goes, as when its deletion is cut short, and another
	// takes its name.
	_, revision, err := store.project(t.Context(), "dead.project")
	if err != nil {
		t.Fatal(err)
	}
	if err := store.projects.remove(t.Context(), projectKey("dead.project"), revision); err != nil {
		t.Fatal(err)
	}
	newToken(t, store, "dead.project")
	for _, want := range []Swept{{1, 1, 1}, {}} {
		if swept, err := store.Sweep(t.Context()); err != nil || swept != want {
			t.Errorf("%+v, want %+v: %v", swept, want, err)
		}
	}
	for name, host := range map[string]string{"dead.project": "", "alive": "hooks.example.org"} {
		if tokens, err := store.Tokens(t.Context(), name); err != nil || len(tokens) != 1 {
			t.Errorf("%s: %d tokens: %v", name, len(tokens), err)
		}
		a, err := store.Alerts(t.Context(), name)
		if err != nil || a.Redacted().Host != host {
			t.Errorf("%s: %+v: %v", name, a.Redacted(), err)
		}
	}
}

func TestDeletedProjectLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	store := sealingStore(t)
	token, _ := newToken(t, store, "my.shop")
	if err := store.SetAlerts(t.Context(), "my.shop", Alerts{WebhookURL: NewSecret(webhook)}); err != nil {
		t.Fatal(err)
	}
	if err := store.RecordUses(t.Context(), []Use{{token.ProjectID, token.ID, now()}}); err != nil {
		t.Fatal(err)
	}
	if _, err := store.DeleteProject(t.Context(), "my.shop"); err != nil {
		t.Fatal(err)
	}
	for name, b := range map[string]*bucket{"projects": store.projects, "alerts": store.alerts, "uses": store.uses} {
		keys := map[string]bool{}
		err := b.scan(t.Context(), ">", func(entry jetstream.KeyValueEntry) error {
			keys[entry.Key()] = true
			return nil
		})
		if err != nil || len(keys) != 0 {
			t.Errorf("%s: %v: %v", name, keys, err)
		}
	}
	if _, err := store.AlertsByID(t.Context(), token.ProjectID); !errors.Is(err, ErrNotFound) {
		t.Errorf("alerts by ID: %v", err)
	}
}

func TestSharedEntryKeepsTheSettingsAsTheyWereWritten(t *testing.T) {
	t.Parallel()
	entry := sharedEntry{7, holding{"a~1", "a", "t", "n", Settings{RetentionDays: 3, Rate: new(int64(0)), OnQuota: OnQuotaRefuse, StderrAs: "warn"}}}
	document, err := json.Marshal(entry)
	if err != nil {
		t.Fatal(err)
	}
	var got sharedEntry
	if err := json.Unmarshal(document, &got); err != nil || !reflect.DeepEqual(got, entry) {
		t.Errorf("%+v: %v", got, err)
	}
}
