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

	"github.com/logboom/logboom/cmd/collector/internal/entry"
)

// bench is a depot with one stream, and the FIFO that fills it.
type bench struct {
	t       testing.TB
	dir     string
	depot   *Depot
	stream  *Stream
	fifo    [2]int // read end, write end
	written int
	dropped int64
}

func newBench(t testing.TB, maxBytes int64) *bench {
	t.Helper()
	b := &bench{t: t, dir: t.TempDir()}
	if err := unix.Pipe2(b.fifo[:], unix.O_NONBLOCK|unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.closeDepot(); unix.Close(b.fifo[0]); unix.Close(b.fifo[1]) })
	b.open()
	stream, err := b.depot.Create("one", []byte("about"), maxBytes)
	if err != nil {
		t.Fatal(err)
	}
	b.stream = stream
	return b
}

func (b *bench) open() {
	b.t.Helper()
	depot, err := Open(Config{Dir: b.dir, MaxBytes: 4 << 20, Logger: slog.New(slog.DiscardHandler), OnDrop: func(lines int64) { b.dropped += lines }})
	if err != nil {
		b.t.Fatal(err)
	}
	b.depot = depot
}

func (b *bench) closeDepot() {
	if b.depot != nil {
		if err := b.depot.Close(); err != nil {
			b.t.Error(err)
		}
		b.depot = nil
	}
}

// restart is what a kill leaves: nothing that is in memory.
func (b *bench) restart() {
	b.t.Helper()
	b.closeDepot()
	b.open()
	streams := b.depot.Streams()
	if len(streams) != 1 || string(streams[0].About()) != "about" {
		b.t.Fatalf("streams after a restart: %v", streams)
	}
	b.stream = streams[0]
}

// frame is the next line's.
func (b *bench) frame(size int) []byte {
	b.written++
	text := fmt.Sprintf("%08d %s", b.written, strings.Repeat("x", size))
	return entry.Append(nil, &entry.Entry{Source: "stdout", Time: int64(b.written), Line: []byte(text)})
}

// put writes bytes to the FIFO and takes them in as they fit.
func (b *bench) put(bytes []byte) {
	b.t.Helper()
	for len(bytes) > 0 {
		n, err := unix.Write(b.fifo[1], bytes[:min(len(bytes), 32<<10)])
		if err != nil && !errors.Is(err, unix.EAGAIN) {
			b.t.Fatal(err)
		}
		bytes = bytes[max(0, n):]
		b.take()
	}
}

func (b *bench) take() {
	b.t.Helper()
	for {
		if _, err := b.stream.Take(b.fifo[0]); err != nil {
			if !ofTheFIFO(err) {
				b.t.Fatal(err)
			}
			return
		}
	}
}

// read delivers up to n lines as a sender does and gives their numbers.
func (b *bench) read(n int) (numbers []int) {
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
	if err := b.stream.Begin(c.From, Cut{ID: id, To: scanner.At(), Lines: int64(len(numbers)), Told: c.Lost}); err != nil {
		b.t.Fatal(err)
	}
	b.stream.Commit(id, nil)
	return numbers
}

func TestWhatWasTakenSurvivesARestart(t *testing.T) {
	t.Parallel()
	b := newBench(t, 0)
	first := b.frame(10)
	b.put(first[:7]) // half a frame
	b.restart()
	b.put(append(first[7:], b.frame(10)...))
	b.restart()
	if got := b.read(10); len(got) != 2 || got[0] != 1 || got[1] != 2 {
		t.Fatalf("lines %v", got)
	}
	b.restart()
	b.put(b.frame(10))
	if got := b.read(10); len(got) != 1 || got[0] != 3 {
		t.Fatalf("lines %v", got)
	}
}

func TestABatchUnderWayStaysAsItIs(t *testing.T) {
	t.Parallel()
	b := newBench(t, 0)
	b.put(append(b.frame(10), b.frame(10)...))
	cut := Cut{ID: "a", To: b.stream.End() / 2, Lines: 1}
	if err := b.stream.Begin(0, cut); err != nil {
		t.Fatal(err)
	}
	b.restart()
	if got := b.stream.Cursor().Cut; got == nil || *got != cut {
		t.Fatalf("cut %+v, want %+v", got, cut)
	}
	if err := b.stream.Begin(0, Cut{ID: "b"}); err == nil {
		t.Error("a second batch began while one was under way")
	}
	b.stream.Commit("b", nil) // nobody's
	b.stream.Recut("b")
	if b.stream.Cursor().Cut == nil {
		t.Fatal("another batch's end ended it")
	}
	b.stream.Commit("a", []byte("carried"))
	b.restart()
	if c := b.stream.Cursor(); c.From != cut.To || c.Cut != nil || string(c.Carry) != "carried" {
		t.Errorf("cursor %+v", c)
	}
}

