package spool

import (
	"errors"

	"github.com/logboom/logboom/cmd/collector/internal/entry"
)

// scanBuffer is how much a Scanner reads at once, unless a frame is larger.
const scanBuffer = 128 << 10

// ErrBroken says that no frame begins where one should.
var ErrBroken = errors.New("spool: no frame begins here")

// Scanner finds the frames of a stream, one after the other. Its buffer is
// kept from one stream to the next.
type Scanner struct {
	read   func(p []byte, at int64) (int, error)
	buffer []byte
	held   []byte // the part of buffer that is not given out yet
	at     int64  // position of held
}

// Start makes the scanner find a stream's frames from a position on.
func (sc *Scanner) Start(s *Stream, at int64) { sc.start(s.ReadAt, at) }

func (sc *Scanner) start(read func(p []byte, at int64) (int, error), at int64) {
	sc.read, sc.at, sc.held = read, at, nil
}

// At is the position after the last frame.
func (sc *Scanner) At() int64 { return sc.at }

// Next is the next whole frame, header included, valid until the next call; or
// nil where there is none yet, or ErrBroken.
func (sc *Scanner) Next() ([]byte, error) {
	if ok, err := sc.have(entry.HeaderSize); !ok {
		return nil, err
	}
	n, err := entry.Length(sc.held)
	if err != nil {
		return nil, errors.Join(ErrBroken, err)
	}
	n += entry.HeaderSize
	if ok, err := sc.have(n); !ok {
		return nil, err
	}
	frame := sc.held[:n]
	sc.held, sc.at = sc.held[n:], sc.at+int64(n)
	return frame, nil
}

// need is the length of the frame that begins here, or 0 where not even its
// header is there.
func (sc *Scanner) need() int64 {
	if ok, err := sc.have(entry.HeaderSize); !ok || err != nil {
		return 0
	}
	n, err := entry.Length(sc.held)
	if err != nil {
		return 0
	}
	return int64(entry.HeaderSize + n)
}

// have reads on until n bytes are held, where there are so many.
func (sc *Scanner) have(n int) (bool, error) {
	if len(sc.held) >= n {
		return true, nil
	}
	if len(sc.buffer) < n {
		sc.buffer = append(make([]byte, 0, max(scanBuffer, n)), sc.held...)[:max(scanBuffer, n)]
	} else {
		copy(sc.buffer, sc.held)
	}
	held := len(sc.held)
	more, err := sc.read(sc.buffer[held:], sc.at+int64(held))
	sc.held = sc.buffer[:held+more]
	return len(sc.held) >= n, err
}
