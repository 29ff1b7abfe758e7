package record

import (
	"encoding/binary"
	"io"

	"github.com/klauspost/compress/s2"
)

// Reader reads the sections of a message. It decompresses them into a buffer of its
// own, of at most MaxSectionBytes, and allocates nothing once that is large enough.
// The zero value is an empty message. One goroutine at a time may use it.
type Reader struct {
	message []byte
	offset  int
	raw     []byte
	section Section
}

// Reset starts reading a message. The caller must not change it until the next
// Reset: sections that are not compressed are read in place.
func (r *Reader) Reset(message []byte) {
	r.message, r.offset = message, 0
}

// NextSection returns the next section, valid until the next call of NextSection or
// Reset. The error is io.EOF at the message's end. Otherwise it is a *CorruptError,
// and further calls return it again.
func (r *Reader) NextSection() (*Section, error) {
	if r.offset >= len(r.message) {
		return nil, io.EOF
	}
	body, codec, reason := r.frame(r.message[r.offset:])
	if reason == "" {
		reason = r.open(body, codec)
	}
	if reason != "" {
		return nil, &CorruptError{Offset: r.offset, Reason: reason}
	}
	r.section.offset = r.offset
	r.offset += prefixBytes + len(body)
	return &r.section, nil
}

// frame checks a section's prefix and returns its body.
func (r *Reader) frame(b []byte) (body []byte, codec byte, reason string) {
	if len(b) < prefixBytes {
		return nil, 0, "cut inside its prefix"
	}
	if b[0] != sectionVersion {
		return nil, 0, "unknown version"
	}
	size := binary.LittleEndian.Uint32(b[sizeOffset:])
	if uint64(size) > uint64(len(b)-prefixBytes) {
		return nil, 0, "cut inside its body"
	}
	b = b[:prefixBytes+int(size)]
	if binary.LittleEndian.Uint32(b[checkOffset:]) != check(b) {
		return nil, 0, "wrong checksum"
	}
	r.section.reset(Kind(b[1]))
	if r.section.Kind < KindLog || r.section.Kind > KindDrop {
		return nil, 0, "unknown kind"
	}
	return b[prefixBytes:], b[2], ""
}

// open decodes the body's header and decompresses its rows.
func (r *Reader) open(body []byte, codec byte) (reason string) {
	c := cursor{buf: body}
	s := &r.section
	s.Project = c.text()
	s.RetentionDays = c.uint16()
	rows, raw := c.uvarint(), c.uvarint()
	switch {
	case c.reason != "":
		return "header: " + c.reason
	case len(s.Project) > MaxProjectBytes:
		return "header: the project's id is too long"
	case raw > MaxSectionBytes:
		return "header: the rows are too large"
	case rows > raw/minRowBytes:
		return "header: more rows than their bytes can hold"
	}
	s.Rows = int(rows)
	s.cursor.buf, reason = r.decompress(body[c.pos:], codec, int(raw))
	return reason
}

func (r *Reader) decompress(stored []byte, codec byte, size int) (rows []byte, reason string) {
	switch codec {
	case codecNone:
		if len(stored) != size {
			return nil, "the rows have another length than the header says"
		}
		return stored, ""
	case codecS2:
		if n, err := s2.DecodedLen(stored); err != nil || n != size {
			return nil, "the rows have another length than the header says"
		}
		raw, err := s2.Decode(r.raw[:cap(r.raw)], stored)
		if err != nil {
			return nil, "the rows cannot be decompressed"
		}
		r.raw = raw
		return raw, ""
	}
	return nil, "unknown codec"
}
