package streamtest

import (
	"io"
	"net"
	"sync"
	"testing"
)

// Proxy stands between a client and the server and can drop the answers, like a
// queue that stored a message and cannot confirm it.
type Proxy struct {
	listener net.Listener
	server   string
	running  sync.WaitGroup

	mu      sync.Mutex
	conns   []net.Conn
	muted   chan struct{} // closed when answers are dropped
	closing bool
}

// NewProxy starts a proxy to the address of a server, until the test ends.
func NewProxy(tb testing.TB, server string) *Proxy {
	tb.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	p := &Proxy{listener: listener, server: server, muted: make(chan struct{})}
	p.running.Go(p.accept)
	tb.Cleanup(p.close)
	return p
}

func (p *Proxy) accept() {
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

// copyAll copies bytes from one end to the other, and drops them once muted is
// closed.
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

// Mute drops the answers on the connections that are open now.
func (p *Proxy) Mute() {
	p.mu.Lock()
	defer p.mu.Unlock()
	close(p.muted)
	p.muted = make(chan struct{})
}

// Cut closes the open connections; new ones work.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, conn := range p.conns {
		conn.Close()
	}
	p.conns = nil
}

// Address is where clients reach the proxy.
func (p *Proxy) Address() string { return p.listener.Addr().String() }

func (p *Proxy) close() {
	p.listener.Close()
	p.mu.Lock()
	p.closing = true
	p.mu.Unlock()
	p.Cut()
	p.running.Wait()
}
