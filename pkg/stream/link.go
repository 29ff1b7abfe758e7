package stream

import (
	"context"
	"sync"

	"github.com/nats-io/nats.go"
)

// link follows the connection's state, so that nobody waits for an answer
// that the broken connection cannot bring, and so that asking for the state
// takes no lock of a connection that is stuck in a write.
type link struct {
	nc *nats.Conn

	mu     sync.Mutex
	alive  context.Context // of the connection as it is now
	broken context.CancelCauseFunc
}

func newLink(nc *nats.Conn) *link {
	l := &link{nc: nc}
	l.alive, l.broken = context.WithCancelCause(context.Background())
	return l
}

// watch marks every change until ctx ends. The listener is registered before
// the first look, so that no change falls in between.
func (l *link) watch(ctx context.Context) {
	changes := l.nc.StatusChanged()
	defer l.nc.RemoveStatusListener(changes)
	l.mark(l.nc.Status())
	for {
		select {
		case status := <-changes:
			l.mark(status)
			l.mark(l.nc.Status()) // nats.go drops events that nobody takes in time
		case <-ctx.Done():
			return
		}
	}
}

func (l *link) mark(status nats.Status) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case status != nats.CONNECTED:
		l.broken(errLinkDown)
	case l.alive.Err() != nil:
		l.alive, l.broken = context.WithCancelCause(context.Background())
	}
}

// context ends, with errLinkDown, when the connection as it is now breaks.
func (l *link) context() context.Context {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.alive
}

func (l *link) up() bool { return l.context().Err() == nil }
