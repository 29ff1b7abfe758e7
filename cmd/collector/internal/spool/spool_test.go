package spool

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"github.com/logboom/logboom/cmd/collector/internal/dockertest"
	"github.com/logboom/logboom/cmd/collector/internal/entry"
)

// fixture is a spool with one stream, and the FIFO that fills it.
type fixture struct {
	t       testing.TB
	dir     string
	spool   *Spool
	stream  *Stream
	fifo    [2]int // read end, write end
	written int
	dropped int64
}

func newFixture(t testing.TB, maxBytes int64) *fixture {
	t.Helper()
	b := &fixture{t: t, dir: t.TempDir()}
	if err := unix.Pipe2(b.fifo[:], unix.O_NONBLOCK|unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.closeSpool(); unix.Close(b.fifo[0]); unix.Close(b.fifo[1]) })
	b.open()
	stream, err := b.spool.Create("one", []byte("about"), maxBytes)
	if err != nil {
		t.Fatal(err)
	}
	b.stream = stream
	return b
}

func (b *fixture) open() {
	b.t.Helper()
	spool, err := Open(Config{Dir: b.dir, MaxBytes: 4 << 20, Logger: slog.New(slog.DiscardHandler), OnDrop: func(lines int64) { b.dropped += lines }})
	if err != nil {
		b.t.Fatal(err)
	}
	b.spool = spool
}

func (b *fixture) closeSpool() {
	if b.spool != nil {
		if err := b.spool.Close(); err != nil {
			b.t.Error(err)
		}
		b.spool = nil
	}
}

// restart closes the spool and opens it again, as after a kill: what was in
// memory is lost.
func (b *fixture) restart() {
	b.t.Helper()
	b.closeSpool()
	b.open()
	streams := b.spool.Streams()
	if len(streams) != 1 || string(streams[0].About()) != "about" {
		b.t.Fatalf("streams after a restart: %v", streams)
	}
	b.stream = streams[0]
}

// frame returns the frame of the next numbered line.
func (b *fixture) frame(size int) []byte {
	b.written++
	text := fmt.Sprintf("%08d %s", b.written, strings.Repeat("x", size))
	return dockertest.AppendFrame(nil, &entry.Entry{Source: "stdout", Time: int64(b.written), Line: []byte(text)})
}

// write writes bytes to the FIFO and lets the stream receive them.
func (b *fixture) write(bytes []byte) {
	b.t.Helper()
	for len(bytes) > 0 {
		n, err := unix.Write(b.fifo[1], bytes[:min(len(bytes), 32<<10)])
		if err != nil && !errors.Is(err, unix.EAGAIN) {
			b.t.Fatal(err)
		}
		bytes = bytes[max(0, n):]
		b.receive()
	}
}

func (b *fixture) receive() {
	b.t.Helper()
	for {
		if _, err := b.stream.Receive(b.fifo[0]); err != nil {
			if !isFIFOError(err) {
				b.t.Fatal(err)
			}
			return
		}
	}
}

// deliver delivers up to n lines as a sender does and returns their numbers.
func (b *fixture) deliver(n int) (numbers []int) {
	b.t.Helper()
	c := b.stream.Cursor()
	var scanner Scanner
	scanner.Start(b.stream, c.From)
	for len(numbers) < n {
		frame, err := scanner.Next()
		if err != nil {
			b.t.Fatal(err)
		}
		if frame == nil {
			break
		}
		var e entry.Entry
		if err := e.Decode(frame[entry.HeaderSize:]); err != nil {
			b.t.Fatal(err)
		}
		numbers = append(numbers, int(e.Time))
	}
	id := fmt.Sprint(c.From)
	if err := b.stream.BeginBatch(c.From, Batch{ID: id, To: scanner.Position(), Lines: int64(len(numbers)), Reported: c.Lost}); err != nil {
		b.t.Fatal(err)
	}
	b.stream.CommitBatch(id, nil)
	return numbers
}

