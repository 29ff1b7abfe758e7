package project

import (
	"context"
	"time"

	"github.com/maypok86/otter/v2"
)

// MemoryShared is the Shared of a process that shares with nobody: standalone's.
type MemoryShared struct {
	values *otter.Cache[string, memoryValue]
	now    func() time.Time
}

type memoryValue struct {
	value   []byte
	expires time.Time
}

// memoryValues bounds a MemoryShared: at some 300 bytes each, 6 MiB.
const memoryValues = 20_000

// NewMemoryShared makes an empty one, which starts no goroutine.
func NewMemoryShared() *MemoryShared {
	return &MemoryShared{values: newBounded[string, memoryValue](memoryValues), now: time.Now}
}

// newBounded makes a cache that does its housekeeping on its callers'
// goroutines.
func newBounded[K comparable, V any](maxEntries int) *otter.Cache[K, V] {
	return otter.Must(&otter.Options[K, V]{
		MaximumSize: maxEntries,
		Executor:    func(task func()) { task() },
	})
}

// Load implements Shared.
func (m *MemoryShared) Load(_ context.Context, key string) ([]byte, error) {
	v, ok := m.values.GetIfPresent(key)
	if !ok || !m.now().Before(v.expires) {
		return nil, ErrMiss
	}
	return v.value, nil
}

// Store implements Shared.
func (m *MemoryShared) Store(_ context.Context, key string, value []byte, ttl time.Duration) error {
	m.values.Set(key, memoryValue{value, m.now().Add(ttl)})
	return nil
}

// Drop implements Shared.
func (m *MemoryShared) Drop(_ context.Context, keys ...string) error {
	for _, key := range keys {
		m.values.Invalidate(key)
	}
	return nil
}
