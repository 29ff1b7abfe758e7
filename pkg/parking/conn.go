package parking

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// phase is where a connection stands, as seen from the server's calls.
type phase uint8

const (
	busy    phase = iota // from its first byte to the answer's last; never parked
	idle                 // answered; the deadline that the server sets next is the idle one
	waiting              // for the first byte of a next request
	leaving              // Read has said EOF, so that the server closes it: it is to be parked
	gone                 // closed, or parked; a returning connection is another conn
)

// conn is a connection as the server has it.
type conn struct {
	*net.TCPConn
	lot *Lot

	mu    sync.Mutex
	phase phase
	full  int       // bytes that the server asks for where it has none left; 0 before its first Read
	until time.Time // the idle deadline
}

// answered is called between an answer and the idle deadline.
func (c *conn) answered() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.phase == busy {
		c.phase = idle
	}
}

// SetReadDeadline makes the idle deadline an earlier one, at which the
// connection is parked. All others end the wait and are as they were asked for.
func (c *conn) SetReadDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch c.phase {
	case gone:
		return net.ErrClosed // the socket may serve another conn
	case idle:
		soon := time.Now().Add(c.lot.wait)
		if !t.IsZero() && t.Before(soon) {
			c.phase = busy
			break
		}
		c.phase, c.until, t = waiting, t, soon
	case waiting:
		c.phase = busy
	}
	return c.TCPConn.SetReadDeadline(t)
}

// SetDeadline is both deadlines.
func (c *conn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

// Read says EOF where the connection has waited long enough, or too many do.
func (c *conn) Read(p []byte) (int, error) {
	if !c.waits(len(p)) {
		return c.TCPConn.Read(p)
	}
	crowd := c.lot.waiting.Add(1)
	defer c.lot.waiting.Add(-1)
	if crowd > c.lot.warm && c.leave() {
		return 0, io.EOF
	}
	n, err := c.TCPConn.Read(p)
	if errors.Is(err, os.ErrDeadlineExceeded) && c.leave() {
		return 0, io.EOF
	}
	return n, err
}

// waits tells whether a Read of so many bytes is for the first of a next
// request: all that came before has been used, or the server would not have
// room for a full buffer.
func (c *conn) waits(size int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.full == 0 {
		c.full = size
	}
	if c.phase != waiting || size == c.full {
		return c.phase == waiting
	}
	c.phase = busy
	_ = c.TCPConn.SetReadDeadline(c.until) // fails only where the Read that follows does
	return false
}

// leave ends the wait, unless the server has ended it already.
func (c *conn) leave() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.phase != waiting {
		return false
	}
	c.phase = leaving
	return true
}

// Close closes the socket, or hands it to the lot where Read has said EOF on
// its own account.
func (c *conn) Close() error {
	c.mu.Lock()
	was := c.phase
	c.phase = gone
	c.mu.Unlock()
	switch was {
	case gone:
		return net.ErrClosed
	case leaving:
		return c.lot.park(c.TCPConn, c.until)
	default:
		return c.lot.discard(c.TCPConn)
	}
}
