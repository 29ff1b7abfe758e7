package spool

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const (
	aboutFile     = "about.json"
	cursorFile    = "cursor.json"
	segmentSuffix = ".seg"

	// A segment is an eighth of a stream's bound, within these limits: dropping
	// one segment should lose only a small part of the stream.
	minSegment = 16 << 10
	maxSegment = 1 << 20
	// maxDelivered is how large a segment may become before it is removed
	// although it is the active one, once all its bytes are delivered.
	maxDelivered = 64 << 10
)

var (
	// ErrReopen reports that the FIFO was out of sync and has been emptied. The
	// caller must reopen it.
	ErrReopen = errors.New("the FIFO was out of sync")
	// ErrGone reports that bytes were dropped before they were read.
	ErrGone = errors.New("spool: these bytes were dropped")
)

// Stream holds the bytes of one FIFO. One goroutine calls Receive and another
// one the methods of the cursor; any goroutine may call the other methods.
type Stream struct {
	ID      string
	spool   *Spool
	dir     string
	about   []byte
	changed chan struct{} // capacity 1: says that something changed, not how much

	mu         sync.Mutex
	max        int64
	cursor     Cursor
	dropped    *Batch    // a batch that was dropped while it was being sent
	segments   []segment // sorted, without gaps; the last one is the active one
	active     *os.File  // nil before the first byte and while discarding
	old        *os.File  // the inactive segment that was read last
	oldStart   int64     // its start
	end        int64     // position of the next byte
	synced     int64     // position up to which the segments are synced
	ended      bool      // no more bytes will come
	outOfSync  bool      // the boundaries of the frames are lost
	discarding *discarding
	scratch    []byte
}

type segment struct {
	start, size int64
	since       time.Time // when the oldest pending byte was read
}

func (s segment) end() int64 { return s.start + s.size }

func newStream(sp *Spool, dir string, about []byte) *Stream {
	return &Stream{ID: filepath.Base(dir), spool: sp, dir: dir, about: about, max: sp.cfg.MaxBytes, changed: make(chan struct{}, 1)}
}

func loadStream(sp *Spool, dir string) (*Stream, error) {
	about, err := os.ReadFile(filepath.Join(dir, aboutFile))
	if err != nil {
		return nil, err
	}
	s := newStream(sp, dir, about)
	if err := s.loadSegments(); err != nil {
		return nil, err
	}
	if err := s.loadCursor(); err != nil {
		sp.cfg.Logger.Error("cursor not loaded; lines may be sent twice or be lost", "stream", s.ID, "err", err)
	}
	if len(s.segments) > 0 {
		s.cursor.From = max(s.cursor.From, s.segments[0].start)
		s.end = s.segments[len(s.segments)-1].end()
	} else {
		s.end = s.cursor.End
		s.outOfSync = s.cursor.From < s.end // bytes are missing: the process was killed while it moved them, or the power was lost
		s.cursor.From = max(s.cursor.From, s.end)
	}
	return s, nil
}

func (s *Stream) loadSegments() error {
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name(), segmentSuffix)
		if !ok {
			continue
		}
		start, err := strconv.ParseInt(name, 16, 64)
		if err != nil {
			return fmt.Errorf("segment %s: %w", e.Name(), err)
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		s.segments = append(s.segments, segment{start, info.Size(), info.ModTime()})
		s.spool.bytes.Add(info.Size())
	}
	slices.SortFunc(s.segments, func(a, b segment) int { return cmp.Compare(a.start, b.start) })
	return nil
}

// About returns what Create was given.
func (s *Stream) About() []byte { return s.about }

// SetLimit bounds the stream, in bytes; with 0 only the bound of the spool
// applies.
func (s *Stream) SetLimit(maxBytes int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.max = s.spool.cfg.MaxBytes
	if maxBytes > 0 {
		s.max = min(s.max, maxBytes)
	}
}

// Changed returns a channel that receives after Receive has stored bytes and
// after Finish.
func (s *Stream) Changed() <-chan struct{} { return s.changed }

func (s *Stream) signalChange() {
	select {
	case s.changed <- struct{}{}:
	default: // the last signal has not been received yet
	}
}

// Pending returns how many bytes are not delivered, and whether Finish was
// called.
func (s *Stream) Pending() (bytes int64, ended bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return max(0, s.end-s.cursor.From), s.ended
}

