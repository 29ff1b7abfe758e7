// Package dockertest plays dockerd's part towards a log driver, for tests: it
// keeps a FIFO as dockerd does, open for reading too, and writes frames to it.
package dockertest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/logboom/logboom/cmd/collector/internal/entry"
)

// pieceSize is where Docker cuts lines.
const pieceSize = 16 << 10

// Log is a container's log on dockerd's side.
type Log struct {
	Path string
	t    testing.TB
	file *os.File
	time int64
	ids  int
}

// NewLog makes a FIFO in a temporary folder.
func NewLog(t testing.TB) *Log {
	t.Helper()
	path := filepath.Join(t.TempDir(), "fifo")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := os.OpenFile(path, os.O_RDWR|syscall.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	l := &Log{Path: path, t: t, file: file, time: time.Now().UnixNano()}
	t.Cleanup(l.Close)
	return l
}

// Line writes one line, in pieces where it is long, and waits for room in the
// FIFO as dockerd does.
func (l *Log) Line(source, text string) {
	l.t.Helper()
	if err := l.TryLine(source, text); err != nil {
		l.t.Fatal(err)
	}
}

// TryLine is Line for other goroutines than the test's.
func (l *Log) TryLine(source, text string) error {
	l.time++
	if len(text) <= pieceSize {
		return l.write(&entry.Entry{Source: source, Time: l.time, Line: []byte(text)})
	}
	l.ids++
	for n := int32(1); text != ""; n++ {
		piece := text[:min(pieceSize, len(text))]
		text = text[len(piece):]
		e := entry.Entry{Source: source, Time: l.time, Line: []byte(piece), Partial: true, Last: text == "", ID: fmt.Sprint("line", l.ids), Ordinal: n}
		if err := l.write(&e); err != nil {
			return err
		}
	}
	return nil
}

// Entry writes one entry as it is.
func (l *Log) Entry(e *entry.Entry) {
	l.t.Helper()
	if err := l.write(e); err != nil {
		l.t.Fatal(err)
	}
}

// Raw writes bytes that need not be frames.
func (l *Log) Raw(bytes []byte) {
	l.t.Helper()
	if _, err := l.file.Write(bytes); err != nil {
		l.t.Fatal(err)
	}
}

func (l *Log) write(e *entry.Entry) error {
	if err := l.file.SetWriteDeadline(time.Now().Add(time.Minute)); err != nil {
		return err
	}
	if _, err := l.file.Write(entry.Append(nil, e)); err != nil {
		return fmt.Errorf("the container was blocked: %w", err)
	}
	return nil
}

// Close is what dockerd does after StopLogging.
func (l *Log) Close() {
	if err := l.file.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
		l.t.Error(err)
	}
	_ = os.Remove(l.Path) // the folder goes too
}
