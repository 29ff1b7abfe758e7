package quota

import (
	"hash/maphash"
	"sync"
)

// registry keeps one T a project. Its locks are held for a look-up only, and
// there are enough of them that two processors seldom meet.
type registry[T any] struct {
	seed   maphash.Seed
	fresh  func(project string) *T
	shards [64]shard[T]
}

type shard[T any] struct {
	mu    sync.RWMutex
	items map[string]*T
}

func newRegistry[T any](fresh func(project string) *T) *registry[T] {
	return &registry[T]{seed: maphash.MakeSeed(), fresh: fresh}
}

func (r *registry[T]) shard(project string) *shard[T] {
	return &r.shards[maphash.String(r.seed, project)%uint64(len(r.shards))]
}

// of gives the project's item, which it makes where there is none.
func (r *registry[T]) of(project string) *T {
	s := r.shard(project)
	s.mu.RLock()
	item := s.items[project]
	s.mu.RUnlock()
	if item != nil {
		return item
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if item = s.items[project]; item == nil {
		if s.items == nil {
			s.items = map[string]*T{}
		}
		item = r.fresh(project)
		s.items[project] = item
	}
	return item
}

// drop forgets the project's item if it is still that one.
func (r *registry[T]) drop(project string, item *T) {
	s := r.shard(project)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.items[project] == item {
		delete(s.items, project)
	}
}

// all gives the items that were there at some time during the call. No lock is
// held when it returns.
func (r *registry[T]) all() []*T {
	var items []*T
	for i := range r.shards {
		s := &r.shards[i]
		s.mu.RLock()
		for _, item := range s.items {
			items = append(items, item)
		}
		s.mu.RUnlock()
	}
	return items
}

func (r *registry[T]) size() int {
	n := 0
	for i := range r.shards {
		s := &r.shards[i]
		s.mu.RLock()
		n += len(s.items)
		s.mu.RUnlock()
	}
	return n
}
