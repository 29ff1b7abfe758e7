package decode

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zlib"
	"github.com/klauspost/compress/zstd"
)

// maxWindow is the largest window of a zstd body, which every decoder must support
// according to RFC 8878. A body of nine bytes can ask for it, and a Decoder then
// keeps that much memory.
const maxWindow = 8 << 20

// decompressors are created when they are first needed, and reused.
type decompressors struct {
	sent    sentReader
	buffer  *bufio.Reader
	gzip    *gzip.Reader
	zlib    io.ReadCloser
	deflate io.ReadCloser
	zstd    *zstd.Decoder
	reserve func(bytes int) error // nil: memory is not limited
}

// Reserve sets a function that is called before a body's buffer grows by so many
// bytes. If it returns an error, ReadBody stops and returns that error.
func (d *Decoder) Reserve(ask func(bytes int) error) { d.bodies.reserve = ask }

// ReadBody appends what r returns to dst, decompressed according to the
// Content-Encoding: gzip, deflate (with or without zlib's header), zstd, identity
// or empty, in any case. It never holds more than the limits allow. The error is an
// *Error if the body is at fault; otherwise it wraps the error of r.
func (d *Decoder) ReadBody(dst []byte, r io.Reader, contentEncoding string) ([]byte, error) {
	coding, err := codingOf(contentEncoding)
	if err != nil {
		return dst, err
	}
	b := &d.bodies
	b.start(r, d.limits.Body)
	defer b.stop()

	start := len(dst)
	dst, err = b.read(dst, coding, d.limits.Decoded)
	if err != nil {
		return dst, d.bodyError(err, coding, len(dst)-start)
	}
	return dst, nil
}

// codingOf returns the one compression that a Content-Encoding names. Bodies that
// were compressed twice are refused: no client has a good reason to send them.
func codingOf(contentEncoding string) (string, error) {
	coding := "identity"
	for part := range strings.SplitSeq(contentEncoding, ",") {
		part = strings.ToLower(strings.TrimSpace(part))
		switch {
		case part == "" || part == "identity":
		case coding != "identity":
			return "", unsupported("more than one compression is not supported")
		case part == "x-gzip":
			coding = "gzip"
		case part == "gzip" || part == "deflate" || part == "zstd":
			coding = part
		default:
			return "", unsupported(fmt.Sprintf("Content-Encoding %.32q is not supported", part))
		}
	}
	return coding, nil
}

func unsupported(why string) error {
	return &Error{Code: CodeUnsupportedEncoding, Index: -1, Detail: why + ": use gzip, zstd, deflate or none"}
}

func (b *decompressors) start(r io.Reader, limit int64) {
	b.sent = sentReader{r: r, left: limit}
	if b.buffer == nil {
		b.buffer = bufio.NewReader(nil)
	}
	b.buffer.Reset(&b.sent)
}

// stop drops the reference to the request's body.
func (b *decompressors) stop() { b.sent = sentReader{} }

// read appends the whole decompressed body.
func (b *decompressors) read(dst []byte, coding string, limit int64) ([]byte, error) {
	if _, err := b.buffer.Peek(1); err != nil {
		if errors.Is(err, io.EOF) {
			return dst, nil // an empty body is not compressed
		}
		return dst, err
	}
	r, err := b.open(coding)
	if err == nil {
		dst, err = b.appendAll(dst, r, limit)
	}
	if err != nil {
		return dst, err
	}
	if _, err := b.buffer.Peek(1); !errors.Is(err, io.EOF) {
		return dst, errTrailing
	}
	return dst, nil
}

// open returns a reader that decompresses the buffer.
func (b *decompressors) open(coding string) (io.Reader, error) {
	switch coding {
	case "gzip":
		return b.openGzip()
	case "zstd":
		return b.openZstd()
	case "deflate":
		return b.openDeflate()
	}
	return b.buffer, nil
}

func (b *decompressors) openGzip() (io.Reader, error) {
	if b.gzip == nil {
		b.gzip = new(gzip.Reader)
	}
	return b.gzip, b.gzip.Reset(b.buffer)
}

func (b *decompressors) openZstd() (io.Reader, error) {
	if b.zstd != nil {
		return b.zstd, b.zstd.Reset(b.buffer)
	}
	// With a concurrency of one it starts no goroutines, so it need not be closed.
	z, err := zstd.NewReader(b.buffer, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
		zstd.WithDecoderMaxWindow(maxWindow))
	b.zstd = z
	return z, err
}

