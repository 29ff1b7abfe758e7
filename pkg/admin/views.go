package admin

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"

	"github.com/logboom/logboom/pkg/kv"
	"github.com/logboom/logboom/pkg/project"
)

// Bounds of saved views.
const (
	viewsBucket   = "SAVED_VIEWS"
	viewsBytes    = 64 << 20
	maxViewsBytes = 128 << 10 // of one person's views in a project
	maxViews      = 50        // of one person in a project
	maxViewState  = 4 << 10
	viewTries     = 5 // to store a change before the changes of others
)

// View is a query that a person saved in the explorer.
type View struct {
	ID    string    `json:"id"`
	Name  string    `json:"name"`
	State string    `json:"state"` // the explorer's, as in its address
	Saved time.Time `json:"saved"`
}

// Views stores saved views in a bucket of the queue: one document for each
// person and project. A document is changed by compare-and-swap, because a
// person may have two tabs.
type Views struct {
	bucket *kv.Bucket
}

// OpenViews opens the bucket and creates it if it is missing. Any number of
// processes may do so at the same time.
func OpenViews(ctx context.Context, js jetstream.JetStream, replicas int) (*Views, error) {
	bucket, err := kv.Open(ctx, js, kv.Config{
		Name: viewsBucket, Description: "saved views", MaxBytes: viewsBytes, MaxValueBytes: maxViewsBytes, Replicas: replicas,
	})
	return &Views{bucket}, err
}

// viewsKey names a person's document without their address in it.
func viewsKey(projectID, person string) string {
	sum := sha256.Sum256([]byte(strings.ToLower(person)))
	return hex.EncodeToString([]byte(projectID)) + "." + hex.EncodeToString(sum[:16])
}

// load returns the document and its revision, 0 if there is none.
func (v *Views) load(ctx context.Context, key string) ([]View, uint64, error) {
	entry, err := v.bucket.Get(ctx, key)
	if errors.Is(err, kv.ErrNotFound) {
		return nil, 0, nil
	}
	if err != nil {
		return nil, 0, err
	}
	var list []View
	if err := entry.Decode(&list); err != nil {
		return nil, 0, fmt.Errorf("saved views: %w", err)
	}
	return list, entry.Revision, nil
}

// List returns the person's views of the project, by name.
func (v *Views) List(ctx context.Context, projectID, person string) ([]View, error) {
	list, _, err := v.load(ctx, viewsKey(projectID, person))
	return list, err
}

// Save stores a view in place of the one with its name. The error is
// project.ErrFull where the person has 50 views in the project or the state is
// too long.
func (v *Views) Save(ctx context.Context, projectID, person string, view View) error {
	if len(view.State) > maxViewState {
		return fmt.Errorf("saved views: state of %d bytes, limit %d: %w", len(view.State), maxViewState, project.ErrFull)
	}
	view.ID = nuid.Next()
	return v.change(ctx, viewsKey(projectID, person), func(list []View) ([]View, error) {
		list = slices.DeleteFunc(list, func(one View) bool { return one.Name == view.Name })
		if len(list) == maxViews {
			return nil, fmt.Errorf("saved views: limit of %d reached: %w", maxViews, project.ErrFull)
		}
		list = append(list, view)
		slices.SortFunc(list, func(a, b View) int { return strings.Compare(a.Name, b.Name) })
		return list, nil
	})
}

// Delete deletes a view. Deleting one that does not exist is no error.
func (v *Views) Delete(ctx context.Context, projectID, person, id string) error {
	return v.change(ctx, viewsKey(projectID, person), func(list []View) ([]View, error) {
		return slices.DeleteFunc(list, func(one View) bool { return one.ID == id }), nil
	})
}

// change stores a document as the function makes it from the current one.
func (v *Views) change(ctx context.Context, key string, with func([]View) ([]View, error)) error {
	var swapped error
	for range viewTries {
		list, revision, err := v.load(ctx, key)
		if err != nil {
			return err
		}
		if list, err = with(list); err != nil {
			return err
		}
		if _, swapped = v.bucket.Swap(ctx, key, list, revision); !errors.Is(swapped, kv.ErrChanged) {
			return swapped
		}
	}
	return fmt.Errorf("saved views: other changes came first: %w: %w", kv.ErrUnavailable, swapped)
}

// Views returns the views that the caller saved in the project, by name.
func (s *Service) Views(ctx context.Context, caller Caller, found project.Project) ([]View, error) {
	return s.deps.Views.List(ctx, found.ID, caller.Email)
}

// SaveView saves a view of the project for the caller alone. The error is
// project.ErrFull where there are too many.
func (s *Service) SaveView(ctx context.Context, caller Caller, found project.Project, view View) error {
	ctx, cancel := s.changing(ctx)
	defer cancel()
	return s.deps.Views.Save(ctx, found.ID, caller.Email, view)
}

// DeleteView deletes a view that the caller saved.
func (s *Service) DeleteView(ctx context.Context, caller Caller, found project.Project, id string) error {
	ctx, cancel := s.changing(ctx)
	defer cancel()
	return s.deps.Views.Delete(ctx, found.ID, caller.Email, id)
}
