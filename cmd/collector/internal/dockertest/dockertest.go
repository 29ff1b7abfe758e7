// Package dockertest plays dockerd's part for tests of the log driver: it holds
// a FIFO open for reading and writing, as dockerd does, and writes frames to it.
package dockertest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/logboom/logboom/cmd/collector/internal/entry"
)

// pieceSize is the length at which Docker cuts lines, in bytes.
const pieceSize = 16 << 10

// Log is dockerd's side of a container's log.
type Log struct {
	Path string
	t    testing.TB
	file *os.File
	time int64
	ids  int
}

// NewLog creates a FIFO in a temporary folder.
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

// Line writes one line, in pieces if it is long. It waits for room in the FIFO,
// as dockerd does.
func (l *Log) Line(source, text string) {
	l.t.Helper()
	if err := l.TryLine(source, text); err != nil {
		l.t.Fatal(err)
	}
}

// TryLine is Line for goroutines other than the test's: it returns the error.
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

// Entry writes one entry unchanged.
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
	if _, err := l.file.Write(AppendFrame(nil, e)); err != nil {
		return fmt.Errorf("the container was blocked: %w", err)
	}
	return nil
}

// Close closes and removes the FIFO, as dockerd does after StopLogging.
func (l *Log) Close() {
	if err := l.file.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
		l.t.Error(err)
	}
	_ = os.Remove(l.Path) // the temporary folder is removed too
}

// AppendFrame appends the frame of an entry, as Docker writes it. Package entry
// documents the field numbers.
func AppendFrame(dst []byte, e *entry.Entry) []byte {
	start := len(dst)
	dst = append(dst, 0, 0, 0, 0)
	dst = protowire.AppendTag(dst, 1, protowire.BytesType)
	dst = protowire.AppendString(dst, e.Source)
	dst = protowire.AppendTag(dst, 2, protowire.VarintType)
	dst = protowire.AppendVarint(dst, uint64(e.Time))
	dst = protowire.AppendTag(dst, 3, protowire.BytesType)
	dst = protowire.AppendBytes(dst, e.Line)
	if e.Partial {
		dst = protowire.AppendTag(dst, 4, protowire.VarintType)
		dst = protowire.AppendVarint(dst, 1)
	}
	if e.Last || e.ID != "" || e.Ordinal != 0 {
		dst = protowire.AppendTag(dst, 5, protowire.BytesType)
		dst = protowire.AppendBytes(dst, appendMeta(nil, e))
	}
	binary.BigEndian.PutUint32(dst[start:], uint32(len(dst)-start-entry.HeaderSize))
	return dst
}

func appendMeta(dst []byte, e *entry.Entry) []byte {
	dst = protowire.AppendTag(dst, 1, protowire.VarintType)
	dst = protowire.AppendVarint(dst, protowire.EncodeBool(e.Last))
	dst = protowire.AppendTag(dst, 2, protowire.BytesType)
	dst = protowire.AppendString(dst, e.ID)
	dst = protowire.AppendTag(dst, 3, protowire.VarintType)
	return protowire.AppendVarint(dst, uint64(e.Ordinal))
}