func TestReceivedBytesSurviveARestart(t *testing.T) {
	t.Parallel()
	b := newFixture(t, 0)
	first := b.frame(10)
	b.write(first[:7]) // half a frame
	b.restart()
	b.write(append(first[7:], b.frame(10)...))
	b.restart()
	if got := b.deliver(10); len(got) != 2 || got[0] != 1 || got[1] != 2 {
		t.Fatalf("lines %v", got)
	}
	b.restart()
	b.write(b.frame(10))
	if got := b.deliver(10); len(got) != 1 || got[0] != 3 {
		t.Fatalf("lines %v", got)
	}
}

func TestABatchBeingSentDoesNotChange(t *testing.T) {
	t.Parallel()
	b := newFixture(t, 0)
	b.write(append(b.frame(10), b.frame(10)...))
	batch := Batch{ID: "a", To: b.stream.End() / 2, Lines: 1}
	if err := b.stream.BeginBatch(0, batch); err != nil {
		t.Fatal(err)
	}
	b.restart()
	if got := b.stream.Cursor().Batch; got == nil || *got != batch {
		t.Fatalf("batch %+v, want %+v", got, batch)
	}
	if err := b.stream.BeginBatch(0, Batch{ID: "b"}); err == nil {
		t.Error("a second batch began while one was being sent")
	}
	b.stream.CommitBatch("b", nil) // an unknown batch
	b.stream.CancelBatch("b")
	if b.stream.Cursor().Batch == nil {
		t.Fatal("an unknown ID ended the batch")
	}
	b.stream.CommitBatch("a", []byte("open"))
	b.restart()
	if c := b.stream.Cursor(); c.From != batch.To || c.Batch != nil || string(c.OpenFrames) != "open" {
		t.Errorf("cursor %+v", c)
	}
}

func TestOnlyOneProcessUsesTheFolder(t *testing.T) {
	t.Parallel()
	b := newFixture(t, 0)
	if _, err := Open(Config{Dir: b.dir, MaxBytes: 4 << 20, Logger: slog.New(slog.DiscardHandler)}); err == nil || !strings.Contains(err.Error(), b.dir) {
		t.Errorf("a second spool: %v", err)
	}
}

// In any order of writes, deliveries, drops and restarts, each line is delivered
// once, in order, or counted as lost.
func TestEachLineIsDeliveredOrCounted(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		b := newFixture(t, 64<<10)
		defer b.closeSpool()
		last, delivered := 0, 0
		deliver := func(n int) {
			for _, number := range b.deliver(n) {
				if number <= last {
					r.Fatalf("line %d after line %d", number, last)
				}
				last, delivered = number, delivered+1
			}
		}
		var rest []byte
		var lost int64
		for range rapid.IntRange(1, 25).Draw(r, "steps") {
			switch rapid.IntRange(0, 6).Draw(r, "step") {
			case 0, 1, 2:
				frames := rest
				for range rapid.IntRange(1, 20).Draw(r, "lines") {
					frames = append(frames, b.frame(rapid.IntRange(0, 9000).Draw(r, "size"))...)
				}
				cut := rapid.IntRange(0, min(len(frames)-1, 9)).Draw(r, "held back")
				rest = append([]byte(nil), frames[len(frames)-cut:]...)
				b.write(frames[:len(frames)-cut])
			case 3, 4:
				deliver(rapid.IntRange(1, 30).Draw(r, "batch"))
			case 5:
				b.stream.drop()
			case 6:
				b.restart()
				b.stream.SetLimit(64 << 10)
			}
			if got := b.spool.Bytes(); got > 64<<10+minSegment+64<<10 {
				r.Fatalf("the spool holds %d bytes", got)
			}
		}
		b.write(rest)
		deliver(1 << 30)
		lost = b.dropped
		if delivered+int(lost) != b.written {
			r.Fatalf("%d delivered and %d lost of %d", delivered, lost, b.written)
		}
	})
}

