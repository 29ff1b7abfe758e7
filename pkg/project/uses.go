package project

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"
)

// Use says that a token was used.
type Use struct {
	ProjectID string
	TokenID   string
	At        time.Time
}

// usesDocument is when a project's tokens were last used. It is kept apart from
// the tokens, in a bucket that nobody watches, and may be lost: people look at
// it before they delete a token, and nothing else does.
type usesDocument struct {
	Tokens map[string]int64 `json:"tokens"` // seconds of Unix time, by token ID
}

const useKeys = "used."

// RecordUses keeps when tokens were last used; a time before the one that is
// kept changes nothing.
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
		if err := s.recordUses(ctx, projectID, tokens); err != nil {
			return fmt.Errorf("last use of tokens of project %s: %w", projectID, err)
		}
	}
	return nil
}

func (s *Store) recordUses(ctx context.Context, projectID string, tokens map[string]int64) error {
	key := useKeys + idKey(projectID)
	for range changeAttempts {
		var document usesDocument
		revision, err := s.uses.read(ctx, key, &document)
		if err != nil && !errors.Is(err, ErrNotFound) {
			return err
		}
		if !document.merge(tokens, s.maxTokens) {
			return nil
		}
		err = s.uses.put(ctx, key, document, revision)
		if !errors.Is(err, errSwapped) {
			return err
		}
	}
	return fmt.Errorf("%w: others change it without pause", ErrUnavailable)
}

// merge takes over the later times and tells whether there were any. Of more
// tokens than a project can have, those unused for longest go: they are deleted
// ones.
func (d *usesDocument) merge(tokens map[string]int64, most int) (changed bool) {
	if d.Tokens == nil {
		d.Tokens = map[string]int64{}
	}
	for id, at := range tokens {
		if at > d.Tokens[id] {
			d.Tokens[id] = at
			changed = true
		}
	}
	if excess := len(d.Tokens) - most; excess > 0 {
		ids := slices.SortedFunc(maps.Keys(d.Tokens), func(a, b string) int {
			return int(d.Tokens[a] - d.Tokens[b])
		})
		for _, id := range ids[:excess] {
			delete(d.Tokens, id)
		}
	}
	return changed
}

// markUsed fills in when the project's tokens were last used.
func (s *Store) markUsed(ctx context.Context, projectID string, tokens []Token) error {
	var document usesDocument
	_, err := s.uses.read(ctx, useKeys+idKey(projectID), &document)
	if err != nil && !errors.Is(err, ErrNotFound) {
		return err
	}
	for i := range tokens {
		if at, ok := document.Tokens[tokens[i].ID]; ok {
			tokens[i].LastUsed = time.Unix(at, 0).UTC()
		}
	}
	return nil
}
