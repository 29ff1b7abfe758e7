package project

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// tellingKV counts the entries that a list reads, of several the one that reads
// most: one that the machine has held up is begun anew.
type tellingKV struct {
	jetstream.KeyValue
	most *atomic.Int32
}

func (k tellingKV) Watch(ctx context.Context, keys string, opts ...jetstream.WatchOpt) (jetstream.KeyWatcher, error) {
	watch, err := k.KeyValue.Watch(ctx, keys, opts...)
	if err != nil {
		return nil, err
	}
	return &tellingWatch{watch, k.most, nil}, nil
}

type tellingWatch struct {
	jetstream.KeyWatcher
	most *atomic.Int32
	told chan jetstream.KeyValueEntry // nil: not asked yet
}

// Updates passes on what is there now, and then ends.
func (w *tellingWatch) Updates() <-chan jetstream.KeyValueEntry {
	if w.told != nil {
		return w.told
	}
	w.told = make(chan jetstream.KeyValueEntry, 1000) // more than the test makes
	defer close(w.told)
	var read int32
	for entry := range w.KeyWatcher.Updates() {
		w.told <- entry
		if entry == nil {
			break
		}
		read++
	}
	w.most.Store(max(w.most.Load(), read))
	return w.told
}

func TestTokenOfAProjectIsMadeWithoutLookingAtThoseOfOthers(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	newToken(t, store, "mine")
	for i := range 20 {
		newToken(t, store, fmt.Sprintf("other-%d", i))
	}
	var most atomic.Int32
	telling := *store.projects
	telling.kv = tellingKV{store.projects.kv, &most}
	store.projects = &telling
	if _, _, err := store.CreateToken(t.Context(), "mine", "x"); err != nil {
		t.Fatal(err)
	}
	if n := most.Load(); n != 2 {
		t.Errorf("%d entries were read to make the second token of a project", n)
	}
	most.Store(0)
	if list, err := store.Tokens(t.Context(), "mine"); err != nil || len(list) != 2 || most.Load() != 2 {
		t.Errorf("%d entries were read to list %d tokens: %v", most.Load(), len(list), err)
	}
}

// fadingKV is a bucket whose client dies after so many changes.
type fadingKV struct {
	jetstream.KeyValue
	left *atomic.Int32
}

var errFaded = errors.New("the process is dead")

func (k fadingKV) Create(ctx context.Context, key string, value []byte, opts ...jetstream.KVCreateOpt) (uint64, error) {
	if k.left.Add(-1) < 0 {
		return 0, errFaded
	}
	return k.KeyValue.Create(ctx, key, value, opts...)
}

func (k fadingKV) Purge(ctx context.Context, key string, opts ...jetstream.KVDeleteOpt) error {
	if k.left.Add(-1) < 0 {
		return errFaded
	}
	return k.KeyValue.Purge(ctx, key, opts...)
}

// fading is the store for a process that dies after so many changes.
func fading(store *Store, changes int32) *Store {
	dying, projects := *store, *store.projects
	left := new(atomic.Int32)
	left.Store(changes)
	projects.kv = fadingKV{projects.kv, left}
	dying.projects = &projects
	return &dying
}

func TestTokenThatWasHalfMadeOrHalfDeletedIsNotListed(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	token, value := newToken(t, store, "demo")
	if _, _, err := fading(store, 1).CreateToken(t.Context(), "demo", "half"); !errors.Is(err, ErrUnavailable) {
		t.Errorf("made: %v", err)
	}
	if list, err := store.Tokens(t.Context(), "demo"); err != nil || len(list) != 1 {
		t.Errorf("%d tokens are listed: %v", len(list), err)
	}
	if err := fading(store, 1).DeleteToken(t.Context(), "demo", token.ID); err != nil {
		t.Errorf("deleted: %v", err)
	}
	if _, err := store.Identify(t.Context(), mustDigest(t, value)); !errors.Is(err, ErrUnknownToken) {
		t.Errorf("a deleted token: %v", err)
	}
	if list, err := store.Tokens(t.Context(), "demo"); err != nil || len(list) != 0 {
		t.Errorf("%d tokens are listed: %v", len(list), err)
	}
	if _, err := store.DeleteProject(t.Context(), "demo"); err != nil {
		t.Fatal(err)
	}
	if n := len(store.listings(t)); n != 0 {
		t.Errorf("%d listings stayed behind", n)
	}
}

// listings is every key of a project's list.
func (s *Store) listings(t *testing.T) (keys []string) {
	t.Helper()
	err := s.projects.scan(t.Context(), ownKeys+"*.*", func(entry jetstream.KeyValueEntry) error {
		keys = append(keys, entry.Key())
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

func TestSweepMakesListsOfTokensRight(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	token, value := newToken(t, store, "demo")
	id := mustDigest(t, value).ID()
	store.unlist(t.Context(), token.ProjectID, id)
	gone := mustDigest(t, NewToken().Reveal()).ID()
	for _, owner := range []string{"dead~00000000", token.ProjectID} {
		if _, err := store.projects.create(t.Context(), ownKey(owner, gone), listing{}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := store.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	// What is new may be of a token that is just being made.
	if keys := strings.Join(store.listings(t), " "); !strings.Contains(keys, ownKey(token.ProjectID, id)) || !strings.Contains(keys, ownKey(token.ProjectID, gone)) || strings.Contains(keys, "dead") {
		t.Errorf("listed: %s", keys)
	}
	entry := owned{projectID: token.ProjectID, made: time.Now().Add(-2 * ghostAge)}
	ghost, err := store.isGhost(t.Context(), ownKey(token.ProjectID, gone), entry, map[string]owned{}, map[string]bool{})
	if err != nil || !ghost {
		t.Errorf("a listing of long ago without a token stays: %v", err)
	}
}

// BenchmarkProjects is what one more project and its token cost, and lists of
// both, beside so many others.
func BenchmarkProjects(b *testing.B) {
	for _, others := range []int{100, 10_000} {
		server := startNATS(b, b.TempDir())
		store := connect(b, server.URL())
		fill(b, store, others)
		made := 0
		for _, step := range []struct {
			name string
			do   func() error
		}{
			{"create", func() error {
				made++
				name := fmt.Sprintf("mine-%d", made)
				if _, err := store.CreateProject(b.Context(), name); err != nil {
					return err
				}
				_, _, err := store.CreateToken(b.Context(), name, "x")
				return err
			}},
			{"tokens", func() error { _, err := store.Tokens(b.Context(), "other-7"); return err }},
			{"projects", func() error { _, err := store.Projects(b.Context(), "", 100); return err }},
			{"sweep", func() error { _, err := store.Sweep(b.Context()); return err }},
			{"restart", func() error {
				err := server.Restart(b.Context())
				for err == nil {
					if _, found := store.Project(b.Context(), "other-7"); found == nil {
						break
					}
				}
				return err
			}},
		} {
			b.Run(fmt.Sprintf("others=%d/%s", others, step.name), func(b *testing.B) {
				for b.Loop() {
					if err := step.do(); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// fill makes projects with a token each, some at a time.
func fill(b *testing.B, store *Store, projects int) {
	b.Helper()
	const workers = 16
	var makers sync.WaitGroup
	for worker := range workers {
		makers.Go(func() {
			for i := worker; i < projects && !b.Failed(); i += workers {
				name := fmt.Sprintf("other-%d", i)
				_, err := store.CreateProject(b.Context(), name)
				if err == nil {
					_, _, err = store.CreateToken(b.Context(), name, "x")
				}
				if err != nil {
					b.Error(err)
				}
			}
		})
	}
	makers.Wait()
}
