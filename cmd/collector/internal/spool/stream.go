package spool

import (
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

	// Segments are an eighth of a stream's bound, within these: what is
	// dropped at once should be little of it.
	minSegment = 16 << 10
	maxSegment = 1 << 20
	// keepConsumed is how large a file may stay whose bytes are all delivered.
	keepConsumed = 64 << 10
)

// ErrReopen says that a FIFO is out of step and empty, and must be opened anew.
var ErrReopen = errors.New("the FIFO was out of step")

// Stream is the bytes of one FIFO. One goroutine calls Take, another the
// methods of the cursor; the rest may be called by anyone.
type Stream struct {
	ID    string
	depot *Depot
	dir   string
	about []byte
	news  chan struct{} // one: that there is something new, not how much

	mu        sync.Mutex
	max       int64
	cursor    Cursor
	abandoned *Cut      // dropped while it may have been on its way
	segments  []segment // by start, without gaps; the last is active
	active    *os.File  // nil before the first byte and in the void
	old       *os.File  // the segment of segments[0], where it was read last and is not active
	oldStart  int64
	end       int64 // position of the next byte
	synced    int64
	over      bool
	step      bool // out of step: see Break
	void      *void
	scratch   []byte // for file systems without splice
}

type segment struct {
	start, size int64
	born        time.Time // when the oldest byte that waits came in
}

func (s segment) end() int64 { return s.start + s.size }

func newStream(d *Depot, dir string, about []byte) *Stream {
	return &Stream{ID: filepath.Base(dir), depot: d, dir: dir, about: about, max: d.cfg.MaxBytes, news: make(chan struct{}, 1)}
}

func loadStream(d *Depot, dir string) (*Stream, error) {
	about, err := os.ReadFile(filepath.Join(dir, aboutFile))
	if err != nil {
		return nil, err
	}
	s := newStream(d, dir, about)
	if err := s.loadSegments(); err != nil {
		return nil, err
	}
	if err := s.loadCursor(); err != nil {
		d.cfg.Logger.Error("cursor not readable: lines may be sent twice, or be lost", "stream", s.ID, "err", err)
	}
	if len(s.segments) > 0 {
		s.cursor.From = max(s.cursor.From, s.segments[0].start)
		s.end = s.segments[len(s.segments)-1].end()
	} else {
		s.end = s.cursor.End
		s.step = s.cursor.From < s.end // bytes are missing: killed while they were moved, or the power was lost
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
		s.depot.bytes.Add(info.Size())
	}
	slices.SortFunc(s.segments, func(a, b segment) int { return int(min(1, max(-1, a.start-b.start))) })
	return nil
}

// About is what Create was given.
func (s *Stream) About() []byte { return s.about }

// Limit bounds the stream; 0: only the depot's bound does.
func (s *Stream) Limit(maxBytes int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.max = s.depot.cfg.MaxBytes
	if maxBytes > 0 {
		s.max = min(s.max, maxBytes)
	}
}

// News is signalled after bytes were taken and after Finish.
func (s *Stream) News() <-chan struct{} { return s.news }

func (s *Stream) tell() {
	select {
	case s.news <- struct{}{}:
	default: // it has been told and has not looked yet
	}
}

// Waiting is how many bytes are not delivered, and whether more may come.
func (s *Stream) Waiting() (bytes int64, over bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return max(0, s.end-s.cursor.From), s.over
}

// End is the position of the next byte: how many were taken in all.
func (s *Stream) End() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.end
}

// Finish says that no more will come.
func (s *Stream) Finish() {
	s.mu.Lock()
	s.over = true
	s.mu.Unlock()
	s.tell()
}

// Take moves what a FIFO holds into the stream, without waiting. It gives
// EAGAIN where the FIFO is empty, 0 where nobody will write to it any more.
// The disk never stops it: see the package's states.
func (s *Stream) Take(fifo int) (int, error) {
	n, err := s.take(fifo)
	if full(err) && s.depot.relieve() {
		n, err = s.take(fifo)
	}
	if err != nil && !ofTheFIFO(err) {
		n, err = s.enterVoid(fifo, err)
	}
	if n > 0 {
		s.tell()
		if s.depot.Bytes() > s.depot.MaxBytes() {
			s.depot.trim()
		}
	}
	return n, err
}

// ofTheFIFO tells what Take answers from what it deals with itself.
func ofTheFIFO(err error) bool { return errors.Is(err, unix.EAGAIN) || errors.Is(err, ErrReopen) }

// full tells an error that goes away when something is removed.
func full(err error) bool { return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) }

func (s *Stream) take(fifo int) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.step {
		return 0, s.drainLocked(fifo)
	}
	if s.void != nil && !s.leaveVoidLocked() {
		return s.voidLocked(fifo)
	}
	if err := s.openActiveLocked(); err != nil {
		return 0, err
	}
	last := &s.segments[len(s.segments)-1]
	n, err := s.moveLocked(fifo, last.size, int(s.segmentBytes()-last.size))
	if n <= 0 {
		return 0, err
	}
	if s.cursor.From >= s.end {
		last.born = time.Now()
	}
	last.size += int64(n)
	s.end += int64(n)
	s.depot.bytes.Add(int64(n))
	for s.bytesLocked() > s.max && s.dropLocked() {
	}
	return n, nil
}