func TestOneProcessHasTheFolder(t *testing.T) {
	t.Parallel()
	b := newBench(t, 0)
	if _, err := Open(Config{Dir: b.dir, MaxBytes: 4 << 20, Logger: slog.New(slog.DiscardHandler)}); err == nil || !strings.Contains(err.Error(), b.dir) {
		t.Errorf("a second one: %v", err)
	}
}

// Whatever is written, delivered, dropped and restarted in whatever order, each
// line is delivered once, in order, or counted as lost.
func TestEachLineIsDeliveredOrCounted(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		b := newBench(t, 64<<10)
		defer b.closeDepot()
		last, delivered := 0, 0
		deliver := func(n int) {
			for _, number := range b.read(n) {
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
				b.put(frames[:len(frames)-cut])
			case 3, 4:
				deliver(rapid.IntRange(1, 30).Draw(r, "batch"))
			case 5:
				b.stream.drop()
			case 6:
				b.restart()
				b.stream.Limit(64 << 10)
			}
			if got := b.depot.Bytes(); got > 64<<10+minSegment+64<<10 {
				r.Fatalf("the depot holds %d bytes", got)
			}
		}
		b.put(rest)
		deliver(1 << 30)
		lost = b.dropped
		if delivered+int(lost) != b.written {
			r.Fatalf("%d delivered and %d lost of %d", delivered, lost, b.written)
		}
	})
}

func TestADeliveredBatchIsNotCountedAsLost(t *testing.T) {
	t.Parallel()
	b := newBench(t, 0)
	for range 10 {
		b.put(b.frame(10))
	}
	cut := Cut{ID: "a", To: b.stream.End() / 2, Lines: 5, First: 1, Last: 5}
	if err := b.stream.Begin(0, cut); err != nil {
		t.Fatal(err)
	}
	b.stream.drop()
	if lost := b.stream.Cursor().Lost; lost != (Lost{10, 1, 10}) {
		t.Fatalf("lost %+v", lost)
	}
	b.stream.Commit("a", nil)
	if lost := b.stream.Cursor().Lost; lost.Lines != 5 {
		t.Errorf("lost %+v after half of it was delivered", lost)
	}
}

