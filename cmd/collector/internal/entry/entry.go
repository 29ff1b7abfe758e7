// Package entry decodes what Docker writes into a log driver's FIFO, and joins
// the pieces of long lines.
//
// A FIFO holds frames: a length, and one LogEntry message of that length.
//
//	uint32, big-endian: n │ n bytes: LogEntry (protocol buffers)
//
//	LogEntry            1 source string · 2 time_nano int64 · 3 line bytes · 4 partial bool · 5 partial_log_metadata
//	PartialLogMetadata  1 last bool · 2 id string · 3 ordinal int32
//
// The format is that of moby's api/types/plugins/logdriver. What a newcomer
// would get wrong: the length comes from the other side, so Length checks it
// against MaxSize before anything is allocated or read.
package entry

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"google.golang.org/protobuf/encoding/protowire"
)

const (
	// HeaderSize is the number of bytes of a frame's length.
	HeaderSize = 4
	// MaxSize is the largest message that Length accepts. Docker cuts lines at
	// 16 KiB; the limit leaves room for later versions.
	MaxSize = 1 << 20
)

// ErrFrame reports an impossible frame length. The reader has lost the
// boundaries of the frames, so that nothing after it can be decoded.
var ErrFrame = errors.New("frame length is zero or over 1 MiB")

// Field numbers of LogEntry and PartialLogMetadata.
const (
	fieldSource  = 1
	fieldTime    = 2
	fieldLine    = 3
	fieldPartial = 4
	fieldMeta    = 5

	metaLast    = 1
	metaID      = 2
	metaOrdinal = 3
)

// Entry is one line of a container, or one piece of a line.
type Entry struct {
	Source  string // stdout or stderr
	Time    int64  // nanoseconds since the epoch
	Line    []byte // without its newline; shares the memory of the decoded message
	Partial bool   // a piece of a longer line: ID names the line, Last marks its last piece
	Last    bool
	ID      string // empty if Docker sent none
	Ordinal int32  // position of the piece, from 1; 0 if Docker sent none
}

// EndsLine reports whether a line ends with this entry.
func (e *Entry) EndsLine() bool { return !e.Partial || e.Last }

// Length returns the length of the message behind a frame's header. The header
// must hold HeaderSize bytes. The error is ErrFrame.
func Length(header []byte) (int, error) {
	n := binary.BigEndian.Uint32(header)
	if n == 0 || n > MaxSize {
		return 0, fmt.Errorf("%w: %d bytes", ErrFrame, n)
	}
	return int(n), nil
}

// Decode decodes one message into e and overwrites what e held. It skips
// unknown fields. Line points into message.
func (e *Entry) Decode(message []byte) error {
	*e = Entry{}
	return eachField(message, func(number protowire.Number, kind protowire.Type, value uint64, bytes []byte) error {
		switch {
		case number == fieldSource && kind == protowire.BytesType:
			e.Source = sourceName(bytes)
		case number == fieldTime && kind == protowire.VarintType:
			e.Time = int64(value)
		case number == fieldLine && kind == protowire.BytesType:
			e.Line = bytes
		case number == fieldPartial && kind == protowire.VarintType:
			e.Partial = value != 0
		case number == fieldMeta && kind == protowire.BytesType:
			return e.decodeMeta(bytes)
		}
		return nil
	})
}

func (e *Entry) decodeMeta(message []byte) error {
	return eachField(message, func(number protowire.Number, kind protowire.Type, value uint64, bytes []byte) error {
		switch {
		case number == metaLast && kind == protowire.VarintType:
			e.Last = value != 0
		case number == metaID && kind == protowire.BytesType:
			e.ID = string(bytes)
		case number == metaOrdinal && kind == protowire.VarintType:
			e.Ordinal = int32(min(value, math.MaxInt32))
		}
		return nil
	})
}

// sourceName allocates nothing for the two usual names.
func sourceName(name []byte) string {
	switch string(name) {
	case "stdout":
		return "stdout"
	case "stderr":
		return "stderr"
	}
	return string(name)
}

// eachField calls visit with every field of a message: value is set for
// varints, bytes for fields that have a length.
func eachField(message []byte, visit func(number protowire.Number, kind protowire.Type, value uint64, bytes []byte) error) error {
	for len(message) > 0 {
		number, kind, n := protowire.ConsumeTag(message)
		if n < 0 {
			return fmt.Errorf("log entry: %w", protowire.ParseError(n))
		}
		message = message[n:]
		var value uint64
		var bytes []byte
		switch kind {
		case protowire.VarintType:
			value, n = protowire.ConsumeVarint(message)
		case protowire.BytesType:
			bytes, n = protowire.ConsumeBytes(message)
		default:
			n = protowire.ConsumeFieldValue(number, kind, message)
		}
		if n < 0 {
			return fmt.Errorf("log entry: field %d: %w", number, protowire.ParseError(n))
		}
		message = message[n:]
		if err := visit(number, kind, value, bytes); err != nil {
			return err
		}
	}
	return nil
}
