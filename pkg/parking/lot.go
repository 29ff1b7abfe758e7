package parking

import (
	"container/list"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// Config bounds the connections.
type Config struct {
	MaxConnections int           // open ones, parked or not; further ones wait to be accepted
	Wait           time.Duration // how long a connection waits for a request before it is parked; 0 is 1 s
	Warm           int           // how many may wait so; past them, a connection is parked at once. 0 is 1000, some 18 MiB
}

// Stats are of the connections.
type Stats struct {
	Open     int    // all that are open, parked or not
	Parked   int    // of them, those that wait in the lot
	Returned uint64 // how often one came back
}

// Lot parks idle connections. It starts no goroutines: the server's own wait
// on Arrivals and Returns, of which both are to be served. Its ConnState has
// to be Observe. The idle timeout is the server's; a parked connection may
// outlive it by Wait.
type Lot struct {
	port  *net.TCPListener
	wait  time.Duration
	warm  int64
	slots chan struct{} // one of MaxConnections for each open socket

	open     atomic.Int64 // sockets; Accept has a slot before it has one
	waiting  atomic.Int64 // connections that wait for a request, but are not parked
	returned atomic.Uint64
	closing  sync.Once
	closed   chan struct{}
	poll     *poller

	mu     sync.Mutex // guards the following
	parked map[uint64]*list.Element
	order  list.List // of *parked, longest first
	lastID uint64
	shut   bool // nothing is parked any more
}

// parked is a connection without a server.
type parked struct {
	id    uint64
	tcp   *net.TCPConn
	until time.Time // when it is closed; zero: never
}

// New is the lot of a TCP port, which it closes when it is closed itself.
func New(port net.Listener, cfg Config) (*Lot, error) {
	tcp, ok := port.(*net.TCPListener)
	if !ok {
		return nil, fmt.Errorf("connections of %s cannot be parked: it is a %T, not a TCP port", port.Addr(), port)
	}
	if cfg.Wait == 0 {
		cfg.Wait = time.Second
	}
	if cfg.Warm == 0 {
		cfg.Warm = 1000
	}
	poll, err := newPoller()
	if err != nil {
		return nil, fmt.Errorf("watch idle connections of %s: %w", port.Addr(), err)
	}
	return &Lot{
		port: tcp, wait: cfg.Wait, warm: int64(cfg.Warm), slots: make(chan struct{}, cfg.MaxConnections),
		closed: make(chan struct{}), poll: poll, parked: map[uint64]*list.Element{},
	}, nil
}

// Observe is the server's ConnState: it tells which connections are idle.
func (l *Lot) Observe(c net.Conn, state http.ConnState) {
	if c, ok := c.(*conn); ok && state == http.StateIdle && canPark {
		c.answered()
	}
}

// Stats are the figures of now.
func (l *Lot) Stats() Stats {
	l.mu.Lock()
	defer l.mu.Unlock()
	return Stats{Open: int(l.open.Load()), Parked: len(l.parked), Returned: l.returned.Load()}
}

// Close closes the port and all that is parked. Connections that are served
// stay the server's.
func (l *Lot) Close() error {
	var err error
	l.closing.Do(func() {
		close(l.closed)
		err = l.port.Close()
		for _, tcp := range l.clear() {
			_ = l.discard(tcp) // its sender sees it closed, or is gone
		}
		err = errors.Join(err, l.poll.close())
	})
	return err
}

// Addr is the port's.
func (l *Lot) Addr() net.Addr { return l.port.Addr() }

// Arrivals are the connections that are new at the port. Closing it closes the
// lot.
func (l *Lot) Arrivals() net.Listener { return arrivals{l} }

type arrivals struct{ *Lot }

// Accept waits while there are as many connections as there may be.
func (a arrivals) Accept() (net.Conn, error) {
	select {
	case a.slots <- struct{}{}:
	case <-a.closed:
		return nil, net.ErrClosed
	}
	tcp, err := a.port.AcceptTCP()
	if err != nil {
		<-a.slots
		return nil, err
	}
	a.open.Add(1)
	return &conn{TCPConn: tcp, lot: a.Lot}, nil
}

// discard closes a socket for good.
func (l *Lot) discard(tcp *net.TCPConn) error {
	err := tcp.Close()
	l.open.Add(-1)
	<-l.slots
	return err
}
