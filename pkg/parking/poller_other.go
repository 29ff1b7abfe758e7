//go:build !linux

package parking

import (
	"errors"
	"net"
	"os"
	"time"
)

// canPark: connections stay with the server.
const canPark = false

// poller watches nothing.
type poller struct{ closed chan struct{} }

func newPoller() (*poller, error) { return &poller{closed: make(chan struct{})}, nil }

func (p *poller) watch(*net.TCPConn, uint64) error { return errors.ErrUnsupported }

func (p *poller) forget(*net.TCPConn) {}

func (p *poller) wakeAt(time.Time) error { return nil }

// wait ends when the poller is closed.
func (p *poller) wait() ([]event, error) {
	<-p.closed
	return nil, os.ErrClosed
}

func (p *poller) close() error {
	close(p.closed)
	return nil
}

func readable(*net.TCPConn) bool { return true }
