package project

import (
	"encoding/json"
	"errors"
	"testing"
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

// A document from the time when there was one setting.
const oldDocument = `{"id":"old~00000000","name":"old","created":"2026-01-01T00:00:00Z","changed":"2026-01-01T00:00:00Z","settings":{"retention_days":7}}`

func TestMissingSettingHasItsDefault(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	if _, err := store.projects.Create(t.Context(), nameKey("old"), json.RawMessage(oldDocument)); err != nil {
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

func TestSettingsShowForEachQuotaWhetherItIsTheDefault(t *testing.T) {
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
