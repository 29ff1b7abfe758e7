package project

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// A token is looked up by its ID alone, and so is its key. Which tokens a
// project has, a key beside each of them says, own.<project ID>.<token ID>,
// without a value: what is done with one project's tokens then costs the same
// whatever others have.
//
// It is made before the token and removed after it. So a token that counts is
// always listed, and can be found to be revoked; a key without a token, which a
// process leaves behind that dies in between, is passed over, and Sweep takes
// it away.
const ownKeys = "own."

// listing is the value of such a key.
type listing struct{}

func ownKey(projectID string, id TokenID) string {
	return ownKeys + idKey(projectID) + "." + id.String()
}

// ownFilter is all that belong to the project.
func ownFilter(projectID string) string { return ownKeys + idKey(projectID) + ".*" }

// parseOwnKey is the inverse of ownKey; false for what was written by hand.
func parseOwnKey(key string) (projectID string, id TokenID, ok bool) {
	owner, text, ok := strings.Cut(strings.TrimPrefix(key, ownKeys), ".")
	if !ok {
		return "", TokenID{}, false
	}
	id, err := ParseTokenID(text)
	return keyID(owner), id, err == nil
}

// list puts the token on its project's list, and tells the revision of that; 0
// where it was there before. ErrFull where the project has too many: of callers
// at the same time each counts those who came before.
func (s *Store) list(ctx context.Context, projectID string, id TokenID) (fresh uint64, err error) {
	revision, err := s.projects.create(ctx, ownKey(projectID, id), listing{})
	if errors.Is(err, errExists) {
		return 0, nil // it was counted then
	}
	if err != nil {
		return 0, err
	}
	older, err := s.projects.before(ctx, ownFilter(projectID), revision)
	if err == nil && older >= s.maxTokens {
		err = fmt.Errorf("it has %d tokens: %w", older, ErrFull)
	}
	if err != nil {
		return 0, errors.Join(err, s.projects.remove(ctx, ownKey(projectID, id), revision))
	}
	return revision, nil
}

// unlist takes a token off its project's list that is not there any more. Its
// errors are of no interest: what stays opens nothing, and Sweep finds it.
func (s *Store) unlist(ctx context.Context, projectID string, id TokenID) {
	_ = s.projects.clear(ctx, ownKey(projectID, id))
}

// listed is the IDs of the project's tokens, and of some that are gone.
func (s *Store) listed(ctx context.Context, projectID string) (map[TokenID]bool, error) {
	found := map[TokenID]bool{}
	err := s.projects.scan(ctx, ownFilter(projectID), func(entry jetstream.KeyValueEntry) error {
		if _, id, ok := parseOwnKey(entry.Key()); ok {
			found[id] = true
		}
		return nil
	})
	return found, err
}

// ghostAge is how old a listing without a token must be to be taken away: a
// token that is just being made is listed first.
const ghostAge = time.Hour

// sweepLists takes away what is listed and is not there, and lists what is
// there and is not listed. The tokens are those that there were after the lists
// were read.
func (s *Store) sweepLists(ctx context.Context, lists, tokens map[string]owned, alive map[string]bool) error {
	for key, entry := range lists {
		ghost, err := s.isGhost(ctx, key, entry, tokens, alive)
		if ghost {
			err = s.projects.remove(ctx, key, entry.revision)
		}
		if err != nil && !errors.Is(err, errSwapped) {
			return err
		}
	}
	for key, token := range tokens {
		id, err := ParseTokenID(strings.TrimPrefix(key, tokenKeys))
		if _, there := lists[ownKey(token.projectID, id)]; err != nil || there || !alive[token.projectID] {
			continue
		}
		_, err = s.projects.create(ctx, ownKey(token.projectID, id), listing{})
		if err != nil && !errors.Is(err, errExists) {
			return err
		}
	}
	return nil
}

// isGhost tells whether nothing is behind a listing.
func (s *Store) isGhost(ctx context.Context, key string, entry owned, tokens map[string]owned, alive map[string]bool) (bool, error) {
	lives, err := s.lives(ctx, entry.projectID, alive)
	if err != nil || !lives {
		return err == nil, err
	}
	_, id, _ := parseOwnKey(key)
	return tokens[tokenKey(id)].projectID != entry.projectID && time.Since(entry.made) >= ghostAge, nil
}
