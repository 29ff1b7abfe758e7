package spool

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// Cursor is how far a stream has been delivered. It is written, whole or not
// at all, whenever a batch begins and whenever one ends.
type Cursor struct {
	// From is the position of the first byte that is not delivered; always
	// the beginning of a frame.
	From int64 `json:"from"`
	// End is the position behind the last byte when the cursor was written,
	// for a stream of which no byte is left.
	End int64 `json:"end"`
	// Carry is the frames before From of lines that are not whole yet.
	Carry []byte `json:"carry,omitempty"`
	// Cut is the batch under way. It stays as it is until it is delivered, so
	// that a repeat is the same body under the same key.
	Cut *Cut `json:"cut,omitempty"`
	// Lost is what was dropped and not yet told.
	Lost Lost `json:"lost,omitzero"`
}

// Cut is a batch: the lines that end in the frames from Cursor.From to To.
type Cut struct {
	ID          string `json:"id"`
	To          int64  `json:"to"`
	Final       bool   `json:"final,omitempty"` // the stream is over: lines that were never ended end here
	Lines       int64  `json:"lines"`
	First, Last int64  // the lines' times, in nanoseconds
	Told        Lost   `json:"told,omitzero"` // what the batch says was lost
}

// Lost counts lines that were dropped, and when they were written.
type Lost struct {
	Lines       int64 `json:"lines"`
	First, Last int64 // nanoseconds since the epoch
}

// Add counts further lines.
func (l *Lost) Add(lines, first, last int64) {
	if lines <= 0 {
		return
	}
	if l.Lines == 0 {
		l.First, l.Last = first, last
	}
	l.Lines += lines
	l.First, l.Last = min(l.First, first), max(l.Last, last)
}

func (s *Stream) loadCursor() error {
	file, err := os.Open(filepath.Join(s.dir, cursorFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil // nothing was ever sent
	}
	if err != nil {
		return err
	}
	defer file.Close()
	var c Cursor
	if err := json.NewDecoder(file).Decode(&c); err != nil { // the first value; see writeCursor
		return fmt.Errorf("%s: %w", cursorFile, err)
	}
	s.cursor = c
	return nil
}

// Cursor is the present one.
func (s *Stream) Cursor() Cursor {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cursor
}

// Begin writes down a batch before it is sent for the first time. It fails
// where the stream has moved on from the position meanwhile, or has lost more
// than the batch tells.
func (s *Stream) Begin(from int64, cut Cut) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cursor.From != from || s.cursor.Cut != nil || s.cursor.Lost != cut.Told {
		return ErrGone
	}
	s.cursor.Lost = Lost{}
	s.cursor.Cut = &cut
	s.saveLocked()
	return nil
}

// Commit says that a batch was delivered; carry is what it leaves over.
func (s *Stream) Commit(id string, carry []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if cut := s.cursor.Cut; cut != nil && cut.ID == id {
		s.cursor = Cursor{From: cut.To, Carry: carry, Lost: s.cursor.Lost}
		s.settleLocked()
		return
	}
	if cut := s.abandoned; cut != nil && cut.ID == id {
		s.cursor.Lost.Lines -= cut.Lines + cut.Told.Lines // it was delivered after all
		if s.cursor.Lost.Lines <= 0 {
			s.cursor.Lost = Lost{}
		}
		s.abandoned = nil
		s.saveLocked()
	}
}

// Advance passes over frames that end no line: they are carried on.
func (s *Stream) Advance(from, to int64, carry []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cursor.From != from || s.cursor.Cut != nil {
		return // dropped meanwhile
	}
	s.cursor.From, s.cursor.Carry = to, carry
	s.settleLocked()
}

// Recut takes back the batch under way, which was refused as it is, so that
// another can be made of the same lines. It must not have been accepted.
func (s *Stream) Recut(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if cut := s.cursor.Cut; cut != nil && cut.ID == id {
		s.cursor.Lost.Add(cut.Told.Lines, cut.Told.First, cut.Told.Last)
		s.cursor.Cut = nil
		s.saveLocked()
	}
}

// Break throws away what the stream holds from a position on where no frame
// can be found, and what the FIFO holds when it is looked at next.
func (s *Stream) Break(at int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cursor.From > at {
		return // dropped meanwhile
	}
	s.cursor.Lost.Add(1, time.Now().UnixNano(), time.Now().UnixNano()) // how many it is, nobody can tell
	s.cursor.From, s.cursor.Carry, s.cursor.Cut = s.end, nil, nil
	s.step = !s.over
	s.settleLocked()
}

func (s *Stream) lostLocked(lines int64, first, last time.Time) {
	s.cursor.Lost.Add(lines, first.UnixNano(), last.UnixNano())
	s.depot.cfg.OnDrop(lines)
}

// settleLocked writes the cursor and only then removes what it has passed.
func (s *Stream) settleLocked() {
	s.saveLocked()
	s.releaseLocked()
}

// saveLocked writes the cursor. Where the disk refuses, the one in memory
// counts: a stream that could not go on would never free the disk. A kill
// before the next cursor is written then sends lines twice.
func (s *Stream) saveLocked() {
	s.cursor.End = s.end
	text, err := json.Marshal(s.cursor)
	if err == nil {
		err = writeCursor(filepath.Join(s.dir, cursorFile), text)
	}
	if err != nil {
		s.depot.cfg.Logger.Error("cursor not written: after a kill, lines may be sent twice", "stream", s.ID, "err", err)
	}
}

// page is as much as one write puts into the kernel's cache whole or not at
// all, whenever the process is killed.
const page = 4096

// writeCursor replaces the file's text. What fits a page is written in place:
// a rename would make the file system write to the disk for every batch. Blanks
// follow it, so that the end of a longer one before it is told from it.
func writeCursor(path string, text []byte) error {
	if len(text) >= page {
		return errors.Join(os.WriteFile(path+unfinished, text, 0o600), os.Rename(path+unfinished, path))
	}
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	blanks := bytes.Repeat([]byte(" "), page-len(text))
	_, err = file.WriteAt(append(text, blanks...), 0)
	return errors.Join(err, file.Close())
}
