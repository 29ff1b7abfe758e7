package project

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// Swept is what Sweep cleared away.
type Swept struct {
	Tokens int
	Alerts int // of projects
	Uses   int // of projects: when their tokens were last used
}

// Sweep clears away what a deletion that was cut short left of projects that
// are gone. All of it opens nothing; it only takes room. It may run beside
// anything else, for a project that is gone never comes back under its ID.
func (s *Store) Sweep(ctx context.Context) (swept Swept, err error) {
	alive, err := s.living(ctx)
	if err != nil {
		return swept, err
	}
	if _, swept.Alerts, err = s.sweepKeys(ctx, s.alerts, alertKeys+"*", keyOwner, alive); err != nil {
		return swept, err
	}
	if _, swept.Uses, err = s.sweepKeys(ctx, s.uses, useKeys+"*", keyOwner, alive); err != nil {
		return swept, err
	}
	lists, err := s.projects.owners(ctx, ownKeys+"*.*", listOwner)
	if err != nil {
		return swept, err
	}
	tokens, gone, err := s.sweepKeys(ctx, s.projects, tokenKeys+"*", tokenOwner, alive)
	swept.Tokens = gone
	if err != nil {
		return swept, err
	}
	return swept, s.sweepLists(ctx, lists, tokens, alive)
}

// sweepKeys removes the keys under the filter whose project is gone. It tells
// which there were before, and how many went.
func (s *Store) sweepKeys(ctx context.Context, b *bucket, filter string, owner func(jetstream.KeyValueEntry) (string, error), alive map[string]bool) (found map[string]owned, went int, err error) {
	if found, err = b.owners(ctx, filter, owner); err != nil {
		return nil, 0, err
	}
	for key, entry := range found {
		gone, err := s.sweepOne(ctx, b, key, entry, alive)
		if err != nil {
			return found, went, err
		}
		if gone {
			went++
		}
	}
	return found, went, nil
}

// owned is what is known of a key: whose it is, at which revision it was, and
// since when.
type owned struct {
	projectID string
	revision  uint64
	made      time.Time
}

// owners lists the keys under the filter with the projects they belong to.
func (b *bucket) owners(ctx context.Context, filter string, owner func(jetstream.KeyValueEntry) (string, error)) (map[string]owned, error) {
	found := map[string]owned{}
	err := b.scan(ctx, filter, func(entry jetstream.KeyValueEntry) error {
		projectID, err := owner(entry)
		if err != nil {
			return fmt.Errorf("read %s: %w", entry.Key(), err)
		}
		found[entry.Key()] = owned{projectID, entry.Revision(), entry.Created()}
		return nil
	})
	return found, err
}

func tokenOwner(entry jetstream.KeyValueEntry) (string, error) {
	var t Token
	err := json.Unmarshal(entry.Value(), &t)
	return t.ProjectID, err
}

// keyOwner reads the owner off a key such as "used.<ID>".
func keyOwner(entry jetstream.KeyValueEntry) (string, error) {
	_, id, _ := strings.Cut(entry.Key(), ".")
	return keyID(id), nil
}

// listOwner reads the owner off a key of a project's list of tokens; nobody is
// that of one that was written by hand.
func listOwner(entry jetstream.KeyValueEntry) (string, error) {
	projectID, _, _ := parseOwnKey(entry.Key())
	return projectID, nil
}

// living is the IDs of the projects that are there, to spare a question for
// each.
func (s *Store) living(ctx context.Context) (map[string]bool, error) {
	alive := map[string]bool{}
	err := s.projects.scan(ctx, projectKeys+"*", func(entry jetstream.KeyValueEntry) error {
		var p Project
		if err := json.Unmarshal(entry.Value(), &p); err != nil {
			return fmt.Errorf("read %s: %w", entry.Key(), err)
		}
		alive[p.ID] = true
		return nil
	})
	return alive, err
}

// sweepOne removes the key if its project is gone. One that was changed
// meanwhile stays, to be looked at the next time.
func (s *Store) sweepOne(ctx context.Context, b *bucket, key string, entry owned, alive map[string]bool) (gone bool, err error) {
	lives, err := s.lives(ctx, entry.projectID, alive)
	if err != nil {
		return false, err
	}
	if lives {
		return false, nil
	}
	err = b.remove(ctx, key, entry.revision)
	if errors.Is(err, errSwapped) {
		return false, nil
	}
	return err == nil, err
}

// lives is isAlive for many, which it remembers in alive.
func (s *Store) lives(ctx context.Context, projectID string, alive map[string]bool) (bool, error) {
	lives, known := alive[projectID]
	if known {
		return lives, nil
	}
	lives, err := s.isAlive(ctx, projectID)
	if err == nil {
		alive[projectID] = lives
	}
	return lives, err
}

// isAlive tells whether the project with the ID is there.
func (s *Store) isAlive(ctx context.Context, projectID string) (bool, error) {
	end := max(strings.LastIndexByte(projectID, '~'), 0)
	p, _, err := s.project(ctx, projectID[:end])
	if errors.Is(err, ErrNotFound) {
		return false, nil
	}
	return err == nil && p.ID == projectID, err
}
