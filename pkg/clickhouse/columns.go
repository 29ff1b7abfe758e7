package clickhouse

import "encoding/binary"

// The columns below keep their values in the layout of ClickHouse's Native
// format, so that sending a block copies nothing:
// https://clickhouse.com/docs/interfaces/formats/Native and, for
// LowCardinality and Map, src/DataTypes/Serializations in ClickHouse's source.

// column is one column of a block.
type column interface {
	// prefix is the state that Native writes ahead of a column of this type.
	prefix() []byte
	// appendWire appends the column's bytes to pieces. They stay valid until
	// the column is appended to or reset.
	appendWire(pieces [][]byte) [][]byte
	// size is about what appendWire comes to, in bytes.
	size() int
	reset()
}

// fixed is a column of numbers, little endian.
type fixed struct {
	buf []byte
}

func (c *fixed) append8(v uint8)   { c.buf = append(c.buf, v) }
func (c *fixed) append16(v uint16) { c.buf = binary.LittleEndian.AppendUint16(c.buf, v) }
func (c *fixed) append32(v uint32) { c.buf = binary.LittleEndian.AppendUint32(c.buf, v) }
func (c *fixed) append64(v uint64) { c.buf = binary.LittleEndian.AppendUint64(c.buf, v) }

func (c *fixed) prefix() []byte                      { return nil }
func (c *fixed) appendWire(pieces [][]byte) [][]byte { return append(pieces, c.buf) }
func (c *fixed) size() int                           { return len(c.buf) }
func (c *fixed) reset()                              { c.buf = c.buf[:0] }

// text is a String column: each value behind its length.
type text struct {
	buf []byte
}

func (c *text) append(s string) {
	c.buf = binary.AppendUvarint(c.buf, uint64(len(s)))
	c.buf = append(c.buf, s...)
}

func (c *text) prefix() []byte                      { return nil }
func (c *text) appendWire(pieces [][]byte) [][]byte { return append(pieces, c.buf) }
func (c *text) size() int                           { return len(c.buf) }
func (c *text) reset()                              { c.buf = c.buf[:0] }
