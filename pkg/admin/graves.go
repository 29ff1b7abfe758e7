package admin

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/logboom/logboom/pkg/project"
)

// Grave is a project that was to be deleted and whose rows may still be there.
type Grave struct {
	ProjectID string    `json:"project_id"`
	Buried    time.Time `json:"buried"`
	Revision  uint64    `json:"-"` // of the record, so that Done forgets nothing newer
}

// Graves remembers, as durably as projects, whose rows are to be erased. A
// grave is dug before its project is deleted, so that no crash leaves rows that
// nobody erases; until then it means nothing. Burying again begins anew. Done
// leaves alone what was buried again since.
type Graves interface {
	Bury(ctx context.Context, projectID string) error
	Pending(ctx context.Context) ([]Grave, error)
	Done(ctx context.Context, grave Grave) error
}

// gravesBucket and gravesBytes are the key-value bucket and its bound; a grave
// takes some 200 bytes and goes after an hour.
const (
	gravesBucket = "GRAVES"
	gravesBytes  = 16 << 20
)

// graveBucket is Graves in a JetStream key-value bucket.
type graveBucket struct {
	kv jetstream.KeyValue
}

// OpenGraves keeps graves in a bucket of the queue's cluster. It makes the bucket where it is missing; any number of processes may
// do so at once.
func OpenGraves(ctx context.Context, js jetstream.JetStream, replicas int) (Graves, error) {
	kv, err := js.CreateKeyValue(ctx, jetstream.KeyValueConfig{
		Bucket: gravesBucket, Storage: jetstream.FileStorage, Replicas: max(1, replicas), MaxBytes: gravesBytes,
	})
	if errors.Is(err, jetstream.ErrBucketExists) {
		kv, err = js.KeyValue(ctx, gravesBucket)
	}
	if err != nil {
		return nil, fmt.Errorf("bucket %s: %w: %w", gravesBucket, project.ErrUnavailable, err)
	}
	return &graveBucket{kv}, nil
}

// graveKey is a digest, since an ID has characters that a key may not have.
func graveKey(projectID string) string {
	sum := sha256.Sum256([]byte(projectID))
	return hex.EncodeToString(sum[:16])
}

// Bury implements Graves.
func (g *graveBucket) Bury(ctx context.Context, projectID string) error {
	document, err := json.Marshal(Grave{ProjectID: projectID, Buried: time.Now().UTC()})
	if err != nil {
		return err
	}
	if _, err := g.kv.Put(ctx, graveKey(projectID), document); err != nil {
		return fmt.Errorf("bury %s: %w: %w", projectID, project.ErrUnavailable, err)
	}
	return nil
}

// Pending implements Graves.
func (g *graveBucket) Pending(ctx context.Context) ([]Grave, error) {
	var pending []Grave
	keys, err := g.kv.Keys(ctx)
	if err != nil && !errors.Is(err, jetstream.ErrNoKeysFound) {
		return nil, fmt.Errorf("list graves: %w: %w", project.ErrUnavailable, err)
	}
	for _, key := range keys {
		entry, err := g.kv.Get(ctx, key)
		if errors.Is(err, jetstream.ErrKeyNotFound) {
			continue // another process is done with it
		}
		if err != nil {
			return nil, fmt.Errorf("read grave: %w: %w", project.ErrUnavailable, err)
		}
		grave := Grave{Revision: entry.Revision()}
		if err := json.Unmarshal(entry.Value(), &grave); err != nil {
			return nil, fmt.Errorf("read grave %s: %w", key, err)
		}
		pending = append(pending, grave)
	}
	return pending, nil
}

// Done implements Graves.
func (g *graveBucket) Done(ctx context.Context, grave Grave) error {
	err := g.kv.Purge(ctx, graveKey(grave.ProjectID), jetstream.LastRevision(grave.Revision))
	if err != nil && !errors.Is(err, jetstream.ErrKeyRevisionMismatch) {
		return fmt.Errorf("forget grave of %s: %w: %w", grave.ProjectID, project.ErrUnavailable, err)
	}
	return nil
}