func TestADeliveredBatchIsNotCountedAsLost(t *testing.T) {
	t.Parallel()
	b := newFixture(t, 0)
	for range 10 {
		b.write(b.frame(10))
	}
	batch := Batch{ID: "a", To: b.stream.End() / 2, Lines: 5, First: 1, Last: 5}
	if err := b.stream.BeginBatch(0, batch); err != nil {
		t.Fatal(err)
	}
	b.stream.drop()
	if lost := b.stream.Cursor().Lost; lost != (Loss{10, 1, 10}) {
		t.Fatalf("lost %+v", lost)
	}
	b.stream.CommitBatch("a", nil)
	if lost := b.stream.Cursor().Lost; lost.Lines != 5 {
		t.Errorf("lost %+v after half of it was delivered", lost)
	}
}

func TestAFullDiskDoesNotStopTheLog(t *testing.T) {
	t.Parallel()
	b := newFixture(t, 0)
	b.write(b.frame(10))
	if got := b.deliver(1); len(got) != 1 {
		t.Fatalf("lines %v", got)
	}
	b.stream.drop() // the next byte needs a new file
	away := filepath.Join(b.dir, "away")
	if err := os.Rename(b.stream.dir, away); err != nil {
		t.Fatal(err)
	}
	frames := b.frame(10)
	for range 98 {
		frames = append(frames, b.frame(100)...)
	}
	b.write(frames[:len(frames)-2]) // up to the middle of the last one
	if b.stream.discarding == nil {
		t.Fatal("the stream is not discarding")
	}
	if err := os.Rename(away, b.stream.dir); err != nil {
		t.Fatal(err)
	}
	b.stream.discarding.retry = b.stream.discarding.retry.Add(-2 * diskRetry)
	b.write(append(frames[len(frames)-2:], b.frame(10)...))
	if got := b.deliver(10); len(got) != 1 || got[0] != b.written {
		t.Errorf("lines %v, want the last, %d", got, b.written)
	}
	if b.dropped != 99 {
		t.Errorf("%d lines are counted as lost, want 99", b.dropped)
	}
}

