package front

import (
	"context"
	"time"
)

// slots bounds how many statements run at once and how many wait.
type slots struct {
	running chan struct{} // capacity: statements at once
	waiting chan struct{} // capacity: running and waiting statements
	timeout time.Duration
}

func newSlots(running, waiting int, timeout time.Duration) *slots {
	return &slots{
		running: make(chan struct{}, running),
		waiting: make(chan struct{}, running+waiting),
		timeout: timeout,
	}
}

// acquire waits until the statement may run. The caller must call release.
func (s *slots) acquire(ctx context.Context) error {
	select {
	case s.waiting <- struct{}{}:
	default:
		return raise(codeTooManyQueries, "TOO_MANY_SIMULTANEOUS_QUERIES", "%d statements are already running or waiting: try again later", cap(s.waiting))
	}
	timer := time.NewTimer(s.timeout)
	defer timer.Stop()
	select {
	case s.running <- struct{}{}:
		return nil
	case <-timer.C:
		<-s.waiting
		return raise(codeTooManyQueries, "TOO_MANY_SIMULTANEOUS_QUERIES", "%d statements are running and none ended within %s: try again later", cap(s.running), s.timeout)
	case <-ctx.Done():
		<-s.waiting
		return context.Cause(ctx)
	}
}

func (s *slots) release() {
	<-s.running
	<-s.waiting
}

// drain waits until no statement runs. No statement can run after it.
func (s *slots) drain() {
	for range cap(s.running) {
		s.running <- struct{}{}
	}
}