// moveLocked is splice, or a copy where the file system has none. EAGAIN is
// the FIFO's; a file gives none.
func (s *Stream) moveLocked(fifo int, at int64, room int) (int, error) {
	for {
		offset := at
		n, err := unix.Splice(fifo, nil, int(s.active.Fd()), &offset, room, unix.SPLICE_F_NONBLOCK|unix.SPLICE_F_MOVE)
		switch {
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.EINVAL):
			return s.copyLocked(fifo, at, room)
		case err != nil:
			return 0, err
		default:
			return int(n), nil
		}
	}
}

func (s *Stream) copyLocked(fifo int, at int64, room int) (int, error) {
	if s.scratch == nil {
		s.scratch = make([]byte, keepConsumed)
	}
	n, err := unix.Read(fifo, s.scratch[:min(room, len(s.scratch))])
	if n <= 0 {
		return 0, err
	}
	if _, err := s.active.WriteAt(s.scratch[:n], at); err != nil {
		// These bytes are no longer in the FIFO and not in the file: what
		// follows cannot be understood any more.
		s.lostLocked(1, time.Now(), time.Now())
		s.step = true
		return 0, err
	}
	return n, nil
}

func (s *Stream) segmentBytes() int64 { return max(minSegment, min(maxSegment, s.max/8)) }

func (s *Stream) bytesLocked() (sum int64) {
	for _, seg := range s.segments {
		sum += seg.size
	}
	return sum
}

// openActiveLocked has a segment to write to that is not full.
func (s *Stream) openActiveLocked() (err error) {
	if s.active == nil && len(s.segments) > 0 && s.segments[len(s.segments)-1].size < s.segmentBytes() {
		s.active, err = os.OpenFile(s.path(s.segments[len(s.segments)-1].start), os.O_RDWR, 0o600)
		return err
	}
	if s.active != nil && s.segments[len(s.segments)-1].size < s.segmentBytes() {
		return nil
	}
	return s.rotateLocked(s.end, nil)
}

// rotateLocked begins a segment at start, with its first bytes.
func (s *Stream) rotateLocked(start int64, first []byte) error {
	next, err := os.OpenFile(s.path(start), os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	if _, err := next.Write(first); err != nil {
		return errors.Join(err, next.Close(), os.Remove(next.Name()))
	}
	if s.active != nil {
		s.active.Close() // written through already; nothing is buffered here
	}
	s.active = next
	s.segments = append(s.segments, segment{start, int64(len(first)), time.Now()})
	s.depot.bytes.Add(int64(len(first)))
	return nil
}

func (s *Stream) path(start int64) string {
	return filepath.Join(s.dir, fmt.Sprintf("%016x%s", start, segmentSuffix))
}

// ErrGone says that bytes were asked for that are not there any more, because
// they were dropped meanwhile.
var ErrGone = errors.New("spool: these bytes are gone")

// ReadAt reads from a position as much as there is and p takes.
func (s *Stream) ReadAt(p []byte, at int64) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.readLocked(p, at)
}

func (s *Stream) readLocked(p []byte, at int64) (n int, err error) {
	if at < s.end && (len(s.segments) == 0 || at < s.segments[0].start) {
		return 0, ErrGone
	}
	for i := range s.segments {
		seg := s.segments[i]
		if at >= seg.end() || n == len(p) {
			continue
		}
		file, err := s.fileLocked(i)
		if err != nil {
			return n, err
		}
		want := p[n:min(len(p), n+int(seg.end()-at))]
		if _, err := file.ReadAt(want, at-seg.start); err != nil {
			return n, fmt.Errorf("spool: %w", err)
		}
		n += len(want)
		at += int64(len(want))
	}
	return n, nil
}

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
		s.old.Close() // read only
	}
	s.old, s.oldStart = file, start
	return file, nil
}

// releaseLocked removes the segments that are delivered whole, and begins a
// new one where the active one is large and empty of anything that waits.
func (s *Stream) releaseLocked() {
	if n := len(s.segments); n > 0 && s.cursor.From >= s.end && s.segments[n-1].size >= min(keepConsumed, s.segmentBytes()/2) {
		s.clearLocked()
		return
	}
	gone := 0
	for gone < len(s.segments)-1 && s.segments[gone].end() <= s.cursor.From {
		gone++
	}
	s.removeLocked(gone)
}

// clearLocked writes the cursor and removes every segment.
func (s *Stream) clearLocked() {
	s.saveLocked()
	if s.active != nil {
		s.active.Close() // nothing in it is needed
		s.active = nil
	}
	s.removeLocked(len(s.segments))
}

// removeLocked removes the first n segments' files.
func (s *Stream) removeLocked(n int) {
	for _, seg := range s.segments[:n] {
		if err := os.Remove(s.path(seg.start)); err != nil {
			s.depot.cfg.Logger.Error("spooled segment not removed", "stream", s.ID, "err", err)
		}
		s.depot.bytes.Add(-seg.size)
		if s.old != nil && s.oldStart == seg.start {
			s.old.Close() // read only
			s.old = nil
		}
	}
	s.segments = slices.Delete(s.segments, 0, n)
}

// unsynced are the files that hold bytes which wait and are not synced.
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

// Remove ends a stream that is delivered whole, or not wanted.
func (s *Stream) Remove() error {
	s.depot.mu.Lock()
	delete(s.depot.streams, s.ID)
	s.depot.mu.Unlock()
	err := s.close()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.depot.bytes.Add(-s.bytesLocked())
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
