package stream_test

import (
	"io"
	"net"
	"sync"
	"testing"
)

// proxy stands between a client and the server, to swallow the answers: what a
// queue looks like that has a message and cannot say so.
type proxy struct {
	listener net.Listener
	server   string
	running  sync.WaitGroup

	mu      sync.Mutex
	conns   []net.Conn
	muted   chan struct{} // closed when answers are swallowed
	closing bool
}

func newProxy(tb testing.TB, server string) *proxy {
	tb.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	p := &proxy{listener: listener, server: server, muted: make(chan struct{})}
	p.running.Go(p.accept)
	tb.Cleanup(p.close)
	return p
}

func (p *proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", p.server)
		if err != nil {
			client.Close()
			continue
		}
		p.mu.Lock()
		if p.closing {
			client.Close()
			server.Close()
		}
		p.conns = append(p.conns, client, server)
		muted := p.muted
		p.mu.Unlock()
		p.running.Go(func() { copyAll(server, client, nil) })
		p.running.Go(func() { copyAll(client, server, muted) })
	}
}

// copyAll moves bytes from one end to the other, and throws them away once
// muted is closed.
func copyAll(to, from net.Conn, muted <-chan struct{}) {
	defer to.Close()
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		if err != nil {
			return
		}
		select {
		case <-muted:
			continue
		default:
		}
		if _, err := to.Write(buffer[:n]); err != nil && err != io.EOF {
			return
		}
	}
}

// mute swallows the answers on the connections that there are.
func (p *proxy) mute() {
	p.mu.Lock()
	defer p.mu.Unlock()
	close(p.muted)
	p.muted = make(chan struct{})
}

// cut ends the connections that there are; new ones work.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, conn := range p.conns {
		conn.Close()
	}
	p.conns = nil
}

func (p *proxy) close() {
	p.listener.Close()
	p.mu.Lock()
	p.closing = true
	p.mu.Unlock()
	p.cut()
	p.running.Wait()
}