func TestADiskThatTakesNothingDoesNotStopTheLog(t *testing.T) {
	t.Parallel()
	b := newBench(t, 0)
	b.put(b.frame(10))
	if got := b.read(1); len(got) != 1 {
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
	b.put(frames[:len(frames)-2]) // to the middle of the last
	if b.stream.void == nil {
		t.Fatal("the stream does not know that it has no disk")
	}
	if err := os.Rename(away, b.stream.dir); err != nil {
		t.Fatal(err)
	}
	b.stream.void.retry = b.stream.void.retry.Add(-2 * voidRetry)
	b.put(append(frames[len(frames)-2:], b.frame(10)...))
	if got := b.read(10); len(got) != 1 || got[0] != b.written {
		t.Errorf("lines %v, want the last, %d", got, b.written)
	}
	if b.dropped != 99 {
		t.Errorf("%d lines are counted as lost, 99 are", b.dropped)
	}
}

func TestAFileSystemWithoutSpliceWorksToo(t *testing.T) {
	t.Parallel()
	b := newBench(t, 0)
	b.put(b.frame(10))
	fd, err := unix.FcntlInt(b.stream.active.Fd(), syscall.F_GETFL, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := unix.FcntlInt(b.stream.active.Fd(), syscall.F_SETFL, fd|syscall.O_APPEND); err != nil {
		t.Fatal(err) // splice refuses such a file, as it refuses some file systems
	}
	b.put(b.frame(10))
	if b.stream.scratch == nil {
		t.Fatal("it was spliced")
	}
	if got := b.read(10); len(got) != 2 {
		t.Errorf("lines %v", got)
	}
}

func TestOutOfStepIsThrownAwayAndTold(t *testing.T) {
	t.Parallel()
	b := newBench(t, 0)
	b.put([]byte("\xff\xff\xff\xff no frame"))
	var scanner Scanner
	scanner.Start(b.stream, 0)
	if _, err := scanner.Next(); !errors.Is(err, ErrBroken) {
		t.Fatalf("%v, want ErrBroken", err)
	}
	b.stream.Break(0)
	if _, err := unix.Write(b.fifo[1], []byte("still no frame")); err != nil {
		t.Fatal(err)
	}
	if _, err := b.stream.Take(b.fifo[0]); !errors.Is(err, ErrReopen) {
		t.Fatalf("%v, want ErrReopen", err)
	}
	b.put(b.frame(10))
	if got := b.read(10); len(got) != 1 {
		t.Errorf("lines %v", got)
	}
	b.restart()
	b.put(b.frame(10))
	if got := b.read(10); len(got) != 1 {
		t.Errorf("lines %v after a restart", got)
	}
}

func TestBytesThatAKillHasMislaidPutTheStreamInStepAgain(t *testing.T) {
	t.Parallel()
	b := newBench(t, 0)
	b.put(b.frame(10)[:3]) // a header that is not whole
	b.closeDepot()
	if err := writeCursor(filepath.Join(b.stream.dir, cursorFile), []byte(`{"from":0,"end":3}`)); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(b.stream.path(0)); err != nil {
		t.Fatal(err)
	}
	b.restart()
	if _, err := b.stream.Take(b.fifo[0]); !errors.Is(err, ErrReopen) {
		t.Fatalf("%v, want ErrReopen", err)
	}
	b.put(b.frame(10))
	if got := b.read(10); len(got) != 1 {
		t.Errorf("lines %v", got)
	}
}

func TestDeadLettersAreBounded(t *testing.T) {
	t.Parallel()
	b := newBench(t, 0)
	for i := range maxDead + 5 {
		if err := b.depot.Bury(fmt.Sprintf("%03d", i), []byte("body")); err != nil {
			t.Fatal(err)
		}
	}
	letters, err := os.ReadDir(filepath.Join(b.dir, deadFolder))
	if err != nil || len(letters) != maxDead || letters[0].Name() != "005.json" {
		t.Errorf("%d letters, %v", len(letters), err)
	}
}

func TestAnUnreadableCursorCostsNoLine(t *testing.T) {
	t.Parallel()
	b := newBench(t, 0)
	b.put(append(b.frame(10), b.frame(10)...))
	b.read(1)
	if err := os.WriteFile(filepath.Join(b.stream.dir, cursorFile), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	b.restart()
	if got := b.read(10); len(got) != 2 {
		t.Errorf("lines %v", got)
	}
}

func TestSyncReachesWhatWaits(t *testing.T) {
	t.Parallel()
	b := newBench(t, 0)
	b.put(b.frame(10))
	if paths := b.stream.unsynced(); len(paths) != 1 {
		t.Fatalf("to sync: %v", paths)
	}
	if paths := b.stream.unsynced(); len(paths) != 0 {
		t.Errorf("to sync again: %v", paths)
	}
	b.put(b.frame(10))
	b.depot.Sync()
	if b.stream.synced != b.stream.end {
		t.Errorf("synced to %d of %d", b.stream.synced, b.stream.end)
	}
}

func BenchmarkTake(b *testing.B) {
	w := newBench(b, 0)
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
		w.take()
		w.stream.Advance(w.stream.Cursor().From, w.stream.End(), nil)
	}
}

// Whatever is in a FIFO, a scanner comes to an end, a position at a time.
func FuzzScanner(f *testing.F) {
	f.Add(entry.Append(entry.Append(nil, &entry.Entry{Source: "stdout", Time: 1, Line: []byte("x")}), &entry.Entry{}), uint8(3))
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
			before := scanner.At()
			frame, err := scanner.Next()
			if frame == nil || err != nil {
				break
			}
			whole = append(whole, frame...)
			if scanner.At() != before+int64(len(frame)) || int(scanner.At()) > len(content) {
				t.Fatalf("from %d to %d", before, scanner.At())
			}
		}
		if string(whole) != string(content[:len(whole)]) {
			t.Fatal("the frames are not what was there")
		}
	})
}
