package front

import (
	"bufio"
	"compress/zlib"
	"io"
	"strings"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

// maxWindow bounds what a zstd body can make the decoder keep in memory.
const maxWindow = 8 << 20

// decode undoes a Content-Encoding.
func decode(from io.Reader, encoding string) (io.Reader, error) {
	switch strings.ToLower(strings.TrimSpace(encoding)) {
	case "", "identity":
		return from, nil
	case "gzip", "x-gzip":
		return lazily(func() (io.Reader, error) { return gzip.NewReader(bufio.NewReader(from)) }), nil
	case "deflate":
		return lazily(func() (io.Reader, error) { return zlib.NewReader(bufio.NewReader(from)) }), nil
	case "br":
		return brotli.NewReader(from), nil
	case "lz4":
		return lz4.NewReader(from), nil
	case "zstd":
		return lazily(func() (io.Reader, error) {
			return zstd.NewReader(from, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxWindow))
		}), nil
	}
	return nil, raise(codeUnknownCompression, "UNKNOWN_COMPRESSION_METHOD", "content encoding %q is not known: use gzip, deflate, br, zstd or lz4", encoding)
}

// lazyReader opens a decoder at the first read, because opening reads already.
type lazyReader struct {
	open   func() (io.Reader, error)
	opened io.Reader
}

func lazily(open func() (io.Reader, error)) io.Reader { return &lazyReader{open: open} }

func (l *lazyReader) Read(p []byte) (int, error) {
	if l.opened == nil {
		opened, err := l.open()
		if err == io.EOF {
			err = io.ErrUnexpectedEOF // an empty body is no archive
		}
		if err != nil {
			return 0, err
		}
		l.opened = opened
	}
	return l.opened.Read(p)
}

// acceptedCodec chooses among what a client accepts, in ClickHouse's order.
func acceptedCodec(accept string) string {
	for _, codec := range []string{"br", "gzip", "deflate", "zstd", "lz4"} {
		if strings.Contains(accept, codec) {
			return codec
		}
	}
	return ""
}

// encode compresses what is written to the result.
func encode(to io.Writer, codec string) io.WriteCloser {
	switch codec {
	case "br":
		return brotli.NewWriterLevel(to, brotli.BestSpeed)
	case "gzip":
		return gzip.NewWriter(to)
	case "deflate":
		return zlib.NewWriter(to)
	case "lz4":
		return lz4.NewWriter(to)
	case "zstd":
		// The options are constant and valid, so the error cannot be.
		w, _ := zstd.NewWriter(to, zstd.WithEncoderConcurrency(1), zstd.WithLowerEncoderMem(true))
		return w
	}
	return nopCloser{to}
}

type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }
