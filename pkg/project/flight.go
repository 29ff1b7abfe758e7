package project

import (
	"context"
	"fmt"
	"sync"
)

// flights lets one look-up serve all who ask for the same at the same time.
// The look-up runs on the goroutine of the first of them.
type flights struct {
	mu      sync.Mutex
	current map[flightKey]*flight
}

// flightKey has the change count beside the token, so that who asks after a
// change does not get the answer of a look-up that began before it.
type flightKey struct {
	id      TokenID
	changes uint64
}

type flight struct {
	done     chan struct{} // closed when the answer is there
	identity Identity
	err      error
}

// do gives look's answer, or that of a look-up that is under way. A caller
// whose context ends stops waiting; the look-up goes on for the others.
func (f *flights) do(ctx context.Context, key flightKey, look func() (Identity, error)) (Identity, error) {
	f.mu.Lock()
	if other, ok := f.current[key]; ok {
		f.mu.Unlock()
		return other.wait(ctx)
	}
	mine := &flight{done: make(chan struct{}), err: ErrUnavailable} // the error if look panics
	f.current[key] = mine
	f.mu.Unlock()

	defer func() {
		f.mu.Lock()
		delete(f.current, key)
		f.mu.Unlock()
		close(mine.done)
	}()
	mine.identity, mine.err = look()
	return mine.identity, mine.err
}

func (f *flight) wait(ctx context.Context) (Identity, error) {
	select {
	case <-f.done:
		return f.identity, f.err
	case <-ctx.Done():
		return Identity{}, fmt.Errorf("wait for another look-up: %w: %w", ErrUnavailable, ctx.Err())
	}
}