func TestReceiveCopiesOnAFileSystemWithoutSplice(t *testing.T) {
	t.Parallel()
	b := newFixture(t, 0)
	b.write(b.frame(10))
	fd, err := unix.FcntlInt(b.stream.active.Fd(), syscall.F_GETFL, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := unix.FcntlInt(b.stream.active.Fd(), syscall.F_SETFL, fd|syscall.O_APPEND); err != nil {
		t.Fatal(err) // splice refuses such a file, as it does on some file systems
	}
	b.write(b.frame(10))
	if b.stream.scratch == nil {
		t.Fatal("the bytes were spliced")
	}
	if got := b.deliver(10); len(got) != 2 {
		t.Errorf("lines %v", got)
	}
}

func TestAStreamOutOfSyncIsDiscardedAndReopened(t *testing.T) {
	t.Parallel()
	b := newFixture(t, 0)
	b.write([]byte("\xff\xff\xff\xff no frame"))
	var scanner Scanner
	scanner.Start(b.stream, 0)
	if _, err := scanner.Next(); !errors.Is(err, ErrBadFrame) {
		t.Fatalf("%v, want ErrBadFrame", err)
	}
	b.stream.Resync(0)
	if _, err := unix.Write(b.fifo[1], []byte("still no frame")); err != nil {
		t.Fatal(err)
	}
	if _, err := b.stream.Receive(b.fifo[0]); !errors.Is(err, ErrReopen) {
		t.Fatalf("%v, want ErrReopen", err)
	}
	b.write(b.frame(10))
	if got := b.deliver(10); len(got) != 1 {
		t.Errorf("lines %v", got)
	}
	b.restart()
	b.write(b.frame(10))
	if got := b.deliver(10); len(got) != 1 {
		t.Errorf("lines %v after a restart", got)
	}
}

func TestAStreamWithMissingBytesIsResynced(t *testing.T) {
	t.Parallel()
	b := newFixture(t, 0)
	b.write(b.frame(10)[:3]) // an incomplete header
	b.closeSpool()
	if err := writeCursor(filepath.Join(b.stream.dir, cursorFile), []byte(`{"from":0,"end":3}`)); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(b.stream.path(0)); err != nil {
		t.Fatal(err)
	}
	b.restart()
	if _, err := b.stream.Receive(b.fifo[0]); !errors.Is(err, ErrReopen) {
		t.Fatalf("%v, want ErrReopen", err)
	}
	b.write(b.frame(10))
	if got := b.deliver(10); len(got) != 1 {
		t.Errorf("lines %v", got)
	}
}

func TestDeadLettersAreBounded(t *testing.T) {
	t.Parallel()
	b := newFixture(t, 0)
	for i := range maxDeadLetters + 5 {
		if err := b.spool.StoreDeadLetter(fmt.Sprintf("%03d", i), []byte("body")); err != nil {
			t.Fatal(err)
		}
	}
	letters, err := os.ReadDir(filepath.Join(b.dir, deadLetterFolder))
	if err != nil || len(letters) != maxDeadLetters || letters[0].Name() != "005.json" {
		t.Errorf("%d letters, %v", len(letters), err)
	}
}

func TestAnUnreadableCursorLosesNoLine(t *testing.T) {
	t.Parallel()
	b := newFixture(t, 0)
	b.write(append(b.frame(10), b.frame(10)...))
	b.deliver(1)
	if err := os.WriteFile(filepath.Join(b.stream.dir, cursorFile), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	b.restart()
	if got := b.deliver(10); len(got) != 2 {
		t.Errorf("lines %v", got)
	}
}

func TestSyncReachesPendingBytes(t *testing.T) {
	t.Parallel()
	b := newFixture(t, 0)
	b.write(b.frame(10))
	if paths := b.stream.unsynced(); len(paths) != 1 {
		t.Fatalf("to sync: %v", paths)
	}
	if paths := b.stream.unsynced(); len(paths) != 0 {
		t.Errorf("to sync again: %v", paths)
	}
	b.write(b.frame(10))
	b.spool.sync()
	if b.stream.synced != b.stream.end {
		t.Errorf("synced to %d of %d", b.stream.synced, b.stream.end)
	}
}

func BenchmarkReceive(b *testing.B) {
	w := newFixture(b, 0)
	frame := w.frame(100)
	var frames []byte
	for len(frames) < 32<<10 {
		frames = append(frames, frame...)
	}
	b.SetBytes(int64(len(frames)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := unix.Write(w.fifo[1], frames); err != nil {
			b.Fatal(err)
		}
		w.receive()
		w.stream.Skip(w.stream.Cursor().From, w.stream.End(), nil)
	}
}

// A scanner reaches the end of any bytes, and returns them unchanged.
func FuzzScanner(f *testing.F) {
	f.Add(dockertest.AppendFrame(dockertest.AppendFrame(nil, &entry.Entry{Source: "stdout", Time: 1, Line: []byte("x")}), &entry.Entry{}), uint8(3))
	f.Add([]byte("\xff\xff\xff\xff"), uint8(1))
	f.Add([]byte("\x00\x00\x00\x05ab"), uint8(2))
	f.Fuzz(func(t *testing.T, content []byte, step uint8) {
		read := func(p []byte, at int64) (int, error) {
			return copy(p[:min(len(p), 1+int(step))], content[min(int(at), len(content)):]), nil
		}
		var scanner Scanner
		scanner.start(read, 0)
		var whole []byte
		for {
			before := scanner.Position()
			frame, err := scanner.Next()
			if frame == nil || err != nil {
				break
			}
			whole = append(whole, frame...)
			if scanner.Position() != before+int64(len(frame)) || int(scanner.Position()) > len(content) {
				t.Fatalf("from %d to %d", before, scanner.Position())
			}
		}
		if string(whole) != string(content[:len(whole)]) {
			t.Fatal("the frames differ from the content")
		}
	})
}
