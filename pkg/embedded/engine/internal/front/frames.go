package front

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/ClickHouse/ch-go/compress"
	"github.com/go-faster/city"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

// A compressed frame of ClickHouse: 16 bytes CityHash128 of the rest, one byte
// for the method, the size of the frame without its hash, the size of the data,
// then the data.
//
// The format: src/Compression/CompressedReadBufferBase.cpp.
const (
	hashBytes   = 16
	headBytes   = 9
	methodNone  = 0x02
	methodLZ4   = 0x82
	methodZSTD  = 0x90
	maxFrame    = 128 << 20 // data of one frame; clickhouse-go puts a whole block into one
	outputFrame = 1 << 20   // data of the frames that are written, as in ClickHouse
)

// frameReader decompresses frames. It returns io.EOF only if the body ends
// between two frames, which a general decompressor does not distinguish.
type frameReader struct {
	from io.Reader
	raw  []byte
	data []byte
	rest []byte
	zstd *zstd.Decoder
}

func newFrameReader(from io.Reader) *frameReader { return &frameReader{from: from} }

func (f *frameReader) Read(p []byte) (int, error) {
	for len(f.rest) == 0 {
		if err := f.nextFrame(); err != nil {
			return 0, err
		}
	}
	n := copy(p, f.rest)
	f.rest = f.rest[n:]
	return n, nil
}

func (f *frameReader) nextFrame() error {
	var head [hashBytes + headBytes]byte
	if _, err := io.ReadFull(f.from, head[:]); err != nil {
		return err // io.EOF means the end of the body only here
	}
	packed := int64(binary.LittleEndian.Uint32(head[hashBytes+1:])) - headBytes
	size := int64(binary.LittleEndian.Uint32(head[hashBytes+5:]))
	if packed < 0 || packed > maxFrame || size > maxFrame {
		return fmt.Errorf("a compressed frame of %d bytes for %d bytes of data exceeds the limit", packed, size)
	}
	if err := f.readRaw(head[hashBytes:], packed); err != nil {
		return err
	}
	hash := city.CH128(f.raw)
	if hash.Low != binary.LittleEndian.Uint64(head[:]) || hash.High != binary.LittleEndian.Uint64(head[8:]) {
		return errors.New("the checksum of a compressed frame is wrong")
	}
	return f.unpack(f.raw[0], f.raw[headBytes:], int(size))
}

// readRaw reads the frame's content after its head. The buffer grows as bytes
// arrive, so that a large size in the head alone costs no memory.
func (f *frameReader) readRaw(head []byte, packed int64) error {
	buffer := bytes.NewBuffer(append(f.raw[:0], head...))
	n, err := io.CopyN(buffer, f.from, packed)
	f.raw = buffer.Bytes()
	if err == io.EOF || err == nil && n < packed {
		return io.ErrUnexpectedEOF
	}
	return err
}

func (f *frameReader) unpack(method byte, packed []byte, size int) (err error) {
	if cap(f.data) < size && method != methodNone {
		f.data = make([]byte, size)
	}
	switch method {
	case methodNone:
		f.data = append(f.data[:0], packed...)
	case methodLZ4:
		var n int
		n, err = lz4.UncompressBlock(packed, f.data[:size])
		f.data = f.data[:n]
	case methodZSTD:
		err = f.unpackZSTD(packed)
	default:
		return raise(codeUnknownCompression, "UNKNOWN_COMPRESSION_METHOD", "compression method 0x%02x is unknown: use LZ4, ZSTD or none", method)
	}
	if err != nil || len(f.data) != size {
		return raise(codeCannotDecompress, "CANNOT_DECOMPRESS", "a compressed frame does not decompress to its size")
	}
	f.rest = f.data
	return nil
}

func (f *frameReader) unpackZSTD(packed []byte) (err error) {
	if f.zstd == nil {
		f.zstd, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxMemory(maxFrame))
		if err != nil {
			return err
		}
	}
	f.data, err = f.zstd.DecodeAll(packed, f.data[:0])
	return err
}

// frameWriter writes a result in compressed frames.
type frameWriter struct {
	to     io.Writer
	packer *compress.Writer
	plain  *compress.Writer
}

// newFrameWriter compresses by network_compression_method. LZ4 is the default.
func newFrameWriter(to io.Writer, method string) *frameWriter {
	packer := compress.LZ4
	switch method {
	case "ZSTD", "zstd":
		packer = compress.ZSTD
	case "NONE", "none":
		packer = compress.None
	}
	return &frameWriter{
		to:     to,
		packer: compress.NewWriter(compress.LevelZero, packer),
		plain:  compress.NewWriter(compress.LevelZero, compress.None),
	}
}

func (f *frameWriter) Write(p []byte) (int, error) { return f.write(p, f.packer) }

// writePlain writes an uncompressed frame, which a reader can search.
func (f *frameWriter) writePlain(p []byte) (int, error) { return f.write(p, f.plain) }

func (f *frameWriter) write(p []byte, packer *compress.Writer) (int, error) {
	for written := 0; written < len(p); {
		part := p[written:min(len(p), written+outputFrame)]
		if err := packer.Compress(part); err != nil {
			return written, fmt.Errorf("compress the result: %w", err)
		}
		if _, err := f.to.Write(packer.Data); err != nil {
			return written, err
		}
		written += len(part)
	}
	return len(p), nil
}
