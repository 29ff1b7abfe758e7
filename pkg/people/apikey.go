package people

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/logboom/logboom/pkg/kv"
	"github.com/logboom/logboom/pkg/project"
	"github.com/logboom/logboom/pkg/secret"
)

// APIKey is what remains known about an API key after its value was shown.
type APIKey struct {
	ID      string    `json:"id"` // 32 hexadecimal digits
	Name    string    `json:"name"`
	Role    Role      `json:"role"`
	Last4   string    `json:"last4"`
	Created time.Time `json:"created"`

	// Projects are the IDs of the projects that the key is limited to. If there
	// are none, the key is valid for all projects.
	Projects []string `json:"projects,omitempty"`
}

type keyDocument struct {
	APIKey
	Hash string `json:"hash"` // the digest in hexadecimal
}

const (
	apiKeyPrefix = "lgk_" // of the keys that Logboom generates
	apiKeyKeys   = "key."

	maxKeyProjects = 100 // that one key can be limited to

	// The bounds of a key that an operator chose.
	minKeyChars = 32
	maxKeyBytes = 512
)

// digestAPIKey checks the form of an API key and returns its digest. Any 32
// characters or more are accepted, because an operator may choose the key.
func digestAPIKey(value string) (secret.Digest, error) {
	if len(value) > maxKeyBytes || len([]rune(value)) < minKeyChars {
		return secret.Digest{}, fmt.Errorf("%w: an API key has %d characters or more and at most %d bytes", secret.ErrMalformed, minKeyChars, maxKeyBytes)
	}
	for _, c := range []byte(value) {
		if c <= ' ' || c == 0x7f {
			return secret.Digest{}, fmt.Errorf("%w: an API key has no spaces or control characters", secret.ErrMalformed)
		}
	}
	return sha256.Sum256([]byte(value)), nil
}

// CreateAPIKey creates an API key, limited to the projects with the names if
// there are any, and returns its value, which cannot be shown again.
// project.ErrFull means that there are 1000 keys.
func (s *Store) CreateAPIKey(ctx context.Context, name string, role Role, projects ...string) (APIKey, secret.Value, error) {
	value := secret.Generate(apiKeyPrefix)
	k, err := s.AddAPIKey(ctx, name, role, value, projects...)
	if err != nil {
		return APIKey{}, secret.Value{}, err
	}
	return k, value, nil
}

// AddAPIKey adds an API key whose value the caller chose: any 32 characters or
// more without spaces. Adding a key that exists changes nothing.
func (s *Store) AddAPIKey(ctx context.Context, name string, role Role, value secret.Value, projects ...string) (APIKey, error) {
	digest, err := digestAPIKey(value.Reveal())
	if err != nil {
		return APIKey{}, err
	}
	if err := project.CheckLabel(name); err != nil {
		return APIKey{}, err
	}
	if err := role.check(); err != nil {
		return APIKey{}, err
	}
	ids, err := s.projectIDs(ctx, projects)
	if err != nil {
		return APIKey{}, err
	}
	k := keyDocument{APIKey{digest.ID().String(), name, role, secret.Last4(value.Reveal()), time.Now().UTC(), ids}, digest.String()}
	revision, err := s.users.Create(ctx, apiKeyKeys+k.ID, k)
	if errors.Is(err, kv.ErrExists) {
		return s.APIKey(ctx, value.Reveal())
	}
	if err != nil {
		return APIKey{}, err
	}
	return s.confirmAPIKey(ctx, k.APIKey, revision)
}

// projectIDs returns the IDs of the projects with the names.
func (s *Store) projectIDs(ctx context.Context, names []string) ([]string, error) {
	if len(names) > maxKeyProjects {
		return nil, &project.InvalidError{Field: "projects", Reason: "must be at most 100"}
	}
	var ids []string
	for _, name := range names {
		p, err := s.projects.Project(ctx, name)
		if errors.Is(err, project.ErrNotFound) {
			return nil, &project.InvalidError{Field: "projects", Reason: "must all be names of projects"}
		}
		if err != nil {
			return nil, err
		}
		ids = append(ids, p.ID)
	}
	return ids, nil
}

// confirmAPIKey returns the key that was just created, unless there are too many
// keys or they cannot be counted: then confirmAPIKey deletes it.
func (s *Store) confirmAPIKey(ctx context.Context, k APIKey, revision uint64) (APIKey, error) {
	entries, err := s.users.List(ctx, apiKeyKeys+"*")
	older := 0
	for _, entry := range entries {
		if entry.Revision < revision {
			older++
		}
	}
	if err == nil && older >= s.maxKeys {
		err = fmt.Errorf("there are %d API keys: %w", older, project.ErrFull)
	}
	if err == nil {
		return k, nil
	}
	return APIKey{}, errors.Join(err, s.users.Delete(ctx, apiKeyKeys+k.ID, revision))
}

// APIKey returns what is known about a key. ErrUnknownKey means that there is no
// such key, or that the value cannot be one.
func (s *Store) APIKey(ctx context.Context, value string) (APIKey, error) {
	digest, err := digestAPIKey(value)
	if err != nil {
		return APIKey{}, ErrUnknownKey
	}
	var k keyDocument
	_, err = s.users.Load(ctx, apiKeyKeys+digest.ID().String(), &k)
	if err != nil && !errors.Is(err, kv.ErrNotFound) {
		return APIKey{}, err
	}
	if !digest.Matches(k.Hash) { // also compares if there is no key, with an empty hash
		return APIKey{}, ErrUnknownKey
	}
	return k.APIKey, nil
}

// APIKeys lists the API keys, the oldest first.
func (s *Store) APIKeys(ctx context.Context) ([]APIKey, error) {
	entries, err := s.users.List(ctx, apiKeyKeys+"*")
	if err != nil {
		return nil, err
	}
	list := make([]APIKey, len(entries))
	for i, entry := range entries {
		if err := entry.Decode(&list[i]); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(list, func(a, b APIKey) int {
		return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.ID, b.ID))
	})
	return list, nil
}

// DeleteAPIKey revokes the API key with the ID, or returns project.ErrNotFound.
func (s *Store) DeleteAPIKey(ctx context.Context, id string) error {
	parsed, err := secret.ParseID(id)
	if err != nil {
		return fmt.Errorf("API key: %w", project.ErrNotFound) // no key has such an ID
	}
	entry, err := s.users.Get(ctx, apiKeyKeys+parsed.String())
	if errors.Is(err, kv.ErrNotFound) {
		return fmt.Errorf("API key %s: %w", id, project.ErrNotFound)
	}
	if err != nil {
		return err
	}
	return s.users.Delete(ctx, entry.Key, entry.Revision)
}
