package spool

import (
	"errors"
	"time"

	"golang.org/x/sys/unix"

	"github.com/logboom/logboom/cmd/collector/internal/entry"
)

// oldest returns when the bytes of the stream's oldest segment were read, if it
// has one.
func (s *Stream) oldest() (time.Time, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.segments) == 0 || s.bytesLocked() == 0 {
		return time.Time{}, false
	}
	return s.segments[0].since, true
}

// drop drops the oldest segment and reports whether there was one.
func (s *Stream) drop() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.dropLocked()
}

// dropLocked drops the oldest segment and counts the lines that were pending in
// it as lost.
func (s *Stream) dropLocked() bool {
	if len(s.segments) == 0 || s.bytesLocked() == 0 {
		return false
	}
	target := s.segments[0].end()
	header := s.loseLocked(target)
	if target != s.end && header == nil {
		s.saveAndTruncateLocked()
		return true
	}
	// Everything in the active segment was passed, except for an incomplete
	// header: begin a new segment with it.
	s.removeAllLocked()
	if len(header) == 0 {
		return true
	}
	if err := s.startSegmentLocked(s.end-int64(len(header)), header); err != nil {
		s.outOfSync = true // without the header, the bytes behind it cannot be decoded
		s.cursor.From = s.end
		s.spool.cfg.Logger.Error("spooled bytes lost", "stream", s.ID, "err", err)
	}
	return true
}

// loseLocked moves the cursor to the first frame behind target, and behind the
// batch being sent, which could not be sent again under its key. It counts the
// lines in between as lost. If an incomplete header remains at the end, it
// returns the header's bytes and leaves the cursor before them.
func (s *Stream) loseLocked(target int64) (header []byte) {
	if s.cursor.From >= target {
		return nil
	}
	batch := s.cursor.Batch
	if batch != nil {
		s.cursor.Lost.add(batch.Reported.Lines, batch.Reported.First, batch.Reported.Last)
	}
	before := s.cursor.Lost.Lines
	if batch != nil {
		s.cursor.Lost.add(batch.Lines, batch.First, batch.Last)
		s.dropped = batch
		s.cursor.From, s.cursor.Batch = batch.To, nil
	}
	s.cursor.OpenFrames = nil
	header = s.skipLocked(target)
	s.spool.cfg.OnDrop(s.cursor.Lost.Lines - before)
	return header
}

// skipLocked is the part of loseLocked that reads the frames.
func (s *Stream) skipLocked(target int64) (header []byte) {
	var scanner Scanner
	scanner.start(s.readLocked, s.cursor.From)
	for scanner.Position() < target {
		frame, err := scanner.Next()
		if err != nil {
			s.cursor.From = max(s.cursor.From, target) // out of sync; the next reader of the stream finds out too
			return nil
		}
		if frame == nil {
			break
		}
		var e entry.Entry
		if e.Decode(frame[entry.HeaderSize:]) != nil {
			e = entry.Entry{Time: time.Now().UnixNano()}
		}
		if e.EndsLine() {
			s.cursor.Lost.add(1, e.Time, e.Time)
		}
	}
	s.cursor.From = scanner.Position()
	if s.cursor.From >= target {
		return nil
	}
	if n := scanner.frameSize(); n > 0 {
		s.cursor.From += n // the rest of the frame is skipped when it comes
		now := time.Now().UnixNano()
		s.cursor.Lost.add(1, now, now)
		return nil
	}
	return append([]byte(nil), scanner.unread...)
}

// diskRetry is how long a stream waits before it writes to a failed disk again.
const diskRetry = time.Second

// discarding is the state of a stream whose disk accepts nothing. Bytes are
// read, so that the container goes on, and counted as lost. The headers keep
// the stream in sync with the frames.
type discarding struct {
	retry  time.Time
	header []byte // what has come of the header of the frame at Cursor.From
}

// startDiscarding begins to discard. The pending bytes are lost too, because
// the frame at their end could not be completed.
func (s *Stream) startDiscarding(fifo int, why error) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.outOfSync {
		return 0, s.drainLocked(fifo)
	}
	if s.discarding == nil {
		s.spool.cfg.Logger.Error("disk not writable; lines are lost", "stream", s.ID, "err", why)
		s.discarding = &discarding{header: s.loseLocked(s.end)}
		s.removeAllLocked()
	}
	s.discarding.retry = time.Now().Add(diskRetry)
	return s.discardLocked(fifo)
}

// discardLocked reads from the FIFO and discards what it reads.
func (s *Stream) discardLocked(fifo int) (int, error) {
	n, err := unix.Read(fifo, s.scratchLocked())
	if n <= 0 {
		return 0, err
	}
	s.end += int64(n)
	s.skipDiscardedLocked(s.scratch[:n])
	return n, nil
}

// skipDiscardedLocked moves the cursor to the first frame that begins at or
// behind the end of the stream. bytes are the last bytes of the stream, with
// the frames' headers among them.
func (s *Stream) skipDiscardedLocked(bytes []byte) {
	position := s.end - int64(len(bytes)) // of bytes
	for {
		skip := s.cursor.From + int64(len(s.discarding.header)) - position
		if skip >= int64(len(bytes)) {
			return
		}
		bytes, position = bytes[skip:], position+skip
		n := min(entry.HeaderSize-len(s.discarding.header), len(bytes))
		s.discarding.header = append(s.discarding.header, bytes[:n]...)
		bytes, position = bytes[n:], position+int64(n)
		if len(s.discarding.header) < entry.HeaderSize {
			return
		}
		length, err := entry.Length(s.discarding.header)
		s.discarding.header = s.discarding.header[:0]
		s.loseLineLocked()
		if err != nil {
			s.outOfSync, s.cursor.From = true, s.end
			return
		}
		s.cursor.From += int64(entry.HeaderSize + length)
	}
}

// loseLineLocked counts one line, written now, as lost.
func (s *Stream) loseLineLocked() {
	now := time.Now().UnixNano()
	s.cursor.Lost.add(1, now, now)
	s.spool.cfg.OnDrop(1)
}

// stopDiscardingLocked tries, at most once in diskRetry, to write to the disk
// again. It reports whether the stream is storing.
func (s *Stream) stopDiscardingLocked() bool {
	if time.Now().Before(s.discarding.retry) {
		return false
	}
	s.discarding.retry = time.Now().Add(diskRetry)
	probe := make([]byte, minSegment) // finds out whether there is room
	if err := s.startSegmentLocked(s.end, probe); err != nil {
		return false
	}
	s.removeAllLocked()
	if err := s.startSegmentLocked(s.end-int64(len(s.discarding.header)), s.discarding.header); err != nil {
		return false
	}
	s.saveLocked()
	s.discarding = nil
	s.spool.cfg.Logger.Info("disk writable again; lines are stored", "stream", s.ID)
	return true
}

// drainLocked empties the FIFO of a stream that is out of sync, and begins a new
// segment, since the drained bytes are in none. What is written to the FIFO next
// begins with a frame, because Docker writes each frame with one call. It
// returns ErrReopen, or an error of the FIFO.
func (s *Stream) drainLocked(fifo int) error {
	for {
		n, err := unix.Read(fifo, s.scratchLocked())
		switch {
		case n > 0:
			s.end += int64(n)
			continue
		case errors.Is(err, unix.EINTR):
			continue
		}
		s.outOfSync, s.discarding = false, nil
		s.cursor.From, s.cursor.OpenFrames, s.cursor.Batch = s.end, nil, nil
		s.removeAllLocked()
		if err != nil && !errors.Is(err, unix.EAGAIN) {
			return err
		}
		return ErrReopen
	}
}
