package project

import (
	"cmp"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// APIKey is what is known of an API key once its value was shown.
type APIKey struct {
	ID      string    `json:"id"` // 32 hexadecimal digits
	Name    string    `json:"name"`
	Role    Role      `json:"role"`
	Last4   string    `json:"last4"`
	Created time.Time `json:"created"`

	// Projects are the IDs of the projects that the key is limited to; empty:
	// it is good for all. Being IDs, they say nothing of a later project that
	// has the name of one that was deleted.
	Projects []string `json:"projects,omitempty"`
}

// May tells whether the key may read from the project, or with write change it
// and what belongs to it: an admin's both, a member's only the former, and
// either only in the projects that the key is limited to.
func (k *APIKey) May(p Project, write bool) bool {
	if p.ID == "" || len(k.Projects) > 0 && !slices.Contains(k.Projects, p.ID) {
		return false
	}
	return k.Role == RoleAdmin || k.Role == RoleMember && !write
}

// MayManage tells whether the key may do what concerns no single project: make
// projects, users and API keys, and see what belongs to none.
func (k *APIKey) MayManage() bool {
	return k.Role == RoleAdmin && len(k.Projects) == 0
}

type keyDocument struct {
	APIKey
	Hash string `json:"hash"` // the Digest in hexadecimal
}

const keyKeys = "key."

// maxKeyProjects bounds what one API key is limited to.
const maxKeyProjects = 100

// CreateAPIKey makes an API key, limited to the projects of the names if there
// are any. The secret is its value, which nobody can ask for again. ErrFull
// where there are 1000 keys.
func (s *Store) CreateAPIKey(ctx context.Context, name string, role Role, projects ...string) (APIKey, Secret, error) {
	value := newSecret(keyPrefix)
	k, err := s.AddAPIKey(ctx, name, role, value, projects...)
	if err != nil {
		return APIKey{}, Secret{}, err
	}
	return k, value, nil
}

// AddAPIKey takes an API key whose value the caller brings: any 32 characters
// or more without spaces. Adding it again changes nothing.
func (s *Store) AddAPIKey(ctx context.Context, name string, role Role, value Secret, projects ...string) (APIKey, error) {
	d, err := digestKey(value.Reveal())
	if err != nil {
		return APIKey{}, err
	}
	if err := checkLabel(name); err != nil {
		return APIKey{}, err
	}
	if err := role.check(); err != nil {
		return APIKey{}, err
	}
	ids, err := s.projectIDs(ctx, projects)
	if err != nil {
		return APIKey{}, err
	}
	k := keyDocument{APIKey{d.ID().String(), name, role, last4(value.Reveal()), now(), ids}, hex.EncodeToString(d[:])}
	revision, err := s.users.create(ctx, keyKeys+k.ID, k)
	if errors.Is(err, errExists) {
		return s.APIKey(ctx, value.Reveal())
	}
	if err != nil {
		return APIKey{}, err
	}
	return s.keepAPIKey(ctx, k.APIKey, revision)
}

// projectIDs finds the projects that a key is to be limited to.
func (s *Store) projectIDs(ctx context.Context, names []string) ([]string, error) {
	if len(names) > maxKeyProjects {
		return nil, &InvalidError{"projects", "must be at most 100"}
	}
	var ids []string
	for _, name := range names {
		p, err := s.Project(ctx, name)
		if errors.Is(err, ErrNotFound) {
			return nil, &InvalidError{"projects", "must all be names of projects"}
		}
		if err != nil {
			return nil, err
		}
		ids = append(ids, p.ID)
	}
	return ids, nil
}

// keepAPIKey gives a key back that was just made, unless there are too many or
// nobody can count them: then it goes again.
func (s *Store) keepAPIKey(ctx context.Context, k APIKey, revision uint64) (APIKey, error) {
	older, err := s.users.before(ctx, keyKeys+"*", revision)
	if err == nil && older >= s.maxKeys {
		err = fmt.Errorf("there are %d API keys: %w", older, ErrFull)
	}
	if err == nil {
		return k, nil
	}
	return APIKey{}, errors.Join(err, s.users.remove(ctx, keyKeys+k.ID, revision))
}

// APIKey finds out whose key it is; ErrUnknownKey where it is nobody's, and
// also where it could be none.
func (s *Store) APIKey(ctx context.Context, value string) (APIKey, error) {
	d, err := digestKey(value)
	if err != nil {
		return APIKey{}, ErrUnknownKey
	}
	var k keyDocument
	_, err = s.users.read(ctx, keyKeys+d.ID().String(), &k)
	if err != nil && !errors.Is(err, ErrNotFound) {
		return APIKey{}, err
	}
	if !sameDigest(k.Hash, d) {
		return APIKey{}, ErrUnknownKey
	}
	return k.APIKey, nil
}

// APIKeys lists the API keys, the oldest first.
func (s *Store) APIKeys(ctx context.Context) ([]APIKey, error) {
	found := map[string]APIKey{}
	err := s.users.scan(ctx, keyKeys+"*", func(entry jetstream.KeyValueEntry) error {
		var k APIKey
		if err := json.Unmarshal(entry.Value(), &k); err != nil {
			return fmt.Errorf("read %s: %w", entry.Key(), err)
		}
		found[k.ID] = k
		return nil
	})
	if err != nil {
		return nil, err
	}
	return sorted(found, func(a, b APIKey) int {
		return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.ID, b.ID))
	}), nil
}

// DeleteAPIKey revokes an API key by its ID; ErrNotFound where there is none.
func (s *Store) DeleteAPIKey(ctx context.Context, id string) error {
	parsed, err := ParseTokenID(id)
	if err != nil {
		return fmt.Errorf("API key: %w", err)
	}
	var k keyDocument
	revision, err := s.users.read(ctx, keyKeys+parsed.String(), &k)
	if err != nil {
		return fmt.Errorf("API key %s: %w", id, err)
	}
	return s.users.remove(ctx, keyKeys+k.ID, revision)
}
