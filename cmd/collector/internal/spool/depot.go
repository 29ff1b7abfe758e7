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

// MinBytes is the least that a depot's bound may be.
const MinBytes = 1 << 20

// syncEvery is how long bytes that wait may be in the kernel's cache only.
const syncEvery = time.Second

// unfinished ends the name of a stream's folder until it is whole.
const unfinished = ".new"

// Config says where a depot is and how large it may become.
type Config struct {
	// Dir is the folder; it is made where it is missing. One process at a
	// time may have it.
	Dir string
	// MaxBytes bounds all streams together, MinBytes or more. What a stream
	// has under way may go over it by one segment.
	MaxBytes int64
	// Logger takes what goes wrong with the disk.
	Logger *slog.Logger
	// OnDrop is told how many lines were dropped for want of room.
	OnDrop func(lines int64)
}

// Depot is the folder of all streams.
type Depot struct {
	cfg   Config
	lock  *os.File
	bytes atomic.Int64 // of all segments

	mu      sync.Mutex // taken before a stream's, never after
	streams map[string]*Stream
}

// Open takes a folder. Streams that are there already are Streams.
func Open(cfg Config) (*Depot, error) {
	if cfg.MaxBytes < MinBytes {
		return nil, fmt.Errorf("spool: %d bytes are under the least, %d", cfg.MaxBytes, MinBytes)
	}
	if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("spool: %w", err)
	}
	lock, err := os.OpenFile(filepath.Join(cfg.Dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("spool: %w", err)
	}
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return nil, errors.Join(fmt.Errorf("spool: another process has %s: %w", cfg.Dir, err), lock.Close())
	}
	d := &Depot{cfg: cfg, lock: lock, streams: map[string]*Stream{}}
	if err := d.load(); err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return d, nil
}

// load finds the streams of an earlier process. One that cannot be read costs
// only itself.
func (d *Depot) load() error {
	entries, err := os.ReadDir(d.cfg.Dir)
	if err != nil {
		return fmt.Errorf("spool: %w", err)
	}
	for _, e := range entries {
		path := filepath.Join(d.cfg.Dir, e.Name())
		switch {
		case !e.IsDir() || e.Name() == deadFolder:
		case strings.HasSuffix(e.Name(), unfinished):
			err = os.RemoveAll(path) // nothing was read into it yet
		default:
			var s *Stream
			if s, err = loadStream(d, path); err == nil {
				d.streams[s.ID] = s
			}
		}
		if err != nil {
			d.cfg.Logger.Error("spooled stream not readable", "path", path, "err", err)
		}
	}
	return nil
}

// Streams are all that are there, in the order of their ids.
func (d *Depot) Streams() []*Stream {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.SortedFunc(maps.Values(d.streams), func(a, b *Stream) int { return strings.Compare(a.ID, b.ID) })
}

// Create begins a stream; about is kept beside it and given back by About
// after a restart. maxBytes bounds this stream; 0: only the depot's bound does.
func (d *Depot) Create(id string, about []byte, maxBytes int64) (*Stream, error) {
	path := filepath.Join(d.cfg.Dir, id)
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := os.Mkdir(path+unfinished, 0o700); err != nil {
		return nil, fmt.Errorf("spool: %w", err)
	}
	err := errors.Join(
		os.WriteFile(filepath.Join(path+unfinished, aboutFile), about, 0o600),
		os.Rename(path+unfinished, path),
	)
	if err != nil {
		return nil, fmt.Errorf("spool: %w", errors.Join(err, os.RemoveAll(path+unfinished)))
	}
	s := newStream(d, path, about)
	s.Limit(maxBytes)
	d.streams[id] = s
	return s, nil
}

// Bytes is what all segments hold.
func (d *Depot) Bytes() int64 { return d.bytes.Load() }

// MaxBytes is the bound of Bytes.
func (d *Depot) MaxBytes() int64 { return d.cfg.MaxBytes }

// trim drops the oldest segments, of whichever streams, down to the bound.
func (d *Depot) trim() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for d.bytes.Load() > d.cfg.MaxBytes {
		if !d.dropOldestLocked() {
			return
		}
	}
}

// relieve drops the oldest segment, because the disk takes no more.
func (d *Depot) relieve() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.dropOldestLocked()
}

func (d *Depot) dropOldestLocked() bool {
	var oldest *Stream
	var born time.Time
	for _, s := range d.streams {
		if b, ok := s.oldest(); ok && (oldest == nil || b.Before(born)) {
			oldest, born = s, b
		}
	}
	return oldest != nil && oldest.drop()
}

// Run syncs what waits, from time to time, until ctx ends.
func (d *Depot) Run(ctx context.Context) error {
	ticker := time.NewTicker(syncEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			d.Sync()
		case <-ctx.Done():
			d.Sync()
			return ctx.Err()
		}
	}
}

// Sync puts what waits on the disk itself.
func (d *Depot) Sync() {
	for _, s := range d.Streams() {
		for _, path := range s.unsynced() {
			if err := syncFile(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
				d.cfg.Logger.Error("spool not synced", "err", err)
			}
		}
	}
}

// syncFile opens the file once more, so that the reader of the FIFO never
// waits for a disk behind a lock.
func syncFile(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(unix.Fdatasync(int(file.Fd())), file.Close())
}

// Close lets go of the folder. The streams are to be used no more.
func (d *Depot) Close() error {
	var failed error
	for _, s := range d.Streams() {
		failed = errors.Join(failed, s.close())
	}
	return errors.Join(failed, d.lock.Close())
}
