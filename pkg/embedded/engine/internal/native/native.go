// Package native converts blocks of ClickHouse's Native format from revision 0,
// which the engine writes, to the revision that a client requested in
// `client_protocol_version`. The HTTP front converts each piece of a result.
//
// The revisions differ in two places. A newer one puts a block header before
// each block. From 54454 on it puts a byte before each column that says whether
// the column has a custom serialization; here it never has. The columns must be
// decoded to find those places, but their bytes are copied unchanged, because
// clickhouse-go does not write every type as it reads it.
//
// Source of the format: the documentation of "Native", and NativeWriter of
// ClickHouse 26.7.
package native

import (
	"bufio"
	"bytes"
	"fmt"

	chproto "github.com/ClickHouse/ch-go/proto"
	"github.com/ClickHouse/clickhouse-go/v2/lib/column"
	"github.com/ClickHouse/clickhouse-go/v2/lib/proto"
)

// blockHeader says that the block is not an overflow block (field 1) and has no
// bucket (field 2, -1); 0 ends the fields.
const blockHeader = "\x01\x00\x02\xff\xff\xff\xff\x00"

// Append appends the blocks of src, encoded for the revision, to dst. After an
// error it returns dst unchanged.
func Append(dst, src []byte, revision uint64) ([]byte, error) {
	if revision == 0 {
		return append(dst, src...), nil
	}
	out := dst
	for w := newWalker(src); w.position() < len(src); {
		var err error
		if out, err = w.block(out, revision); err != nil {
			return dst, fmt.Errorf("read a block of the result: %w", err)
		}
	}
	return out, nil
}

// walker reads blocks and knows its position in src.
type walker struct {
	src      []byte
	unread   *bytes.Reader
	buffered *bufio.Reader
	reader   *chproto.Reader
}

// readerBytes is at least the size of ch-go's buffer, so that ch-go uses the
// buffer given to it, whose position is known.
const readerBytes = 256 << 10

func newWalker(src []byte) *walker {
	unread := bytes.NewReader(src)
	buffered := bufio.NewReaderSize(unread, readerBytes)
	return &walker{src: src, unread: unread, buffered: buffered, reader: chproto.NewReader(buffered)}
}

func (w *walker) position() int {
	return len(w.src) - w.unread.Len() - w.buffered.Buffered()
}

func (w *walker) block(dst []byte, revision uint64) ([]byte, error) {
	dst = append(dst, blockHeader...)
	start := w.position()
	columns, err := w.reader.UVarInt()
	if err != nil {
		return nil, err
	}
	rows, err := w.reader.UVarInt()
	if err != nil {
		return nil, err
	}
	dst = append(dst, w.src[start:w.position()]...)
	for range columns {
		if dst, err = w.column(dst, int(rows), revision); err != nil {
			return nil, err
		}
	}
	return dst, nil
}

func (w *walker) column(dst []byte, rows int, revision uint64) ([]byte, error) {
	start := w.position()
	name, err := w.reader.Str()
	if err != nil {
		return nil, err
	}
	kind, err := w.reader.Str()
	if err != nil {
		return nil, err
	}
	dst = append(dst, w.src[start:w.position()]...)
	if revision >= proto.DBMS_MIN_REVISION_WITH_CUSTOM_SERIALIZATION {
		dst = append(dst, 0)
	}
	start = w.position()
	if err := w.skipData(name, kind, rows); err != nil {
		return nil, fmt.Errorf("column %s of type %s: %w", name, kind, err)
	}
	return append(dst, w.src[start:w.position()]...), nil
}

// skipData skips a column's prefix and values. A block without rows has
// neither.
func (w *walker) skipData(name, kind string, rows int) error {
	if rows == 0 {
		return nil
	}
	c, err := column.Type(kind).Column(name, &column.ServerContext{})
	if err != nil {
		return err
	}
	if custom, ok := c.(column.CustomSerialization); ok {
		if err := custom.ReadStatePrefix(w.reader); err != nil {
			return err
		}
	}
	return c.Decode(w.reader, rows)
}
