package spool

import (
	"errors"

	"github.com/logboom/logboom/cmd/collector/internal/entry"
)

// scanBuffer is how many bytes a Scanner reads at once, unless a frame is
// larger.
const scanBuffer = 128 << 10

// ErrBadFrame reports that no frame begins at a position where one should.
var ErrBadFrame = errors.New("spool: no frame begins here")

// Scanner reads the frames of a stream, one after the other. It keeps its
// buffer when it is started again.
type Scanner struct {
	read     func(p []byte, at int64) (int, error)
	buffer   []byte
	unread   []byte // the part of buffer that Next has not returned yet
	position int64  // of unread
}

// Start makes the scanner read a stream's frames from a position on.
func (sc *Scanner) Start(s *Stream, from int64) { sc.start(s.ReadAt, from) }

func (sc *Scanner) start(read func(p []byte, at int64) (int, error), from int64) {
	sc.read, sc.position, sc.unread = read, from, nil
}

// Position returns the position after the last frame that Next returned.
func (sc *Scanner) Position() int64 { return sc.position }

// Next returns the next whole frame with its header, or nil if the frame is not
// complete yet. The frame is valid until the next call. The error is
// ErrBadFrame, or one of the stream.
func (sc *Scanner) Next() ([]byte, error) {
	if ok, err := sc.fill(entry.HeaderSize); !ok {
		return nil, err
	}
	n, err := entry.Length(sc.unread)
	if err != nil {
		return nil, errors.Join(ErrBadFrame, err)
	}
	n += entry.HeaderSize
	if ok, err := sc.fill(n); !ok {
		return nil, err
	}
	frame := sc.unread[:n]
	sc.unread, sc.position = sc.unread[n:], sc.position+int64(n)
	return frame, nil
}

// frameSize returns the size of the frame at the position, or 0 if its header
// is not complete or not valid.
func (sc *Scanner) frameSize() int64 {
	if ok, err := sc.fill(entry.HeaderSize); !ok || err != nil {
		return 0
	}
	n, err := entry.Length(sc.unread)
	if err != nil {
		return 0
	}
	return int64(entry.HeaderSize + n)
}

// fill reads until n bytes are unread, and reports whether there were that many.
func (sc *Scanner) fill(n int) (bool, error) {
	if len(sc.unread) >= n {
		return true, nil
	}
	if len(sc.buffer) < n {
		sc.buffer = append(make([]byte, 0, max(scanBuffer, n)), sc.unread...)[:max(scanBuffer, n)]
	} else {
		copy(sc.buffer, sc.unread)
	}
	unread := len(sc.unread)
	more, err := sc.read(sc.buffer[unread:], sc.position+int64(unread))
	sc.unread = sc.buffer[:unread+more]
	return len(sc.unread) >= n, err
}
