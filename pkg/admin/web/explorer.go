package web

import "sync"

// later is an answer that is waited for while the page before it is already on
// its way.
type later[T any] struct {
	done  chan struct{} // closed when value and err are there
	value T
	err   error
}

// askLater asks in the background; the group waits for the answer.
func askLater[T any](group *sync.WaitGroup, ask func() (T, error)) *later[T] {
	l := &later[T]{done: make(chan struct{})}
	group.Go(func() {
		defer close(l.done)
		l.value, l.err = ask()
	})
	return l
}

func (l *later[T]) wait() (T, error) {
	<-l.done
	return l.value, l.err
}
