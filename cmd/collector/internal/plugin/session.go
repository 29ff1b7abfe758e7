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

	"github.com/logboom/logboom/cmd/collector/internal/delivery"
	"github.com/logboom/logboom/cmd/collector/internal/option"
	"github.com/logboom/logboom/cmd/collector/internal/spool"
)

// about is all that is needed to resume a session. The spool stores it, readable
// by root only, because it contains the token. Of what Docker sent about the
// container it contains only what the options selected.
type about struct {
	File        string             `json:"file"`
	Container   string             `json:"container"`
	Name        string             `json:"name"`
	Started     time.Time          `json:"started"`
	Destination option.Destination `json:"destination"`
	Batch       option.Batch       `json:"batch"`
	SpoolBytes  int64              `json:"spool_bytes"`
	Origin      delivery.Origin    `json:"origin"`
}

// shortID returns the container's ID as Docker shows it.
func (a about) shortID() string { return a.Container[:min(12, len(a.Container))] }

// session reads one FIFO into a stream.
type session struct {
	about  about
	stream *spool.Stream
	route  *delivery.Route
	logger *slog.Logger

	mu    sync.Mutex
	fifo  *os.File // nil if there was no FIFO when the session was resumed
	phase phase
}

// phase says whether a session still reads its FIFO.
type phase int

const (
	reading phase = iota
	ended         // the container has ended: read the rest of the FIFO and finish the stream
	paused        // the collector stops: leave the rest in the FIFO
)

// openFIFO opens a FIFO for reading, without waiting for a writer.
func openFIFO(file string) (*os.File, error) {
	if !filepath.IsAbs(file) {
		return nil, fmt.Errorf("log file %q is not an absolute path", file)
	}
	fifo, err := os.OpenFile(file, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("log file: %w", err)
	}
	info, err := fifo.Stat()
	if err == nil && info.Mode()&fs.ModeNamedPipe == 0 {
		err = fmt.Errorf("log file %q is not a FIFO", file)
	}
	if err != nil {
		return nil, errors.Join(err, fifo.Close())
	}
	return fifo, nil
}

// stopReading makes receive return. The phase ended or paused says what happens
// to the rest of the FIFO.
func (s *session) stopReading(next phase) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.phase == reading {
		s.phase = next
	}
	if s.fifo != nil {
		_ = s.fifo.SetReadDeadline(time.Unix(1, 0)) // it fails only if the FIFO is closed already
	}
}

func (s *session) currentPhase() phase {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.phase
}

// receive moves the FIFO's bytes into the stream until no process has the FIFO
// open for writing or stopReading is called.
func (s *session) receive() {
	for {
		err := s.receiveFIFO()
		if errors.Is(err, spool.ErrReopen) && s.reopen() {
			continue
		}
		if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) && !errors.Is(err, spool.ErrReopen) {
			s.logger.Error("log no longer readable", "err", err)
		}
		break
	}
	if s.currentPhase() == ended {
		s.drain()
	}
	s.mu.Lock()
	s.fifo.Close() // it was only read
	if s.phase == reading {
		s.phase = ended
	}
	finished := s.phase == ended
	s.mu.Unlock()
	if finished {
		s.stream.Finish()
	}
}

// receiveFIFO receives bytes and waits for more. It returns nil when no process
// has the FIFO open for writing any more.
func (s *session) receiveFIFO() error {
	conn, err := s.fifo.SyscallConn()
	if err != nil {
		return err
	}
	for {
		var n int
		var received error
		err := conn.Read(func(fd uintptr) bool {
			n, received = s.stream.Receive(int(fd))
			return !errors.Is(received, unix.EAGAIN)
		})
		if err == nil {
			err = received
		}
		if err != nil || n == 0 {
			return err
		}
	}
}

// drain receives the rest of a FIFO to which nothing more will be written.
func (s *session) drain() {
	conn, err := s.fifo.SyscallConn()
	if err == nil {
		err = conn.Control(func(fd uintptr) {
			for {
				if n, err := s.stream.Receive(int(fd)); n == 0 || err != nil {
					return // usually EAGAIN: the FIFO is empty
				}
			}
		})
	}
	if err != nil {
		s.logger.Error("rest of the log not readable", "err", err)
	}
}

// reopen opens the FIFO again and only then closes the old file, so that the
// FIFO always has a reader.
func (s *session) reopen() bool {
	fifo, err := openFIFO(s.about.File)
	if err != nil {
		s.logger.Error("log not reopened", "err", err)
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fifo.Close() // it was only read
	s.fifo = fifo
	if s.phase != reading {
		_ = s.fifo.SetReadDeadline(time.Unix(1, 0)) // FIFOs support deadlines
	}
	return true
}