// End returns the position of the next byte, which is the number of bytes that
// were ever received.
func (s *Stream) End() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.end
}

// Finish records that no more bytes will come.
func (s *Stream) Finish() {
	s.mu.Lock()
	s.ended = true
	s.mu.Unlock()
	s.signalChange()
}

// Receive moves what a FIFO holds into the stream, without waiting. It returns
// EAGAIN if the FIFO is empty, and 0 if no process has it open for writing any
// more. It never fails because of the disk: see the states in the package
// comment.
func (s *Stream) Receive(fifo int) (int, error) {
	n, err := s.receive(fifo)
	if (errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT)) && s.spool.dropOldest() {
		n, err = s.receive(fifo)
	}
	if err != nil && !isFIFOError(err) {
		n, err = s.startDiscarding(fifo, err)
	}
	if n > 0 {
		s.signalChange()
		s.spool.enforceLimit()
	}
	return n, err
}

// isFIFOError tells the errors that Receive returns from those that it handles
// itself.
func isFIFOError(err error) bool { return errors.Is(err, unix.EAGAIN) || errors.Is(err, ErrReopen) }

func (s *Stream) receive(fifo int) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.outOfSync {
		return 0, s.drainLocked(fifo)
	}
	if s.discarding != nil && !s.stopDiscardingLocked() {
		return s.discardLocked(fifo)
	}
	if err := s.openActiveLocked(); err != nil {
		return 0, err
	}
	last := &s.segments[len(s.segments)-1]
	n, err := s.spliceLocked(fifo, last.size, int(s.segmentBytes()-last.size))
	if n <= 0 {
		return 0, err
	}
	if s.cursor.From >= s.end {
		last.since = time.Now()
	}
	last.size += int64(n)
	s.end += int64(n)
	s.spool.bytes.Add(int64(n))
	for s.bytesLocked() > s.max && s.dropLocked() {
	}
	return n, nil
}

// spliceLocked moves up to room bytes from the FIFO to an offset of the active
// segment, or copies them if the file system has no splice. EAGAIN comes from
// the FIFO; a file never returns it.
func (s *Stream) spliceLocked(fifo int, offset int64, room int) (int, error) {
	for {
		to := offset
		n, err := unix.Splice(fifo, nil, int(s.active.Fd()), &to, room, unix.SPLICE_F_NONBLOCK|unix.SPLICE_F_MOVE)
		switch {
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.EINVAL):
			return s.copyLocked(fifo, offset, room)
		case err != nil:
			return 0, err
		default:
			return int(n), nil
		}
	}
}

func (s *Stream) copyLocked(fifo int, offset int64, room int) (int, error) {
	scratch := s.scratchLocked()
	n, err := unix.Read(fifo, scratch[:min(room, len(scratch))])
	if n <= 0 {
		return 0, err
	}
	if _, err := s.active.WriteAt(scratch[:n], offset); err != nil {
		// These bytes are neither in the FIFO nor in the file, so the bytes
		// behind them cannot be decoded.
		s.loseLineLocked()
		s.outOfSync = true
		return 0, err
	}
	return n, nil
}

// scratchLocked returns a buffer for reads that do not splice.
func (s *Stream) scratchLocked() []byte {
	if s.scratch == nil {
		s.scratch = make([]byte, maxDelivered)
	}
	return s.scratch
}

func (s *Stream) segmentBytes() int64 { return max(minSegment, min(maxSegment, s.max/8)) }

func (s *Stream) bytesLocked() (sum int64) {
	for _, seg := range s.segments {
		sum += seg.size
	}
	return sum
}

// openActiveLocked ensures that there is an active segment that is not full.
func (s *Stream) openActiveLocked() (err error) {
	if len(s.segments) == 0 || s.segments[len(s.segments)-1].size >= s.segmentBytes() {
		return s.startSegmentLocked(s.end, nil)
	}
	if s.active == nil {
		s.active, err = os.OpenFile(s.path(s.segments[len(s.segments)-1].start), os.O_RDWR, 0o600)
	}
	return err
}

