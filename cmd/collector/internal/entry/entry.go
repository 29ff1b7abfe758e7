// Package entry reads and writes what Docker puts into a log driver's FIFO:
// frames of a length and one LogEntry message each.
//
//	uint32, big-endian: n │ n bytes: LogEntry (protocol buffers)
//
//	LogEntry            1 source string · 2 time_nano int64 · 3 line bytes · 4 partial bool · 5 partial_log_metadata
//	PartialLogMetadata  1 last bool · 2 id string · 3 ordinal int32
//
// The format is that of moby's api/types/plugins/logdriver. What a newcomer
// would get wrong: the length comes from the other side, so it is checked
// against MaxSize before it is believed.
package entry

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"google.golang.org/protobuf/encoding/protowire"
)

const (
	// HeaderSize is the length of a frame's length.
	HeaderSize = 4
	// MaxSize is the largest message that is believed. Docker cuts lines at
	// 16 KiB; the rest is room for what may change.
	MaxSize = 1 << 20
)

// ErrFrame says that a length cannot be one: the reader is out of step with
// the writer, and nothing after it can be understood.
var ErrFrame = errors.New("a frame's length is over 1 MiB or zero")

// Numbers of the fields.
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

// Entry is one line of a container, or one piece of it.
type Entry struct {
	Source  string // stdout or stderr
	Time    int64  // nanoseconds since the epoch
	Line    []byte // without its newline; valid as long as the bytes that it was decoded from
	Partial bool   // a piece of a longer line; ID and Last say of which and whether it ends it
	Last    bool
	ID      string // empty where Docker gave none
	Ordinal int32  // of the piece, from 1; 0 where Docker gave none
}

// Ends tells whether a line ends with this entry.
func (e *Entry) Ends() bool { return !e.Partial || e.Last }

// Length reads a frame's header, which must hold HeaderSize bytes.
func Length(header []byte) (int, error) {
	n := binary.BigEndian.Uint32(header)
	if n == 0 || n > MaxSize {
		return 0, fmt.Errorf("%w: %d", ErrFrame, n)
	}
	return int(n), nil
}

// Decode reads one message into e, replacing what was there. Unknown fields
// are passed over. Line points into message.
func (e *Entry) Decode(message []byte) error {
	*e = Entry{}
	return fields(message, func(number protowire.Number, kind protowire.Type, value uint64, bytes []byte) error {
		switch {
		case number == fieldSource && kind == protowire.BytesType:
			e.Source = source(bytes)
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
	return fields(message, func(number protowire.Number, kind protowire.Type, value uint64, bytes []byte) error {
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

// source spares the two usual names an allocation a line.
func source(name []byte) string {
	switch string(name) {
	case "stdout":
		return "stdout"
	case "stderr":
		return "stderr"
	}
	return string(name)
}

// fields calls each with every field of a message: value is set for varints,
// bytes for what has a length.
func fields(message []byte, each func(number protowire.Number, kind protowire.Type, value uint64, bytes []byte) error) error {
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
		if err := each(number, kind, value, bytes); err != nil {
			return err
		}
	}
	return nil
}

// Append adds the frame of e to dst, as Docker would write it.
func Append(dst []byte, e *Entry) []byte {
	start := len(dst)
	dst = append(dst, 0, 0, 0, 0)
	dst = protowire.AppendTag(dst, fieldSource, protowire.BytesType)
	dst = protowire.AppendString(dst, e.Source)
	dst = protowire.AppendTag(dst, fieldTime, protowire.VarintType)
	dst = protowire.AppendVarint(dst, uint64(e.Time))
	dst = protowire.AppendTag(dst, fieldLine, protowire.BytesType)
	dst = protowire.AppendBytes(dst, e.Line)
	if e.Partial {
		dst = protowire.AppendTag(dst, fieldPartial, protowire.VarintType)
		dst = protowire.AppendVarint(dst, 1)
	}
	if e.Last || e.ID != "" || e.Ordinal != 0 {
		dst = protowire.AppendTag(dst, fieldMeta, protowire.BytesType)
		dst = protowire.AppendBytes(dst, appendMeta(nil, e))
	}
	binary.BigEndian.PutUint32(dst[start:], uint32(len(dst)-start-HeaderSize))
	return dst
}

func appendMeta(dst []byte, e *Entry) []byte {
	dst = protowire.AppendTag(dst, metaLast, protowire.VarintType)
	dst = protowire.AppendVarint(dst, protowire.EncodeBool(e.Last))
	dst = protowire.AppendTag(dst, metaID, protowire.BytesType)
	dst = protowire.AppendString(dst, e.ID)
	dst = protowire.AppendTag(dst, metaOrdinal, protowire.VarintType)
	return protowire.AppendVarint(dst, uint64(e.Ordinal))
}
