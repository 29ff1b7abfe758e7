package quota

import (
	"context"
	"fmt"
)

// wholeKey is there for as long as Redis has lost no counter: whoever rebuilds
// them sets it, and a flush or a lost disk takes it with the counters.
const wholeKey = "q:whole"

// Whole tells whether no counter was lost since MarkWhole. Where some were,
// Restore is to be called for every project, and then MarkWhole.
func (r *Redis) Whole(ctx context.Context) (bool, error) {
	n, err := r.tower.client.Exists(ctx, wholeKey).Result()
	if err != nil {
		return false, fmt.Errorf("ask for lost quota counters: %w", err)
	}
	return n == 1, nil
}

// MarkWhole says that the counters are as they should be.
func (r *Redis) MarkWhole(ctx context.Context) error {
	if err := r.tower.client.Set(ctx, wholeKey, 1, 0).Err(); err != nil {
		return fmt.Errorf("mark quota counters as whole: %w", err)
	}
	return nil
}

// Whole tells whether MarkWhole was called: a process begins with no counters.
func (m *Memory) Whole(context.Context) (bool, error) { return m.whole.Load(), nil }

// MarkWhole says that the counters are as they should be.
func (m *Memory) MarkWhole(context.Context) error {
	m.whole.Store(true)
	return nil
}
