package spool

import (
	"errors"
	"time"

	"golang.org/x/sys/unix"

	"github.com/logboom/logboom/cmd/collector/internal/entry"
)

// voidRetry is how long a disk is left alone that took nothing.
const voidRetry = time.Second

// void is a stream whose disk takes nothing: bytes are read, so that the
// container goes on, and counted as lost. It keeps in step with the frames.
type void struct {
	retry  time.Time
	header []byte // of the frame that begins at Cursor.From, as far as it has come
}

// enterVoid begins to throw away. What waits is given up too: the frame at its
// end could not be completed.
func (s *Stream) enterVoid(fifo int, why error) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.step {
		return 0, s.drainLocked(fifo)
	}
	if s.void == nil {
		s.depot.cfg.Logger.Error("disk takes nothing: lines are lost", "stream", s.ID, "err", why)
		s.void = &void{header: s.giveUpLocked()}
	}
	s.void.retry = time.Now().Add(voidRetry)
	return s.voidLocked(fifo)
}

// giveUpLocked drops all that waits and leaves no segment.
func (s *Stream) giveUpLocked() []byte {
	header := s.forgetLocked(s.end)
	s.clearLocked()
	return header
}

// voidLocked reads and throws away.
func (s *Stream) voidLocked(fifo int) (int, error) {
	if s.scratch == nil {
		s.scratch = make([]byte, keepConsumed)
	}
	n, err := unix.Read(fifo, s.scratch)
	if n <= 0 {
		return 0, err
	}
	s.end += int64(n)
	s.passOverLocked(s.scratch[:n])
	return n, nil
}

// passOverLocked moves the cursor to the first frame that begins at or behind
// the end, by the headers among the bytes that end there.
func (s *Stream) passOverLocked(bytes []byte) {
	at := s.end - int64(len(bytes)) // position of bytes
	for {
		skip := s.cursor.From + int64(len(s.void.header)) - at
		if skip >= int64(len(bytes)) {
			return
		}
		bytes, at = bytes[skip:], at+skip
		take := min(entry.HeaderSize-len(s.void.header), len(bytes))
		s.void.header = append(s.void.header, bytes[:take]...)
		bytes, at = bytes[take:], at+int64(take)
		if len(s.void.header) < entry.HeaderSize {
			return
		}
		n, err := entry.Length(s.void.header)
		s.void.header = s.void.header[:0]
		s.lostLocked(1, time.Now(), time.Now())
		if err != nil {
			s.step, s.cursor.From = true, s.end
			return
		}
		s.cursor.From += int64(entry.HeaderSize + n)
	}
}

// leaveVoidLocked tries whether the disk takes something again.
func (s *Stream) leaveVoidLocked() bool {
	if time.Now().Before(s.void.retry) {
		return false
	}
	s.void.retry = time.Now().Add(voidRetry)
	probe := make([]byte, minSegment) // to find out whether there is room
	if err := s.rotateLocked(s.end, probe); err != nil {
		return false
	}
	s.removeLocked(len(s.segments))
	s.active.Close() // the probe's
	s.active = nil
	if err := s.rotateLocked(s.end-int64(len(s.void.header)), s.void.header); err != nil {
		return false
	}
	s.saveLocked()
	s.void = nil
	s.depot.cfg.Logger.Info("disk takes lines again", "stream", s.ID)
	return true
}

// drainLocked empties a FIFO that is out of step: what is written next begins
// with a frame, because Docker writes each frame at once.
func (s *Stream) drainLocked(fifo int) error {
	if s.scratch == nil {
		s.scratch = make([]byte, keepConsumed)
	}
	for {
		n, err := unix.Read(fifo, s.scratch)
		switch {
		case n > 0:
			s.end += int64(n)
			s.cursor.From = s.end
		case errors.Is(err, unix.EINTR):
		default:
			return s.inStepLocked(err)
		}
	}
}

// inStepLocked begins anew at the end, with a segment of its own, because the
// bytes that were drained are in none.
func (s *Stream) inStepLocked(err error) error {
	s.step, s.void = false, nil
	s.cursor.From, s.cursor.Carry, s.cursor.Cut = s.end, nil, nil
	s.clearLocked()
	if err != nil && !errors.Is(err, unix.EAGAIN) {
		return err
	}
	return ErrReopen
}
