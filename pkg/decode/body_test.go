package decode

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zlib"
	"github.com/klauspost/compress/zstd"
)

// compressed returns text in each encoding that a body may have.
func compressed(tb testing.TB, text []byte) map[string][]byte {
	tb.Helper()
	out := map[string][]byte{"": text}
	for name, open := range map[string]func(io.Writer) (io.WriteCloser, error){
		"gzip":        func(w io.Writer) (io.WriteCloser, error) { return gzip.NewWriter(w), nil },
		"deflate":     func(w io.Writer) (io.WriteCloser, error) { return zlib.NewWriter(w), nil },
		"deflate raw": func(w io.Writer) (io.WriteCloser, error) { return flate.NewWriter(w, 6) },
		"zstd":        func(w io.Writer) (io.WriteCloser, error) { return zstd.NewWriter(w, zstd.WithEncoderConcurrency(1)) },
	} {
		var b bytes.Buffer
		w, err := open(&b)
		if err == nil {
			_, err = w.Write(text)
		}
		if err == nil {
			err = w.Close()
		}
		if err != nil {
			tb.Fatalf("%s: %v", name, err)
		}
		out[name] = b.Bytes()
	}
	return out
}

// encoding returns the header for a name of compressed.
func encoding(name string) string { return strings.TrimSuffix(name, " raw") }

// randomText returns a text that compresses badly, so that it has several blocks.
func randomText(n int) []byte {
	rng := rand.New(rand.NewPCG(3, 4))
	text := make([]byte, n)
	for i := range text {
		text[i] = byte('a' + rng.IntN(26))
	}
	return text
}

func TestBodyIsDecompressedAsItsEncodingSays(t *testing.T) {
	t.Parallel()
	text := randomText(300_000)
	d := NewDecoder(DefaultLimits())
	for range 2 {
		for name, body := range compressed(t, text) {
			got, err := d.ReadBody([]byte("before "), bytes.NewReader(body), encoding(name))
			if err != nil || string(got) != "before "+string(text) {
				t.Errorf("%q: %d bytes, %v", name, len(got), err)
			}
		}
	}
}

func TestEncodingsAreRecognizedInEachSpelling(t *testing.T) {
	t.Parallel()
	bodies := compressed(t, []byte("hello"))
	for header, name := range map[string]string{
		"": "", "identity": "", "Identity": "", " , ": "", "GZIP": "gzip", "x-gzip": "gzip", " gzip , identity ": "gzip",
		"identity,gzip": "gzip", "Zstd": "zstd", "DEFLATE": "deflate raw",
	} {
		got, err := NewDecoder(DefaultLimits()).ReadBody(nil, bytes.NewReader(bodies[name]), header)
		if err != nil || string(got) != "hello" {
			t.Errorf("%q: got %q, %v", header, got, err)
		}
	}
}

func TestUnknownEncodingIsRefusedUnread(t *testing.T) {
	t.Parallel()
	for _, header := range []string{"br", "gzip, gzip", "gzip, zstd", "gzip;q=1", "snappy", strings.Repeat("x", 1000), "\r\nX: y"} {
		_, err := NewDecoder(DefaultLimits()).ReadBody(nil, iotest.ErrReader(errors.New("was read")), header)
		var e *Error
		if !errors.As(err, &e) || e.Code != CodeUnsupportedEncoding || e.Index != -1 || len(e.Detail) > 150 || strings.ContainsAny(e.Detail, "\r\n") {
			t.Errorf("%.20q: got %v", header, err)
		}
	}
}

func TestEmptyBodyIsEmptyInEveryEncoding(t *testing.T) {
	t.Parallel()
	for name, body := range compressed(t, nil) {
		for _, b := range [][]byte{nil, body} {
			got, err := NewDecoder(DefaultLimits()).ReadBody(nil, bytes.NewReader(b), encoding(name))
			if err != nil || len(got) != 0 {
				t.Errorf("%s %x: got %q, %v", name, b, got, err)
			}
		}
	}
}

func TestIncompleteAndDamagedBodiesAreInvalid(t *testing.T) {
	t.Parallel()
	d := NewDecoder(DefaultLimits())
	for name, body := range compressed(t, []byte(`{"data":"hello hello hello hello"}`)) {
		if name == "" {
			continue
		}
		for n := 1; n < len(body); n++ {
			mustBeInvalid(t, d, name, body[:n])
		}
		mustBeInvalid(t, d, name, append(bytes.Clone(body), "more"...))
		mustBeInvalid(t, d, name, []byte(`{"data":"not compressed"}`))
	}
}

