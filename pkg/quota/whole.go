package quota

import (
	"context"
	"fmt"
)

// wholeKey is there for as long as Redis has lost no counter: whoever rebuilds
// them sets it, and a flush or a lost disk takes it with the counters.
const wholeKey = "q:whole"

// Complete tells whether no counter was lost since MarkComplete. Where some were,
// Restore is to be called for every project, and then MarkComplete.
func (r *Redis) Complete(ctx context.Context) (bool, error) {
	n, err := r.tower.client.Exists(ctx, wholeKey).Result()
	if err != nil {
		return false, fmt.Errorf("ask for lost quota counters: %w", err)
	}
	return n == 1, nil
}

// MarkComplete says that the counters are as they should be.
func (r *Redis) MarkComplete(ctx context.Context) error {
	if err := r.tower.client.Set(ctx, wholeKey, 1, 0).Err(); err != nil {
		return fmt.Errorf("mark quota counters as whole: %w", err)
	}
	return nil
}

// Complete tells whether MarkComplete was called: a process begins with no counters.
func (m *Memory) Complete(context.Context) (bool, error) { return m.whole.Load(), nil }

// MarkComplete says that the counters are as they should be.
func (m *Memory) MarkComplete(context.Context) error {
	m.whole.Store(true)
	return nil
}
