// Package spool stores on disk, within a bound, what was read from the
// containers' FIFOs and is not delivered yet.
//
// It sits between the FIFOs and the sender. A Stream holds the bytes of one
// FIFO, unchanged, in files of one segment each. A Cursor beside them says how
// far the stream is delivered and which batch is being sent:
//
//	         delivered      │ batch being sent  │ pending             incomplete frame
//	…──────────────────── From ─────────────── Batch.To ────────────────┬──── end
//	removed, segment by segment                                         └ completed by the next read
//
// What a newcomer would get wrong is how little happens when bytes are read.
// They move from the FIFO to the file by splice(2), inside the kernel. At no
// moment have they left the one without being in the other, so that a kill -9
// loses and doubles nothing, incomplete frames included. (On a file system
// without splice they pass through this process; a kill between two system
// calls then loses up to 64 KiB.) Lines are found, joined and counted when a
// batch is built, from the bytes alone: the same bytes give the same batch,
// also after a restart.
//
// After a kill of the process, the kernel still has what was written. Against a
// loss of power, the spool syncs whatever has been pending for over a second,
// all streams in one round.
//
// States of a Stream:
//
//	         writing fails, even after the oldest segment was dropped
//	storing ──────────────────────────────────────────────────────▶ discarding: bytes are read and counted as lost
//	   ▲  ◀──────────────────────────────────────────────────────────  │
//	   │         a segment can be created again (tried once a second)
//	   │
//	   └── out of sync, after Resync: the stored bytes and the FIFO's are discarded and the FIFO is reopened
package spool

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// MinBytes is the smallest allowed bound of a spool.
	MinBytes = 1 << 20
	// syncEvery is the longest time for which pending bytes may be in the
	// kernel's cache only.
	syncEvery = time.Second
	// unfinishedSuffix ends the name of a file or folder until it is complete.
	unfinishedSuffix = ".new"
	// deadLetterFolder holds the batches that were refused for good.
	deadLetterFolder = "dead"
	// maxDeadLetters bounds the number of dead letters; the oldest is removed
	// first.
	maxDeadLetters = 16
)

// Config says where a spool is and how large it may become.
type Config struct {
	// Dir is the spool's folder. Open creates it if it is missing. Only one
	// process at a time may use it.
	Dir string
	// MaxBytes bounds all streams together; at least MinBytes. A stream may
	// exceed it by one segment for a moment.
	MaxBytes int64
	// Logger receives errors of the disk.
	Logger *slog.Logger
	// OnDrop is called with the number of lines that were dropped for lack of
	// room.
	OnDrop func(lines int64)
}

// Spool is the folder of all streams.
type Spool struct {
	cfg   Config
	lock  *os.File
	bytes atomic.Int64 // of all segments

	mu      sync.Mutex // locked before a stream's mutex, never after
	streams map[string]*Stream
}

// Open opens the spool of a folder and loads the streams that are in it. The
// caller closes the spool.
func Open(cfg Config) (*Spool, error) {
	if cfg.MaxBytes < MinBytes {
		return nil, fmt.Errorf("spool: a bound of %d bytes is less than the minimum, %d", cfg.MaxBytes, MinBytes)
	}
	if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("spool: %w", err)
	}
	lock, err := os.OpenFile(filepath.Join(cfg.Dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("spool: %w", err)
	}
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return nil, errors.Join(fmt.Errorf("spool: another process uses %s: %w", cfg.Dir, err), lock.Close())
	}
	sp := &Spool{cfg: cfg, lock: lock, streams: map[string]*Stream{}}
	if err := sp.load(); err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return sp, nil
}

// load loads the streams of an earlier process. It skips and logs a stream that
// cannot be read.
func (sp *Spool) load() error {
	entries, err := os.ReadDir(sp.cfg.Dir)
	if err != nil {
		return fmt.Errorf("spool: %w", err)
	}
	for _, e := range entries {
		path := filepath.Join(sp.cfg.Dir, e.Name())
		var err error
		switch {
		case !e.IsDir() || e.Name() == deadLetterFolder:
		case strings.HasSuffix(e.Name(), unfinishedSuffix):
			err = os.RemoveAll(path) // it holds no bytes of a FIFO yet
		default:
			var s *Stream
			if s, err = loadStream(sp, path); err == nil {
				sp.streams[s.ID] = s
			}
		}
		if err != nil {
			sp.cfg.Logger.Error("spooled stream not loaded", "path", path, "err", err)
		}
	}
	return nil
}