func mustBeInvalid(t *testing.T, d *Decoder, name string, body []byte) {
	t.Helper()
	_, err := d.ReadBody(nil, bytes.NewReader(body), encoding(name))
	var e *Error
	if !errors.As(err, &e) || e.Code != CodeInvalidJSON || e.Index != -1 {
		t.Errorf("%s, %d bytes: got %v", name, len(body), err)
	}
}

func TestErrorsOfTheConnectionDoNotBlameTheBody(t *testing.T) {
	t.Parallel()
	gone := errors.New("connection reset")
	for name, body := range compressed(t, randomText(100_000)) {
		for _, n := range []int{0, 1, len(body) / 2, len(body)} {
			r := io.MultiReader(bytes.NewReader(body[:n]), iotest.ErrReader(gone))
			_, err := NewDecoder(DefaultLimits()).ReadBody(nil, r, encoding(name))
			var e *Error
			if !errors.Is(err, gone) || errors.As(err, &e) {
				t.Errorf("%q after %d bytes: got %v", name, n, err)
			}
		}
	}
}

func TestBodyAboveALimitIsTooLarge(t *testing.T) {
	t.Parallel()
	text := randomText(10_000)
	for name, body := range compressed(t, text) {
		l := DefaultLimits()
		l.Body, l.Decoded = int64(len(body)), int64(len(text))
		if _, err := NewDecoder(l).ReadBody(nil, bytes.NewReader(body), encoding(name)); err != nil {
			t.Errorf("%q at its limits: %v", name, err)
		}
		l.Body--
		mustBeTooLarge(t, l, name, body)
		l.Body++
		l.Decoded--
		mustBeTooLarge(t, l, name, body)
	}
}

func mustBeTooLarge(t *testing.T, l Limits, name string, body []byte) {
	t.Helper()
	_, err := NewDecoder(l).ReadBody(nil, bytes.NewReader(body), encoding(name))
	var e *Error
	if !errors.As(err, &e) || e.Code != CodeBodyTooLarge || e.Index != -1 {
		t.Errorf("%q: got %v", name, err)
	}
}

// The test measures all allocations until the refusal.
func TestDecompressionBombsAreRefusedWithoutHoldingThem(t *testing.T) {
	l := DefaultLimits()
	l.Decoded = 8 << 20
	for name, body := range compressed(t, make([]byte, 64<<20)) {
		if name == "" {
			continue
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		mustBeTooLarge(t, l, name, body)
		runtime.ReadMemStats(&after)
		const most = 40 << 20 // 8 MiB, what it grew from, and a window
		if grown := after.TotalAlloc - before.TotalAlloc; grown > most {
			t.Errorf("%s: %d bytes made it allocate %d MiB", name, len(body), grown>>20)
		}
	}
}

// The frame asks for 2 GiB and is empty: magic, no content size, window descriptor,
// one empty last block.
func TestHugeZstdWindowIsRefused(t *testing.T) {
	frame := []byte{0x28, 0xB5, 0x2F, 0xFD, 0x00, 21 << 3, 0x01, 0x00, 0x00}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	mustBeTooLarge(t, DefaultLimits(), "zstd", frame)
	runtime.ReadMemStats(&after)
	if grown := after.TotalAlloc - before.TotalAlloc; grown > 1<<20 {
		t.Errorf("%d KiB allocated", grown>>10)
	}
	frame[5] = 13 << 3 // 8 MiB, what every decoder is asked to support
	if _, err := NewDecoder(DefaultLimits()).ReadBody(nil, bytes.NewReader(frame), "zstd"); err != nil {
		t.Errorf("a window of 8 MiB: %v", err)
	}
}

func TestReadingBodiesAllocatesNothingWhenWarm(t *testing.T) {
	d := NewDecoder(DefaultLimits())
	var dst []byte
	for name, body := range compressed(t, randomText(50_000)) {
		r := bytes.NewReader(nil)
		read := func() {
			r.Reset(body)
			var err error
			if dst, err = d.ReadBody(dst[:0], r, encoding(name)); err != nil {
				t.Fatal(err)
			}
		}
		read()
		if allocs := testing.AllocsPerRun(20, read); allocs > 1 {
			t.Errorf("%q: %v allocations", name, allocs)
		}
	}
}

func TestBodyWithoutMemoryIsNotRead(t *testing.T) {
	t.Parallel()
	full := errors.New("no room")
	for name, body := range compressed(t, bytes.Repeat([]byte("x"), 1<<20)) {
		asked := 0
		d := NewDecoder(DefaultLimits())
		d.Reserve(func(bytes int) error {
			if asked += bytes; asked > 100_000 {
				return full
			}
			return nil
		})
		got, err := d.ReadBody(nil, bytes.NewReader(body), encoding(name))
		if !errors.Is(err, full) || len(got) > 200_000 { // growth is rounded up
			t.Errorf("%q: %d bytes were read, error %v", name, len(got), err)
		}
	}
}
