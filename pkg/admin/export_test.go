package admin

import (
	"context"
	"time"

	"github.com/logboom/logboom/pkg/project"
)

// What the tests of this package use beside its API.
const (
	EraseAgain   = eraseAgain
	CleanupPause = cleanupPause
	SweepPause   = sweepPause
)

// CleanUp does a round of the cleanup as at the time given.
func (s *Service) CleanUp(ctx context.Context, now time.Time) error { return s.cleanup.round(ctx, now) }

// Advance does what one deletion needs at the time given.
func (s *Service) Advance(ctx context.Context, d Deletion, now time.Time) error {
	return s.cleanup.advance(ctx, d, now)
}

// SetSweep replaces the sweep of the store.
func (s *Service) SetSweep(sweep func(context.Context) (Swept, error)) {
	s.cleanup.sweep = sweep
}

// RestoreCounters checks the quota counters once, as at the time given.
func (s *Service) RestoreCounters(ctx context.Context, now time.Time) error {
	s.counters.now = func() time.Time { return now }
	return s.counters.round(ctx)
}

// SettingsChanged counts a project's usage against new quotas, as at the time
// given.
func (s *Service) SettingsChanged(ctx context.Context, p project.Project, now time.Time) {
	s.counters.now = func() time.Time { return now }
	s.counters.settingsChanged(ctx, p)
}
