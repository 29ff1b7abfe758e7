package parking

import (
	"errors"
	"fmt"
	"net"
	"os"
	"time"
)

// event is that something happened to a parked connection.
type event struct {
	id    uint64
	ended bool // the sender has closed it, or it is broken; bytes may have come before
}

// park takes a socket over from the server. Bytes that have come since its
// last Read are seen by the poller like later ones.
func (l *Lot) park(tcp *net.TCPConn, until time.Time) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.shut {
		return l.discard(tcp)
	}
	if err := errors.Join(tcp.SetDeadline(time.Time{}), l.poll.watch(tcp, l.lastID+1)); err != nil {
		return errors.Join(err, l.discard(tcp))
	}
	l.lastID++
	l.parked[l.lastID] = l.order.PushBack(&parked{id: l.lastID, tcp: tcp, until: until})
	if l.order.Len() == 1 { // otherwise an earlier one's is set
		return l.poll.wakeAt(until)
	}
	return nil
}

// leaveLocked takes a connection out of the lot.
func (l *Lot) leaveLocked(p *parked) {
	l.order.Remove(l.parked[p.id])
	delete(l.parked, p.id)
	l.poll.forget(p.tcp)
}

// clear takes all out, for ever.
func (l *Lot) clear() []*net.TCPConn {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.shut = true
	var all []*net.TCPConn
	for e := l.order.Front(); e != nil; e = l.order.Front() {
		p := e.Value.(*parked)
		l.leaveLocked(p)
		all = append(all, p.tcp)
	}
	return all
}

// expired takes those out whose time is over, and has the poller wake for the
// next.
func (l *Lot) expired(now time.Time) ([]*net.TCPConn, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var over []*net.TCPConn
	for e := l.order.Front(); e != nil; e = l.order.Front() {
		p := e.Value.(*parked)
		if p.until.IsZero() || p.until.After(now) {
			return over, l.poll.wakeAt(p.until)
		}
		l.leaveLocked(p)
		over = append(over, p.tcp)
	}
	return over, l.poll.wakeAt(time.Time{})
}

// take takes one out to which something happened.
func (l *Lot) take(id uint64) (*net.TCPConn, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e, found := l.parked[id]
	if !found {
		return nil, false // its time was over, or the lot has been closed
	}
	p := e.Value.(*parked)
	l.leaveLocked(p)
	return p.tcp, true
}

// Returns are the parked connections that have another request, each as a new
// connection. One goroutine may accept them. Closing it closes the lot.
func (l *Lot) Returns() net.Listener { return &returns{Lot: l} }

type returns struct {
	*Lot
	events []event // not yet looked at
}

// Accept waits for the next one, and closes those whose time is over.
func (r *returns) Accept() (net.Conn, error) {
	for {
		if c, ok := r.next(); ok {
			return c, nil
		}
		var err error
		r.events, err = r.poll.wait()
		if errors.Is(err, os.ErrDeadlineExceeded) {
			err = r.closeExpired()
		}
		if err != nil {
			return nil, r.failure(err)
		}
	}
}

// next is the first of the events that is a request.
func (r *returns) next() (net.Conn, bool) {
	for len(r.events) > 0 {
		e := r.events[0]
		r.events = r.events[1:]
		tcp, ok := r.take(e.id)
		if !ok {
			continue
		}
		if e.ended && !readable(tcp) {
			_ = r.discard(tcp) // its sender has closed it already
			continue
		}
		r.returned.Add(1)
		return &conn{TCPConn: tcp, lot: r.Lot}, true
	}
	return nil, false
}

func (r *returns) closeExpired() error {
	over, err := r.expired(time.Now())
	for _, tcp := range over {
		_ = r.discard(tcp) // nobody waits for it
	}
	return err
}

// failure is why nothing can return any more.
func (r *returns) failure(err error) error {
	select {
	case <-r.closed:
		return net.ErrClosed
	default:
		return fmt.Errorf("wait for idle connections of %s: %w", r.Addr(), err)
	}
}