// Streams returns all streams in the order of their IDs.
func (sp *Spool) Streams() []*Stream {
	sp.mu.Lock()
	defer sp.mu.Unlock()
	return slices.SortedFunc(maps.Values(sp.streams), func(a, b *Stream) int { return strings.Compare(a.ID, b.ID) })
}

// Create creates a stream. The spool stores about beside it; Stream.About
// returns it, also after a restart. maxBytes bounds this stream; with 0 only
// the bound of the spool applies.
func (sp *Spool) Create(id string, about []byte, maxBytes int64) (*Stream, error) {
	path := filepath.Join(sp.cfg.Dir, id)
	sp.mu.Lock()
	defer sp.mu.Unlock()
	if err := os.Mkdir(path+unfinishedSuffix, 0o700); err != nil {
		return nil, fmt.Errorf("spool: %w", err)
	}
	err := errors.Join(
		os.WriteFile(filepath.Join(path+unfinishedSuffix, aboutFile), about, 0o600),
		os.Rename(path+unfinishedSuffix, path),
	)
	if err != nil {
		return nil, fmt.Errorf("spool: %w", errors.Join(err, os.RemoveAll(path+unfinishedSuffix)))
	}
	s := newStream(sp, path, about)
	s.SetLimit(maxBytes)
	sp.streams[id] = s
	return s, nil
}

// Bytes returns the size of all segments.
func (sp *Spool) Bytes() int64 { return sp.bytes.Load() }

// MaxBytes returns the bound of Bytes.
func (sp *Spool) MaxBytes() int64 { return sp.cfg.MaxBytes }

// enforceLimit drops the oldest segments of all streams until the spool is
// within its bound.
func (sp *Spool) enforceLimit() {
	for sp.bytes.Load() > sp.cfg.MaxBytes && sp.dropOldest() {
	}
}

// dropOldest drops the oldest segment of all streams and reports whether there
// was one.
func (sp *Spool) dropOldest() bool {
	sp.mu.Lock()
	defer sp.mu.Unlock()
	var oldest *Stream
	var oldestTime time.Time
	for _, s := range sp.streams {
		if t, ok := s.oldest(); ok && (oldest == nil || t.Before(oldestTime)) {
			oldest, oldestTime = s, t
		}
	}
	return oldest != nil && oldest.drop()
}

// Run syncs pending bytes once a second until ctx ends.
func (sp *Spool) Run(ctx context.Context) {
	ticker := time.NewTicker(syncEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			sp.sync()
		case <-ctx.Done():
			sp.sync()
			return
		}
	}
}

func (sp *Spool) sync() {
	for _, s := range sp.Streams() {
		for _, path := range s.unsynced() {
			if err := syncFile(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
				sp.cfg.Logger.Error("spool not synced", "err", err)
			}
		}
	}
}

// syncFile opens the file once more, so that the reader of the FIFO never waits
// for the disk behind a lock.
func syncFile(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(unix.Fdatasync(int(file.Fd())), file.Close())
}

// StoreDeadLetter stores the body of a batch that was refused for good, so that
// a person can inspect it. Only the newest dead letters are kept. IDs must begin
// with a time, so that the order of their names is the order of their age.
func (sp *Spool) StoreDeadLetter(id string, body []byte) error {
	folder := filepath.Join(sp.cfg.Dir, deadLetterFolder)
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return fmt.Errorf("dead letter: %w", err)
	}
	if err := os.WriteFile(filepath.Join(folder, id+".json"), body, 0o600); err != nil {
		return fmt.Errorf("dead letter: %w", err)
	}
	letters, err := os.ReadDir(folder)
	if err != nil {
		return fmt.Errorf("dead letters: %w", err)
	}
	for _, letter := range letters[:max(0, len(letters)-maxDeadLetters)] {
		err = errors.Join(err, os.Remove(filepath.Join(folder, letter.Name())))
	}
	return err
}

// Close closes the files and releases the folder. The streams must not be used
// any more.
func (sp *Spool) Close() error {
	var err error
	for _, s := range sp.Streams() {
		err = errors.Join(err, s.close())
	}
	return errors.Join(err, sp.lock.Close())
}
