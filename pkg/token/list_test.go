package token

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/logboom/logboom/pkg/embedded"
	"github.com/logboom/logboom/pkg/embedded/natstest"
	"github.com/logboom/logboom/pkg/project"
)

// faultyQueue returns buckets whose client the test has wrapped.
type faultyQueue struct {
	jetstream.JetStream
	wrap func(jetstream.KeyValue) jetstream.KeyValue
}

func (q faultyQueue) KeyValue(ctx context.Context, bucket string) (jetstream.KeyValue, error) {
	found, err := q.JetStream.KeyValue(ctx, bucket)
	return q.wrap(found), err
}

// countingKV counts the entries that a list reads. Of several lists it keeps the
// largest count: a list that stalls on a busy machine starts again.
type countingKV struct {
	jetstream.KeyValue
	most *atomic.Int32
}

func (k countingKV) WatchFiltered(ctx context.Context, keys []string, opts ...jetstream.WatchOpt) (jetstream.KeyWatcher, error) {
	watch, err := k.KeyValue.WatchFiltered(ctx, keys, opts...)
	if err != nil {
		return nil, err
	}
	return &countingWatch{watch, k.most, nil}, nil
}

type countingWatch struct {
	jetstream.KeyWatcher
	most    *atomic.Int32
	updates chan jetstream.KeyValueEntry // nil: not asked for yet
}

// Updates returns what is there now, and then ends.
func (w *countingWatch) Updates() <-chan jetstream.KeyValueEntry {
	if w.updates != nil {
		return w.updates
	}
	w.updates = make(chan jetstream.KeyValueEntry, 1000) // more than the test creates
	defer close(w.updates)
	var read int32
	for entry := range w.KeyWatcher.Updates() {
		w.updates <- entry
		if entry == nil {
			break
		}
		read++
	}
	w.most.Store(max(w.most.Load(), read))
	return w.updates
}

func TestCreatingATokenReadsNoTokensOfOtherProjects(t *testing.T) {
	t.Parallel()
	js := patientStream(t, natstest.Start(t, embedded.NATSConfig{DataDir: t.TempDir()}).URL())
	store := openStores(t, js, project.Config{})
	newToken(t, store, "mine")
	for i := range 20 {
		newToken(t, store, fmt.Sprintf("other-%d", i))
	}
	var most atomic.Int32
	store = openStores(t, faultyQueue{js, func(kv jetstream.KeyValue) jetstream.KeyValue { return countingKV{kv, &most} }}, project.Config{})
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

// fadingKV is a bucket whose client fails after so many changes.
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

// fading returns the stores of a process that dies after so many changes.
func fading(t *testing.T, js jetstream.JetStream, changes int32) stores {
	t.Helper()
	left := new(atomic.Int32)
	left.Store(changes)
	return openStores(t, faultyQueue{js, func(kv jetstream.KeyValue) jetstream.KeyValue { return fadingKV{kv, left} }}, project.Config{})
}

func TestTokenThatWasHalfCreatedOrHalfDeletedIsNotListed(t *testing.T) {
	t.Parallel()
	js := patientStream(t, natstest.Start(t, embedded.NATSConfig{DataDir: t.TempDir()}).URL())
	store := openStores(t, js, project.Config{})
	token, value := newToken(t, store, "demo")
	if _, _, err := fading(t, js, 1).CreateToken(t.Context(), "demo", "half"); !errors.Is(err, project.ErrUnavailable) {
		t.Errorf("created: %v", err)
	}
	if list, err := store.Tokens(t.Context(), "demo"); err != nil || len(list) != 1 {
		t.Errorf("%d tokens are listed: %v", len(list), err)
	}
	if err := fading(t, js, 1).DeleteToken(t.Context(), "demo", token.ID); err != nil {
		t.Errorf("deleted: %v", err)
	}
	if _, err := store.identify(t.Context(), mustDigest(t, value)); !errors.Is(err, ErrUnknown) {
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

// listings returns the keys of all lists of tokens.
func (s stores) listings(t *testing.T) (keys []string) {
	t.Helper()
	entries, err := s.bucket.List(t.Context(), listingKeys+"*.*")
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		keys = append(keys, entry.Key)
	}
	return keys
}

func TestSweepRepairsListsOfTokens(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	token, value := newToken(t, store, "demo")
	id := mustDigest(t, value).ID()
	if err := store.bucket.Delete(t.Context(), listingKey(token.ProjectID, id), 0); err != nil {
		t.Fatal(err)
	}
	gone := mustDigest(t, New().Reveal()).ID()
	for _, owner := range []string{"dead~00000000", token.ProjectID} {
		if _, err := store.bucket.Create(t.Context(), listingKey(owner, gone), listing{}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := store.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	// A new listing may belong to a token that is being created.
	if keys := strings.Join(store.listings(t), " "); !strings.Contains(keys, listingKey(token.ProjectID, id)) || !strings.Contains(keys, listingKey(token.ProjectID, gone)) || strings.Contains(keys, "dead") {
		t.Errorf("listed: %s", keys)
	}
	store.abandonedAge = 0
	if _, err := store.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	if keys := store.listings(t); len(keys) != 1 || keys[0] != listingKey(token.ProjectID, id) {
		t.Errorf("listed after abandoned listings were swept: %s", keys)
	}
}

// BenchmarkProjects measures the cost of one more project with a token, and of
// lists of both, beside so many others.
func BenchmarkProjects(b *testing.B) {
	for _, others := range []int{100, 10_000} {
		server := natstest.Start(b, embedded.NATSConfig{DataDir: b.TempDir()})
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

// fill creates projects with a token each, several at a time.
func fill(b *testing.B, store stores, projects int) {
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