// openDeflate checks the first two bytes: RFC 9110 requires zlib's header for
// "deflate", but many clients omit it.
func (b *decompressors) openDeflate() (io.Reader, error) {
	head, err := b.buffer.Peek(2)
	if err != nil {
		return nil, noEOF(err)
	}
	if head[0]&0x0F == 8 && (int(head[0])<<8|int(head[1]))%31 == 0 {
		return b.openZlib()
	}
	if b.deflate == nil {
		b.deflate = flate.NewReader(b.buffer)
		return b.deflate, nil
	}
	return b.deflate, b.deflate.(flate.Resetter).Reset(b.buffer, nil)
}

func (b *decompressors) openZlib() (r io.Reader, err error) {
	if b.zlib == nil {
		b.zlib, err = zlib.NewReader(b.buffer)
		return b.zlib, err
	}
	return b.zlib, b.zlib.(zlib.Resetter).Reset(b.buffer, nil)
}

func noEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

var (
	errSentTooLarge    = errors.New("larger than allowed as sent")
	errDecodedTooLarge = errors.New("larger than allowed once decompressed")
	errTrailing        = errors.New("bytes after the end")
)

// appendAll reads r to its end. It never holds more than one byte beyond the limit.
func (b *decompressors) appendAll(dst []byte, r io.Reader, limit int64) ([]byte, error) {
	most := len(dst) + int(limit) + 1
	for {
		if len(dst) == cap(dst) {
			more := min(max(4096, len(dst)), most-len(dst))
			if err := b.reserveBytes(more); err != nil {
				return dst, err
			}
			dst = slices.Grow(dst, more)
		}
		n, err := r.Read(dst[len(dst):min(cap(dst), most)])
		dst = dst[:len(dst)+n]
		switch {
		case len(dst) == most:
			return dst, errDecodedTooLarge
		case errors.Is(err, io.EOF):
			return dst, nil
		case err != nil:
			return dst, err
		}
	}
}

// reserveError is the error of the function that Reserve set.
type reserveError struct{ error }

func (e reserveError) Unwrap() error { return e.error }

// reserveBytes asks for memory.
func (b *decompressors) reserveBytes(bytes int) error {
	if b.reserve == nil {
		return nil
	}
	if err := b.reserve(bytes); err != nil {
		return reserveError{err}
	}
	return nil
}

// bodyError returns the error that the client is told.
func (d *Decoder) bodyError(err error, coding string, decoded int) error {
	e := &Error{Code: CodeInvalidJSON, Index: -1, Offset: int64(decoded)}
	var refused reserveError
	switch {
	case errors.As(err, &refused):
		return refused.error
	case errors.Is(d.bodies.sent.err, errSentTooLarge):
		e.Code = CodeBodyTooLarge
		e.Detail = fmt.Sprintf("the body is larger than %d bytes", d.limits.Body)
	case d.bodies.sent.err != nil:
		return fmt.Errorf("read the body: %w", d.bodies.sent.err)
	case errors.Is(err, errDecodedTooLarge), errors.Is(err, zstd.ErrDecoderSizeExceeded):
		e.Code = CodeBodyTooLarge
		e.Detail = fmt.Sprintf("the decompressed body is larger than %d bytes", d.limits.Decoded)
	case errors.Is(err, zstd.ErrWindowSizeExceeded):
		e.Code = CodeBodyTooLarge
		e.Detail = fmt.Sprintf("the zstd body has a window larger than %d bytes: compress it without --long", maxWindow)
	default:
		e.Detail = fmt.Sprintf("the %s body is damaged or incomplete", coding)
	}
	return e
}

// sentReader limits what the client sends and keeps the error of that side, which a
// decompressor may report as its own.
type sentReader struct {
	r    io.Reader
	left int64
	err  error
}

// Read implements io.Reader.
func (s *sentReader) Read(p []byte) (int, error) {
	n, err := s.r.Read(p[:min(int64(len(p)), s.left+1)])
	s.left -= int64(n)
	switch {
	case s.left < 0:
		s.err = errSentTooLarge
	case err != nil && !errors.Is(err, io.EOF):
		s.err = err
	default:
		return n, err
	}
	return n, s.err
}
