package front

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/ClickHouse/ch-go/compress"
	"github.com/go-faster/city"
	"github.com/klauspost/compress/zstd"

	"github.com/logboom/logboom/pkg/embedded/engine/internal/chdb"
)

func TestSlotsRefuseTooManyStatementsAndLongWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSlots(1, 1, time.Second)
		ctx, cancel := context.WithCancel(context.Background())
		if err := s.acquire(ctx); err != nil {
			t.Fatal(err)
		}
		waiting := make(chan error)
		go func() { waiting <- s.acquire(ctx) }()
		synctest.Wait()
		if err := s.acquire(ctx); codeOf(err) != codeTooManyQueries {
			t.Errorf("a third statement: error %v, want too many queries", err)
		}
		if err := <-waiting; codeOf(err) != codeTooManyQueries {
			t.Errorf("after a wait of one second: error %v, want too many queries", err)
		}
		go func() { waiting <- s.acquire(ctx) }()
		synctest.Wait()
		cancel()
		if err := <-waiting; !errors.Is(err, context.Canceled) {
			t.Errorf("after the client left: error %v, want %v", err, context.Canceled)
		}
		s.release()
		if err := s.acquire(context.Background()); err != nil {
			t.Errorf("acquire after a release: %v", err)
		}
	})
}

func TestFramesAreReadAsWritten(t *testing.T) {
	t.Parallel()
	data := bytes.Repeat([]byte("0123456789abcdef"), 200_000) // more than three frames
	for _, method := range []string{"", "LZ4", "ZSTD", "NONE"} {
		var packed bytes.Buffer
		w := newFrameWriter(&packed, method)
		if _, err := w.Write(data); err != nil {
			t.Fatal(err)
		}
		if _, err := w.writePlain([]byte("plain")); err != nil {
			t.Fatal(err)
		}
		if !bytes.Contains(packed.Bytes(), []byte("plain")) {
			t.Errorf("%q: the plain frame is compressed", method)
		}
		got, err := io.ReadAll(newFrameReader(iotest.HalfReader(&packed)))
		if err != nil || !bytes.Equal(got, append(data[:len(data):len(data)], "plain"...)) {
			t.Errorf("%q: read %d bytes that differ from the written ones, error %v", method, len(got), err)
		}
	}
}

func TestCutFrameIsAnError(t *testing.T) {
	t.Parallel()
	var packed bytes.Buffer
	if _, err := newFrameWriter(&packed, "LZ4").Write([]byte("some rows")); err != nil {
		t.Fatal(err)
	}
	for n := 1; n < packed.Len(); n++ {
		if _, err := io.ReadAll(newFrameReader(bytes.NewReader(packed.Bytes()[:n]))); err == nil {
			t.Errorf("a frame cut after %d of %d bytes was accepted", n, packed.Len())
		}
	}
}

func TestDamagedFrameIsRefused(t *testing.T) {
	t.Parallel()
	var packed bytes.Buffer
	if _, err := newFrameWriter(&packed, "LZ4").Write([]byte("some rows, some rows, some rows")); err != nil {
		t.Fatal(err)
	}
	for i := range packed.Bytes() {
		damaged := bytes.Clone(packed.Bytes())
		damaged[i] ^= 0x10
		if _, err := io.ReadAll(newFrameReader(bytes.NewReader(damaged))); err == nil {
			t.Errorf("a frame with a flipped bit in byte %d was accepted", i)
		}
	}
}

// frame returns a frame with any content and a valid checksum.
func frame(method byte, content []byte, size uint32) []byte {
	f := make([]byte, hashBytes+headBytes, hashBytes+headBytes+len(content))
	f[hashBytes] = method
	binary.LittleEndian.PutUint32(f[hashBytes+1:], uint32(headBytes+len(content)))
	binary.LittleEndian.PutUint32(f[hashBytes+5:], size)
	f = append(f, content...)
	hash := city.CH128(f[hashBytes:])
	binary.LittleEndian.PutUint64(f, hash.Low)
	binary.LittleEndian.PutUint64(f[8:], hash.High)
	return f
}

