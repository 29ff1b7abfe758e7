// Package saved keeps the questions that people saved for themselves: one
// document for each person and project, in a bucket of the queue.
//
// It sits behind the explorer's page. What a newcomer would get wrong: a
// document is written by compare-and-set, because a person may have two tabs.
package saved

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"

	"github.com/logboom/logboom/pkg/project"
)

// Bounds of what is kept.
const (
	bucketName  = "SAVED_VIEWS"
	bucketBytes = 64 << 20
	maxDocument = 128 << 10
	maxViews    = 50 // of a person in a project
	maxState    = 4 << 10
	tries       = 5 // of a write that others keep coming before
)

// View is a question that somebody saved.
type View struct {
	ID    string    `json:"id"`
	Name  string    `json:"name"`
	State string    `json:"state"` // the explorer's, as an address has it
	Saved time.Time `json:"saved"`
}

// Views is the bucket.
type Views struct {
	kv jetstream.KeyValue
}

// Open makes the bucket where it is missing; any number of processes may do so
// at once.
func Open(ctx context.Context, js jetstream.JetStream, replicas int) (*Views, error) {
	kv, err := js.KeyValue(ctx, bucketName)
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		kv, err = js.CreateKeyValue(ctx, jetstream.KeyValueConfig{
			Bucket: bucketName, Description: "questions that people saved", History: 1, MaxBytes: bucketBytes,
			MaxValueSize: maxDocument, Storage: jetstream.FileStorage, Replicas: max(1, replicas),
		})
	}
	if errors.Is(err, jetstream.ErrBucketExists) {
		kv, err = js.KeyValue(ctx, bucketName)
	}
	if err != nil {
		return nil, unavailable("open", err)
	}
	return &Views{kv}, nil
}

func unavailable(doing string, err error) error {
	return fmt.Errorf("saved views: %s: %w: %w", doing, project.ErrUnavailable, err)
}

// key names a person's document without their address in it.
func key(projectID, person string) string {
	sum := sha256.Sum256([]byte(strings.ToLower(person)))
	return hex.EncodeToString([]byte(projectID)) + "." + hex.EncodeToString(sum[:16])
}

// read is the document and its revision, 0 where there is none.
func (v *Views) read(ctx context.Context, key string) ([]View, uint64, error) {
	entry, err := v.kv.Get(ctx, key)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return nil, 0, nil
	}
	if err != nil {
		return nil, 0, unavailable("read", err)
	}
	var list []View
	if err := json.Unmarshal(entry.Value(), &list); err != nil {
		return nil, 0, fmt.Errorf("saved views: read: %w", err)
	}
	return list, entry.Revision(), nil
}

// List : by name.
func (v *Views) List(ctx context.Context, projectID, person string) ([]View, error) {
	list, _, err := v.read(ctx, key(projectID, person))
	return list, err
}

// Save . A view takes the place of the one of its name.
func (v *Views) Save(ctx context.Context, projectID, person string, view View) error {
	if len(view.State) > maxState {
		return fmt.Errorf("saved views: a state of %d bytes, at most %d: %w", len(view.State), maxState, project.ErrFull)
	}
	view.ID = nuid.Next()
	return v.change(ctx, key(projectID, person), func(list []View) ([]View, error) {
		list = slices.DeleteFunc(list, func(one View) bool { return one.Name == view.Name })
		if len(list) == maxViews {
			return nil, fmt.Errorf("saved views: %d already: %w", maxViews, project.ErrFull)
		}
		list = append(list, view)
		slices.SortFunc(list, func(a, b View) int { return strings.Compare(a.Name, b.Name) })
		return list, nil
	})
}

// Delete . One that is not there is no error.
func (v *Views) Delete(ctx context.Context, projectID, person, id string) error {
	return v.change(ctx, key(projectID, person), func(list []View) ([]View, error) {
		return slices.DeleteFunc(list, func(one View) bool { return one.ID == id }), nil
	})
}

// change writes a document as a function makes it of what is there now.
func (v *Views) change(ctx context.Context, key string, with func([]View) ([]View, error)) error {
	var err error
	for range tries {
		var list []View
		var revision uint64
		if list, revision, err = v.read(ctx, key); err != nil {
			return err
		}
		if list, err = with(list); err != nil {
			return err
		}
		if err = v.write(ctx, key, list, revision); err == nil {
			return nil
		}
		if !errors.Is(err, jetstream.ErrKeyExists) {
			break
		}
	}
	return unavailable("write", err)
}

// write is ErrKeyExists where another was faster.
func (v *Views) write(ctx context.Context, key string, list []View, revision uint64) error {
	text, err := json.Marshal(list)
	if err != nil {
		return err
	}
	if revision == 0 {
		_, err = v.kv.Create(ctx, key, text)
		return err
	}
	_, err = v.kv.Update(ctx, key, text, revision)
	return err
}
