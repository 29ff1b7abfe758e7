package token

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/logboom/logboom/pkg/kv"
	"github.com/logboom/logboom/pkg/project"
)

// Use says that a token was used.
type Use struct {
	ProjectID string
	TokenID   string
	At        time.Time
}

// usesDocument stores when a project's tokens were last used. It is in a bucket
// of its own, which nothing watches. It may be lost: only people read it, before
// they delete a token.
type usesDocument struct {
	Tokens map[string]int64 `json:"tokens"` // seconds of Unix time, by token ID
}

const useKeys = "used."

func usesKey(projectID string) string { return useKeys + project.IDToKey(projectID) }

// RecordUses stores when tokens were last used. A time before the stored one
// changes nothing.
func (s *Store) RecordUses(ctx context.Context, uses []Use) error {
	byProject := map[string]map[string]int64{}
	for _, use := range uses {
		tokens := byProject[use.ProjectID]
		if tokens == nil {
			tokens = map[string]int64{}
			byProject[use.ProjectID] = tokens
		}
		tokens[use.TokenID] = max(tokens[use.TokenID], use.At.Unix())
	}
	for projectID, tokens := range byProject {
		err := kv.Retry("last use of tokens of project "+projectID, func() error {
			var document usesDocument
			revision, err := s.uses.Load(ctx, usesKey(projectID), &document)
			if err != nil && !errors.Is(err, kv.ErrNotFound) {
				return err
			}
			if !document.merge(tokens, s.maxTokens) {
				return nil
			}
			_, err = s.uses.Swap(ctx, usesKey(projectID), document, revision)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// merge adds the times that are later than the stored ones and reports whether
// there were any. If there are more tokens than a project can have, it drops
// those that were not used for the longest time: they were deleted.
func (d *usesDocument) merge(tokens map[string]int64, limit int) (changed bool) {
	if d.Tokens == nil {
		d.Tokens = map[string]int64{}
	}
	for id, at := range tokens {
		if at > d.Tokens[id] {
			d.Tokens[id] = at
			changed = true
		}
	}
	if excess := len(d.Tokens) - limit; excess > 0 {
		ids := slices.SortedFunc(maps.Keys(d.Tokens), func(a, b string) int {
			return int(d.Tokens[a] - d.Tokens[b])
		})
		for _, id := range ids[:excess] {
			delete(d.Tokens, id)
		}
	}
	return changed
}

// fillLastUsed fills in when the project's tokens were last used.
func (s *Store) fillLastUsed(ctx context.Context, projectID string, tokens []Token) error {
	var document usesDocument
	_, err := s.uses.Load(ctx, usesKey(projectID), &document)
	if err != nil && !errors.Is(err, kv.ErrNotFound) {
		return err
	}
	for i := range tokens {
		if at, ok := document.Tokens[tokens[i].ID]; ok {
			tokens[i].LastUsed = time.Unix(at, 0).UTC()
		}
	}
	return nil
}

// How often uses are stored. Each write costs the queue a sync, so every process
// writes a token's use at most once in ten minutes. The pause between two rounds
// lets people see the first use of a new token soon.
const (
	useEvery       = 10 * time.Minute
	usePause       = 5 * time.Second
	useTimeout     = 20 * time.Second // of one round (measured: 0.6 s for 1,000 projects)
	lastUseTimeout = 2 * time.Second  // of the round at the end of the process

	maxPendingUses = 50_000
)

// useRecorder stores the uses of tokens in the background, so that no request
// waits. A use for which there is no room is dropped: the next request with the
// token reports it again.
type useRecorder struct {
	store   func(ctx context.Context, uses []Use) error // Store.RecordUses
	health  health
	dropped atomic.Uint64

	mu      sync.Mutex
	pending map[string]Use       // to be stored, by token ID
	stored  map[string]time.Time // the uses that were stored within useEvery, by token ID
}

func newUseRecorder(store func(context.Context, []Use) error, h health) *useRecorder {
	return &useRecorder{store: store, health: h, pending: map[string]Use{}, stored: map[string]time.Time{}}
}

// record has a use stored by run, unless one of the same token was stored within
// useEvery: a token that is cached again is reported again. It returns false if
// there is no room.
func (r *useRecorder) record(use Use) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if use.At.Sub(r.stored[use.TokenID]) < useEvery {
		return true
	}
	if _, known := r.pending[use.TokenID]; !known && len(r.pending) >= maxPendingUses {
		r.dropped.Add(1)
		return false
	}
	r.pending[use.TokenID] = use
	return true
}

// run stores the pending uses every usePause until ctx ends, and then once more.
func (r *useRecorder) run(ctx context.Context) error {
	tick := time.NewTicker(usePause)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			r.flush(ctx, useTimeout)
		case <-ctx.Done():
			r.flush(context.WithoutCancel(ctx), lastUseTimeout)
			return nil
		}
	}
}

// flush stores the pending uses. If it fails, all of them stay pending; storing
// a use twice does no harm.
func (r *useRecorder) flush(ctx context.Context, timeout time.Duration) {
	uses := r.due(time.Now())
	if len(uses) == 0 {
		return
	}
	bounded, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	err := r.store(bounded, uses)
	if ctx.Err() != nil && err != nil {
		return // interrupted by the end of run, which flushes once more
	}
	r.health.record(err)
	if err != nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, use := range uses {
		r.stored[use.TokenID] = use.At
		if r.pending[use.TokenID] == use {
			delete(r.pending, use.TokenID)
		}
	}
}

// due returns the pending uses and forgets what was stored before useEvery.
func (r *useRecorder) due(now time.Time) []Use {
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.stored, func(_ string, at time.Time) bool { return now.Sub(at) >= useEvery })
	return slices.Collect(maps.Values(r.pending))
}