func TestFrameThatDecompressesToMoreThanItsSizeIsRefused(t *testing.T) {
	t.Parallel()
	packer, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	bomb := packer.EncodeAll(make([]byte, 2*maxFrame), nil)
	for name, f := range map[string][]byte{
		"zstd bomb":    frame(methodZSTD, bomb, 10),
		"wrong size":   frame(methodNone, []byte("four"), 5),
		"huge size":    frame(methodLZ4, []byte("x"), 1<<31),
		"other method": frame(0x77, []byte("x"), 1),
		"invalid lz4":  frame(methodLZ4, []byte{0xff, 0xff, 0xff}, 100),
	} {
		if _, err := io.ReadAll(newFrameReader(bytes.NewReader(f))); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func FuzzFrameReader(f *testing.F) {
	packer := compress.NewWriter(compress.LevelZero, compress.LZ4)
	if err := packer.Compress([]byte("some rows")); err != nil {
		f.Fatal(err)
	}
	f.Add(packer.Data)
	f.Add(frame(methodNone, []byte("x"), 1))
	f.Fuzz(func(t *testing.T, data []byte) {
		_, _ = io.Copy(io.Discard, io.LimitReader(newFrameReader(bytes.NewReader(data)), 1<<20))
	})
}

func TestBodyIsLimitedCompressedAndDecompressed(t *testing.T) {
	t.Parallel()
	s := New(nil, Config{MaxBodyBytes: 1 << 20})
	packer, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	bomb := make([]byte, 64<<20)
	for name, data := range map[string][]byte{
		"plain":  make([]byte, 2<<20),
		"frames": frame(methodZSTD, packer.EncodeAll(bomb, nil), uint32(len(bomb))),
	} {
		r := httptest.NewRequest("POST", "/", bytes.NewReader(data))
		b := s.openBody(deadlines{httptest.NewRecorder()}, r, name == "frames")
		if n, err := io.Copy(io.Discard, b); codeOf(err) != codeQueryTooLarge || n > 1<<20 {
			t.Errorf("%s: read %d bytes, error %v, want at most 1 MiB and query too large", name, n, err)
		}
	}
}

// deadlines is a response recorder that accepts deadlines, as a connection does.
type deadlines struct{ *httptest.ResponseRecorder }

func (deadlines) SetReadDeadline(time.Time) error  { return nil }
func (deadlines) SetWriteDeadline(time.Time) error { return nil }

// deadlineRecorder is a connection that records its write deadline.
type deadlineRecorder struct {
	deadlines
	until time.Time
}

func (p *deadlineRecorder) SetWriteDeadline(t time.Time) error {
	p.until = t
	return nil
}

func TestResponseHasItsFullTimeAfterALongStatement(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for name, answer := range map[string]func(*reply) error{
			"no rows": (*reply).end,
			"error":   func(out *reply) error { out.fail(io.EOF); return nil },
			"error after rows": func(out *reply) error {
				out.begin()
				out.fail(io.EOF)
				return nil
			},
		} {
			w := &deadlineRecorder{deadlines: deadlines{httptest.NewRecorder()}}
			out := &reply{w: w, req: &request{}}
			time.Sleep(2 * writeTimeout)
			if err := answer(out); err != nil || w.until.Before(time.Now().Add(writeTimeout)) {
				t.Errorf("%s: %s of %s are left for the response, error %v", name, time.Until(w.until), writeTimeout, err)
			}
		}
	})
}

func TestPreambleQuotesValuesOfTheRequest(t *testing.T) {
	t.Parallel()
	query := url.Values{"database": {"a`b"}, "x": {`'; DROP TABLE t; --\`}, "log_comment": {"mine"}}
	req, err := parse(httptest.NewRequest("POST", "/", nil), query)
	if err != nil {
		t.Fatal(err)
	}
	want := "USE `a\\`b`; SET log_comment = 'mine " + req.mark + `', x = '\'; DROP TABLE t; --\\'`
	if got := req.preamble(); got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
}

func TestEveryErrorHasACode(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err  error
		code int
		text string
	}{
		{raise(codeSyntaxError, "SYNTAX_ERROR", "bad %s", "text"), 62, "Code: 62. DB::Exception: bad text. (SYNTAX_ERROR)"},
		{&chdb.Error{Code: 60, Message: "Code: 60. DB::Exception: x"}, 60, "Code: 60. DB::Exception: x"},
		{&chdb.Error{Message: "no code"}, 1002, "Code: 1002. DB::Exception: no code. (UNKNOWN_EXCEPTION)"},
		{io.ErrClosedPipe, 1002, "Code: 1002. DB::Exception: io: read/write on closed pipe. (UNKNOWN_EXCEPTION)"},
	} {
		if code, text := codeOf(c.err), textOf(c.err); code != c.code || text != c.text {
			t.Errorf("%v: code %d and text %q, want %d and %q", c.err, code, text, c.code, c.text)
		}
	}
}

func TestErrorOfACutBodySaysThatNothingWasStored(t *testing.T) {
	t.Parallel()
	b := &body{decoded: iotest.ErrReader(io.ErrUnexpectedEOF), left: 1, limit: 1}
	if _, err := b.Read(make([]byte, 1)); codeOf(err) != codeCannotReadAllData || !strings.Contains(err.Error(), "nothing of it was stored") {
		t.Errorf("error is %v, want one that says that nothing was stored", err)
	}
}
