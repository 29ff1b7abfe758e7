package project

import (
	"cmp"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
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
}

type keyDocument struct {
	APIKey
	Hash string `json:"hash"` // the Digest in hexadecimal
}

const keyKeys = "key."

// CreateAPIKey makes an API key. The secret is its value, which nobody can ask
// for again.
func (s *Store) CreateAPIKey(ctx context.Context, name string, role Role) (APIKey, Secret, error) {
	value := newSecret(keyPrefix)
	k, err := s.AddAPIKey(ctx, name, role, value)
	if err != nil {
		return APIKey{}, Secret{}, err
	}
	return k, value, nil
}

// AddAPIKey takes an API key whose value the caller brings: any 32 characters
// or more without spaces. Adding it again changes nothing.
func (s *Store) AddAPIKey(ctx context.Context, name string, role Role, value Secret) (APIKey, error) {
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
	k := keyDocument{APIKey{d.ID().String(), name, role, last4(value.Reveal()), now()}, hex.EncodeToString(d[:])}
	_, err = s.users.create(ctx, keyKeys+k.ID, k)
	if errors.Is(err, errExists) {
		return s.APIKey(ctx, value.Reveal())
	}
	if err != nil {
		return APIKey{}, err
	}
	return k.APIKey, nil
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
