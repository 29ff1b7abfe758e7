//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// traffic is what a proxy does with bytes.
type traffic int

const (
	flowing traffic = iota // passed on
	stalled                // kept back until they flow again: a partition that ends
	muted                  // answers are discarded: the request was done, and the answer is lost
	slow                   // each piece waits for slowness
)

const (
	slowness    = 150 * time.Millisecond
	pieceBytes  = 16 << 10
	dialTimeout = 2 * time.Second
)

// proxy is between processes and an engine, and breaks connections.
type proxy struct {
	name     string
	target   string
	listener net.Listener

	mu      sync.Mutex
	mode    traffic
	changed chan struct{} // closed and replaced when the mode changes
	pairs   map[*pair]struct{}
	fuse    int    // bytes to the engine until burn is called; 0: never
	burn    func() // runs in the goroutine that copies the bytes
}

// pair is one connection, on both sides.
type pair struct{ client, server *net.TCPConn }

// listenProxy listens on a port of the loopback interface.
func listenProxy(name, target string) (*proxy, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("proxy %s: %w", name, err)
	}
	return &proxy{name: name, target: target, listener: listener, changed: make(chan struct{}), pairs: map[*pair]struct{}{}}, nil
}

func (p *proxy) addr() string { return p.listener.Addr().String() }

// run accepts connections until ctx ends.
func (p *proxy) run(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() {
		p.listener.Close()
		p.reset()
	})
	defer stop()
	var group errgroup.Group
	for {
		conn, err := p.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return group.Wait()
		}
		if err != nil {
			continue // the client has disconnected
		}
		group.Go(func() error { p.serve(ctx, conn.(*net.TCPConn)); return nil })
	}
}

func (p *proxy) serve(ctx context.Context, client *net.TCPConn) {
	dialer := net.Dialer{Timeout: dialTimeout}
	conn, err := dialer.DialContext(ctx, "tcp", p.target)
	if err != nil {
		hangUp(client)
		return
	}
	c := &pair{client: client, server: conn.(*net.TCPConn)}
	p.mu.Lock()
	p.pairs[c] = struct{}{}
	p.mu.Unlock()
	if ctx.Err() != nil {
		c.reset() // the reset at the end may have missed it
	}
	var group errgroup.Group
	group.Go(func() error { p.pass(ctx, c.server, c.client, true); return nil })
	group.Go(func() error { p.pass(ctx, c.client, c.server, false); return nil })
	_ = group.Wait() // neither returns an error
	p.mu.Lock()
	delete(p.pairs, c)
	p.mu.Unlock()
	c.client.Close()
	c.server.Close()
}

// pass copies bytes in one direction, and its end.
func (p *proxy) pass(ctx context.Context, to, from *net.TCPConn, request bool) {
	buffer := make([]byte, pieceBytes)
	for {
		n, err := from.Read(buffer)
		if n > 0 && p.admit(ctx, n, request) {
			if _, err := to.Write(buffer[:n]); err != nil {
				hangUp(from)
				return
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			_ = to.CloseWrite() // it may be closed
			return
		case err != nil:
			hangUp(to)
			return
		}
	}
}

// admit waits according to the mode and reports whether the bytes are to be passed
// on.
func (p *proxy) admit(ctx context.Context, n int, request bool) bool {
	p.light(n, request)
	for {
		p.mu.Lock()
		mode, changed := p.mode, p.changed
		p.mu.Unlock()
		switch mode {
		case flowing:
			return true
		case muted:
			return request
		case slow:
			return pause(ctx, slowness) == nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return false
		}
	}
}

// light counts the bytes of a request for after.
func (p *proxy) light(n int, request bool) {
	p.mu.Lock()
	burn := p.burn
	if !request || p.fuse == 0 || n < p.fuse {
		if request && p.fuse > 0 {
			p.fuse -= n
		}
		burn = nil
	} else {
		p.fuse, p.burn = 0, nil
	}
	p.mu.Unlock()
	if burn != nil {
		burn()
	}
}

// after sets a function that is called in the middle of a request, before so many
// bytes have passed.
func (p *proxy) after(bytes int, call func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fuse, p.burn = bytes, call
}

// set changes the mode. Connections whose answers were discarded cannot continue,
// so leaving muted closes them.
func (p *proxy) set(mode traffic) {
	p.mu.Lock()
	before := p.mode
	p.mode = mode
	close(p.changed)
	p.changed = make(chan struct{})
	p.mu.Unlock()
	if before == muted && mode != muted {
		p.reset()
	}
}

// reset resets every connection; new ones work. It returns how many there were.
func (p *proxy) reset() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.pairs {
		c.reset()
	}
	return len(p.pairs)
}

func (c *pair) reset() {
	hangUp(c.client)
	hangUp(c.server)
}

// hangUp closes a connection with a reset.
func hangUp(conn *net.TCPConn) {
	_ = conn.SetLinger(0) // it may be closed already
	conn.Close()
}