// startSegmentLocked creates a segment with its first bytes and makes it the
// active one.
func (s *Stream) startSegmentLocked(start int64, first []byte) error {
	next, err := os.OpenFile(s.path(start), os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	if _, err := next.Write(first); err != nil {
		return errors.Join(err, next.Close(), os.Remove(next.Name()))
	}
	if s.active != nil {
		s.active.Close() // nothing is buffered in this process
	}
	s.active = next
	s.segments = append(s.segments, segment{start, int64(len(first)), time.Now()})
	s.spool.bytes.Add(int64(len(first)))
	return nil
}

func (s *Stream) path(start int64) string {
	return filepath.Join(s.dir, fmt.Sprintf("%016x%s", start, segmentSuffix))
}

// ReadAt reads bytes from a position on into p. It returns fewer bytes than
// len(p), without an error, at the end of the stream.
func (s *Stream) ReadAt(p []byte, position int64) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.readLocked(p, position)
}

func (s *Stream) readLocked(p []byte, position int64) (n int, err error) {
	if position < s.end && (len(s.segments) == 0 || position < s.segments[0].start) {
		return 0, ErrGone
	}
	for i, seg := range s.segments {
		if position >= seg.end() || n == len(p) {
			continue
		}
		file, err := s.fileLocked(i)
		if err != nil {
			return n, err
		}
		part := p[n:min(len(p), n+int(seg.end()-position))]
		if _, err := file.ReadAt(part, position-seg.start); err != nil {
			return n, fmt.Errorf("spool: %w", err)
		}
		n += len(part)
		position += int64(len(part))
	}
	return n, nil
}

// fileLocked returns the file of a segment, open for reading.
func (s *Stream) fileLocked(i int) (file *os.File, err error) {
	start := s.segments[i].start
	if i == len(s.segments)-1 && s.active != nil {
		return s.active, nil
	}
	if s.old != nil && s.oldStart == start {
		return s.old, nil
	}
	if file, err = os.Open(s.path(start)); err != nil {
		return nil, fmt.Errorf("spool: %w", err)
	}
	if s.old != nil {
		s.old.Close() // it was only read
	}
	s.old, s.oldStart = file, start
	return file, nil
}

// truncateLocked removes the segments that are delivered. It removes the active
// one only if it is large.
func (s *Stream) truncateLocked() {
	if n := len(s.segments); n > 0 && s.cursor.From >= s.end && s.segments[n-1].size >= min(maxDelivered, s.segmentBytes()/2) {
		s.removeAllLocked()
		return
	}
	delivered := 0
	for delivered < len(s.segments)-1 && s.segments[delivered].end() <= s.cursor.From {
		delivered++
	}
	s.removeLocked(delivered)
}

// removeAllLocked writes the cursor and removes every segment.
func (s *Stream) removeAllLocked() {
	s.saveLocked()
	if s.active != nil {
		s.active.Close() // its content is not needed
		s.active = nil
	}
	s.removeLocked(len(s.segments))
}

// removeLocked removes the files of the first n segments.
func (s *Stream) removeLocked(n int) {
	for _, seg := range s.segments[:n] {
		if err := os.Remove(s.path(seg.start)); err != nil {
			s.spool.cfg.Logger.Error("spooled segment not removed", "stream", s.ID, "err", err)
		}
		s.spool.bytes.Add(-seg.size)
		if s.old != nil && s.oldStart == seg.start {
			s.old.Close() // it was only read
			s.old = nil
		}
	}
	s.segments = slices.Delete(s.segments, 0, n)
}

// unsynced returns the files that hold pending bytes which are not synced, and
// counts them as synced.
func (s *Stream) unsynced() (paths []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cursor.From >= s.end || s.synced >= s.end {
		return nil
	}
	for _, seg := range s.segments {
		if seg.end() > s.synced {
			paths = append(paths, s.path(seg.start))
		}
	}
	s.synced = s.end
	return paths
}

// Remove deletes the stream with all its files.
func (s *Stream) Remove() error {
	s.spool.mu.Lock()
	delete(s.spool.streams, s.ID)
	s.spool.mu.Unlock()
	err := s.close()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.spool.bytes.Add(-s.bytesLocked())
	s.segments = nil
	return errors.Join(err, os.RemoveAll(s.dir))
}

func (s *Stream) close() (err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, file := range []**os.File{&s.active, &s.old} {
		if *file != nil {
			err = errors.Join(err, (*file).Close())
			*file = nil
		}
	}
	return err
}
