package project

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

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
	alive := map[string]bool{} // by project ID
	for _, part := range []struct {
		bucket *bucket
		filter string
		owner  func(jetstream.KeyValueEntry) (string, error)
		count  *int
	}{
		{s.projects, tokenKeys + "*", tokenOwner, &swept.Tokens},
		{s.alerts, alertKeys + "*", keyOwner, &swept.Alerts},
		{s.uses, useKeys + "*", keyOwner, &swept.Uses},
	} {
		found, err := part.bucket.owners(ctx, part.filter, part.owner)
		if err != nil {
			return swept, err
		}
		for key, entry := range found {
			gone, err := s.sweepOne(ctx, part.bucket, key, entry, alive)
			if err != nil {
				return swept, err
			}
			if gone {
				*part.count++
			}
		}
	}
	return swept, nil
}

// owned is what is known of a key: whose it is, and at which revision it was.
type owned struct {
	projectID string
	revision  uint64
}

// owners lists the keys under the filter with the projects they belong to.
func (b *bucket) owners(ctx context.Context, filter string, owner func(jetstream.KeyValueEntry) (string, error)) (map[string]owned, error) {
	found := map[string]owned{}
	err := b.scan(ctx, filter, func(entry jetstream.KeyValueEntry) error {
		projectID, err := owner(entry)
		if err != nil {
			return fmt.Errorf("read %s: %w", entry.Key(), err)
		}
		found[entry.Key()] = owned{projectID, entry.Revision()}
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

// sweepOne removes the key if its project is gone. One that was changed
// meanwhile stays, to be looked at the next time.
func (s *Store) sweepOne(ctx context.Context, b *bucket, key string, entry owned, alive map[string]bool) (gone bool, err error) {
	lives, known := alive[entry.projectID]
	if !known {
		if lives, err = s.isAlive(ctx, entry.projectID); err != nil {
			return false, err
		}
		alive[entry.projectID] = lives
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

// isAlive tells whether the project with the ID is there.
func (s *Store) isAlive(ctx context.Context, projectID string) (bool, error) {
	end := max(strings.LastIndexByte(projectID, '~'), 0)
	p, _, err := s.project(ctx, projectID[:end])
	if errors.Is(err, ErrNotFound) {
		return false, nil
	}
	return err == nil && p.ID == projectID, err
}
