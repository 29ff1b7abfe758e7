package main

import (
	"bytes"
	"os"
	"testing"
)

func TestDashboardFilesMatchTheSource(t *testing.T) {
	t.Parallel()
	for _, b := range boards() {
		want, err := b.render()
		if err != nil {
			t.Fatal(err)
		}
		if have, err := os.ReadFile(b.file()); err != nil || !bytes.Equal(have, want) {
			t.Errorf("%s differs from the output of panels.go (%v): run make dashboards", b.file(), err)
		}
	}
}

func TestEachPanelHasADescriptionAUnitAndAQuery(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, b := range boards() {
		if seen[b.uid] {
			t.Errorf("two dashboards have the uid %s", b.uid)
		}
		seen[b.uid] = true
		for _, r := range b.rows {
			for _, p := range r.panels {
				if p.about == "" || p.unit == "" || len(p.queries) == 0 {
					t.Errorf("%s: panel %s has no description, no unit or no query", b.uid, p.title)
				}
			}
		}
	}
}
