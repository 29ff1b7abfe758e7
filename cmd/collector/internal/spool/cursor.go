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

// Cursor says how far a stream is delivered. It is written, whole or not at
// all, when a batch begins and when it ends.
type Cursor struct {
	// From is the position of the first byte that is not delivered. A frame
	// always begins there.
	From int64 `json:"from"`
	// End is the end of the stream when the cursor was written. It is needed
	// when no segment is left.
	End int64 `json:"end"`
	// OpenFrames holds the frames before From whose lines have not ended yet.
	OpenFrames []byte `json:"carry,omitempty"`
	// Batch is the batch that is being sent, if any. It does not change until
	// it is delivered, so that a retry has the same body and the same key.
	Batch *Batch `json:"cut,omitempty"`
	// Lost counts dropped lines that no batch has reported yet.
	Lost Loss `json:"lost,omitzero"`
}

// Batch is a batch that is being sent: the lines that end in the frames from
// Cursor.From to To.
type Batch struct {
	ID          string `json:"id"`
	To          int64  `json:"to"`
	Final       bool   `json:"final,omitempty"` // the stream has ended: its open lines end with this batch
	Lines       int64  `json:"lines"`
	First, Last int64  // the times of the lines, in nanoseconds since the epoch
	Reported    Loss   `json:"told,omitzero"` // the loss that this batch reports
}

// Loss counts dropped lines, and says when they were written.
type Loss struct {
	Lines       int64 `json:"lines"`
	First, Last int64 // nanoseconds since the epoch
}

// add adds lines to the loss.
func (l *Loss) add(lines, first, last int64) {
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
		return nil // no batch was ever sent
	}
	if err != nil {
		return err
	}
	defer file.Close()
	var c Cursor
	if err := json.NewDecoder(file).Decode(&c); err != nil { // reads the first value only; see writeCursor
		return fmt.Errorf("%s: %w", cursorFile, err)
	}
	s.cursor = c
	return nil
}

// Cursor returns the current cursor.
func (s *Stream) Cursor() Cursor {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cursor
}

// BeginBatch stores a batch before it is sent for the first time. It returns
// ErrGone if the cursor has moved since the batch was built, or if the stream
// has lost more lines than the batch reports.
func (s *Stream) BeginBatch(from int64, batch Batch) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cursor.From != from || s.cursor.Batch != nil || s.cursor.Lost != batch.Reported {
		return ErrGone
	}
	s.cursor.Lost = Loss{}
	s.cursor.Batch = &batch
	s.saveLocked()
	return nil
}

// CommitBatch records that a batch was delivered. openFrames are the frames of
// the lines that did not end in it.
func (s *Stream) CommitBatch(id string, openFrames []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if batch := s.cursor.Batch; batch != nil && batch.ID == id {
		s.cursor = Cursor{From: batch.To, OpenFrames: openFrames, Lost: s.cursor.Lost}
		s.saveAndTruncateLocked()
		return
	}
	if batch := s.dropped; batch != nil && batch.ID == id {
		s.cursor.Lost.Lines -= batch.Lines + batch.Reported.Lines // it was delivered after all
		if s.cursor.Lost.Lines <= 0 {
			s.cursor.Lost = Loss{}
		}
		s.dropped = nil
		s.saveLocked()
	}
}

// CancelBatch withdraws a batch that the server did not accept, so that other
// batches can be built from its lines.
func (s *Stream) CancelBatch(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if batch := s.cursor.Batch; batch != nil && batch.ID == id {
		s.cursor.Lost.add(batch.Reported.Lines, batch.Reported.First, batch.Reported.Last)
		s.cursor.Batch = nil
		s.saveLocked()
	}
}

// Skip moves the cursor over frames in which no line ends. openFrames are the
// frames of all open lines.
func (s *Stream) Skip(from, to int64, openFrames []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cursor.From != from || s.cursor.Batch != nil {
		return // these frames were dropped meanwhile
	}
	s.cursor.From, s.cursor.OpenFrames = to, openFrames
	s.saveAndTruncateLocked()
}

// Resync discards the stream from a position at which ErrBadFrame was found. The
// next Receive discards the content of the FIFO too. How many lines are lost is
// unknown; they count as one.
func (s *Stream) Resync(position int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cursor.From > position {
		return // these bytes were dropped meanwhile
	}
	now := time.Now().UnixNano()
	s.cursor.Lost.add(1, now, now)
	s.cursor.From, s.cursor.OpenFrames, s.cursor.Batch = s.end, nil, nil
	s.outOfSync = !s.ended
	s.saveAndTruncateLocked()
}

// saveAndTruncateLocked writes the cursor and only then removes the segments
// that it has passed.
func (s *Stream) saveAndTruncateLocked() {
	s.saveLocked()
	s.truncateLocked()
}

// saveLocked writes the cursor. If the disk fails, the cursor in memory still
// moves on: otherwise the stream would never free any room. A kill before the
// next successful write then sends lines twice.
func (s *Stream) saveLocked() {
	s.cursor.End = s.end
	text, err := json.Marshal(s.cursor)
	if err == nil {
		err = writeCursor(filepath.Join(s.dir, cursorFile), text)
	}
	if err != nil {
		s.spool.cfg.Logger.Error("cursor not written; a kill may now send lines twice", "stream", s.ID, "err", err)
	}
}

// pageSize is the largest write that reaches the kernel's cache whole or not at
// all, whenever the process is killed.
const pageSize = 4096

// writeCursor replaces the content of the file. A text of less than a page is
// written in place, because a rename would make the file system write to the
// disk for every batch. Blanks fill the page, so that no end of a longer, older
// text remains.
func writeCursor(path string, text []byte) error {
	if len(text) >= pageSize {
		return errors.Join(os.WriteFile(path+unfinishedSuffix, text, 0o600), os.Rename(path+unfinishedSuffix, path))
	}
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	blanks := bytes.Repeat([]byte(" "), pageSize-len(text))
	_, err = file.WriteAt(append(text, blanks...), 0)
	return errors.Join(err, file.Close())
}
