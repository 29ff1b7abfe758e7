package spool

import (
	"time"

	"github.com/logboom/logboom/cmd/collector/internal/entry"
)

// oldest is when the stream's oldest segment came in, where it has one.
func (s *Stream) oldest() (time.Time, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.segments) == 0 || s.bytesLocked() == 0 {
		return time.Time{}, false
	}
	return s.segments[0].born, true
}

// drop throws the oldest segment away.
func (s *Stream) drop() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.dropLocked()
}

// dropLocked throws the oldest segment away and counts the lines that were
// waiting in it.
func (s *Stream) dropLocked() bool {
	if len(s.segments) == 0 || s.bytesLocked() == 0 {
		return false
	}
	target := s.segments[0].end()
	header := s.forgetLocked(target)
	if target == s.end || header != nil {
		return s.restartLocked(header)
	}
	s.settleLocked()
	return true
}

// forgetLocked moves the cursor to the first frame behind target, and behind
// the batch under way: part of that could not be sent under its key any more.
func (s *Stream) forgetLocked(target int64) (header []byte) {
	if s.cursor.From >= target {
		return nil
	}
	if cut := s.cursor.Cut; cut != nil {
		s.cursor.Lost.Add(cut.Told.Lines, cut.Told.First, cut.Told.Last)
	}
	before := s.cursor.Lost.Lines
	if cut := s.cursor.Cut; cut != nil {
		s.cursor.Lost.Add(cut.Lines, cut.First, cut.Last)
		s.abandoned = cut
		s.cursor.From, s.cursor.Cut = cut.To, nil
	}
	s.cursor.Carry = nil
	header = s.passLocked(target)
	s.depot.cfg.OnDrop(s.cursor.Lost.Lines - before)
	return header
}

// passLocked moves the cursor over the frames that begin before target. Where
// the last begins with a header that is not whole, its bytes are given back
// and the cursor stays before them.
func (s *Stream) passLocked(target int64) (header []byte) {
	var scanner Scanner
	scanner.start(s.readLocked, s.cursor.From)
	for scanner.At() < target {
		frame, err := scanner.Next()
		if err != nil {
			s.cursor.From = max(s.cursor.From, target) // out of step; whoever reads on will see it
			return nil
		}
		if frame == nil {
			break
		}
		s.countLocked(frame)
	}
	s.cursor.From = scanner.At()
	if s.cursor.From >= target {
		return nil
	}
	if n := scanner.need(); n > 0 {
		s.cursor.From += n // its rest will be passed over when it comes
		s.cursor.Lost.Add(1, time.Now().UnixNano(), time.Now().UnixNano())
		return nil
	}
	return append([]byte(nil), scanner.held...)
}

func (s *Stream) countLocked(frame []byte) {
	var e entry.Entry
	if e.Decode(frame[entry.HeaderSize:]) != nil {
		e = entry.Entry{Time: time.Now().UnixNano()}
	}
	if e.Ends() {
		s.cursor.Lost.Add(1, e.Time, e.Time)
	}
}

// restartLocked replaces the active segment, all of which was passed over, by
// one that begins with the header's bytes.
func (s *Stream) restartLocked(header []byte) bool {
	s.clearLocked()
	if len(header) == 0 {
		return true
	}
	if err := s.rotateLocked(s.end-int64(len(header)), header); err != nil {
		s.step = true // the header's bytes are gone: nothing behind them can be understood
		s.cursor.From = s.end
		s.depot.cfg.Logger.Error("spooled bytes lost", "stream", s.ID, "err", err)
	}
	return true
}
