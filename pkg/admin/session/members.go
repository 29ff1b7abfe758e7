package session

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/logboom/logboom/pkg/project"
)

// maxProjects bounds what one person is limited to, as for API keys.
const maxProjects = 100

// Members say which projects people are limited to, by the projects' IDs: a
// project that is made again under its old name has new members.
type Members struct {
	kv jetstream.KeyValue
}

// membership is one person's projects as they are kept.
type membership struct {
	Email     string    `json:"email"`
	UserSince time.Time `json:"user_since"`
	Projects  []string  `json:"projects"`
}

func openMembers(ctx context.Context, js jetstream.JetStream, replicas int) (*Members, error) {
	kv, err := openBucket(ctx, js, membersBucket, 0, replicas)
	if err != nil {
		return nil, err
	}
	return &Members{kv}, nil
}

// Of is which projects the user is limited to; none where nothing was said.
func (m *Members) Of(ctx context.Context, user project.User) ([]string, error) {
	entry, err := m.kv.Get(ctx, memberKey(user.Email))
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, unavailable("read a membership", err)
	}
	var found membership
	if err := json.Unmarshal(entry.Value(), &found); err != nil {
		return nil, fmt.Errorf("read a membership: %w", err)
	}
	if !found.UserSince.Equal(user.Created) {
		return nil, nil // of an earlier user of this address
	}
	return found.Projects, nil
}

// Limit limits the user to the projects with the IDs.
func (m *Members) Limit(ctx context.Context, user project.User, projects []string) error {
	if len(projects) > maxProjects {
		return &project.InvalidError{Field: "projects", Reason: fmt.Sprintf("must be at most %d", maxProjects)}
	}
	content, err := json.Marshal(membership{user.Email, user.Created, projects})
	if err != nil {
		return fmt.Errorf("membership: %w", err)
	}
	if _, err := m.kv.Put(ctx, memberKey(user.Email), content); err != nil {
		return unavailable("change a membership", err)
	}
	return nil
}

// Forget forgets the projects of a user who was deleted.
func (m *Members) Forget(ctx context.Context, email string) error {
	if err := m.kv.Purge(ctx, memberKey(email)); err != nil {
		return unavailable("forget a membership", err)
	}
	return nil
}

// memberKey hides the address in a digest, since a key has no room for its
// characters.
func memberKey(email string) string { return "member." + digest(email) }
