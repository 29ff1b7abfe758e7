package plugin

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/logboom/logboom/cmd/collector/internal/option"
	"github.com/logboom/logboom/cmd/collector/internal/ship"
	"github.com/logboom/logboom/cmd/collector/internal/spool"
)

// about is all that a session needs to be taken up again. It is kept in the
// spool, readable by root only, because the token is in it; of what Docker told
// about the container it holds what the options asked for, and nothing else.
type about struct {
	File        string             `json:"file"`
	Container   string             `json:"container"`
	Name        string             `json:"name"`
	Started     time.Time          `json:"started"`
	Destination option.Destination `json:"destination"`
	Batch       option.Batch       `json:"batch"`
	SpoolBytes  int64              `json:"spool_bytes"`
	Origin      ship.Origin        `json:"origin"`
}

// short is the container's id as Docker shows it.
func (a about) short() string { return a.Container[:min(12, len(a.Container))] }

// session is one FIFO's life.
type session struct {
	about  about
	stream *spool.Stream
	route  *ship.Route
	logger *slog.Logger

	mu     sync.Mutex
	fifo   *os.File // nil where there was none when the session was taken up
	ending ending
}

// ending is why a pump stops.
type ending int

const (
	open ending = iota
	over        // the container has ended: read what is left
	rest        // this process ends: leave what is left
)

// openFIFO opens a FIFO for reading without waiting for a writer.
func openFIFO(file string) (*os.File, error) {
	if !filepath.IsAbs(file) {
		return nil, fmt.Errorf("log file %q is no path that begins with /", file)
	}
	fifo, err := os.OpenFile(file, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("log file: %w", err)
	}
	info, err := fifo.Stat()
	if err == nil && info.Mode()&fs.ModeNamedPipe == 0 {
		err = fmt.Errorf("log file %q is no FIFO", file)
	}
	if err != nil {
		return nil, errors.Join(err, fifo.Close())
	}
	return fifo, nil
}

// stop makes the pump read what is left and end.
func (s *session) stop() { s.finish(over) }

// pause makes the pump end and leave what is left in the FIFO.
func (s *session) pause() { s.finish(rest) }

func (s *session) finish(why ending) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ending == open {
		s.ending = why
	}
	if s.fifo != nil {
		_ = s.fifo.SetReadDeadline(time.Unix(1, 0)) // it fails once the FIFO is closed, and then there is nothing to wake
	}
}

func (s *session) why() ending {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ending
}

// pump moves the FIFO's bytes into the stream until nobody writes any more or
// it is told to end.
func (s *session) pump() {
	for {
		err := s.read()
		if errors.Is(err, spool.ErrReopen) && s.reopen() {
			continue
		}
		if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) && !errors.Is(err, spool.ErrReopen) {
			s.logger.Error("log not readable any more", "err", err)
		}
		break
	}
	if s.why() == over {
		s.drain()
	}
	s.mu.Lock()
	s.fifo.Close() // only read from
	if s.ending == open {
		s.ending = over
	}
	ended := s.ending == over
	s.mu.Unlock()
	if ended {
		s.stream.Finish()
	}
}

// read waits for bytes and takes them, again and again. It is nil where nobody
// writes any more.
func (s *session) read() error {
	conn, err := s.fifo.SyscallConn()
	if err != nil {
		return err
	}
	for {
		var n int
		var taken error
		err := conn.Read(func(fd uintptr) bool {
			n, taken = s.stream.Take(int(fd))
			return !errors.Is(taken, unix.EAGAIN)
		})
		if err == nil {
			err = taken
		}
		if err != nil || n == 0 {
			return err
		}
	}
}

// drain takes what a FIFO holds that will get no more.
func (s *session) drain() {
	conn, err := s.fifo.SyscallConn()
	if err != nil {
		s.logger.Error("rest of the log not readable", "err", err)
		return
	}
	err = conn.Control(func(fd uintptr) {
		for {
			if n, err := s.stream.Take(int(fd)); n == 0 || err != nil {
				return // EAGAIN, as a rule: it is empty
			}
		}
	})
	if err != nil {
		s.logger.Error("rest of the log not readable", "err", err)
	}
}

// reopen opens the FIFO anew. The old end is closed only then, so that there is
// always one.
func (s *session) reopen() bool {
	fifo, err := openFIFO(s.about.File)
	if err != nil {
		s.logger.Error("log not opened again", "err", err)
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fifo.Close() // only read from
	s.fifo = fifo
	if s.ending != open {
		_ = s.fifo.SetReadDeadline(time.Unix(1, 0)) // a FIFO takes deadlines
	}
	return true
}
