package clickhouse

import (
	"encoding/binary"

	"github.com/logboom/logboom/pkg/record"
)

// pairs is a Map(LowCardinality(String), String) column: for each row where
// its pairs end, then all keys, then all values.
type pairs struct {
	ends   fixed
	keys   words
	values text
}

func (c *pairs) append(row []record.Pair) {
	for i := range row {
		c.keys.append(row[i].Key)
		c.values.append(row[i].Value)
	}
	c.ends.append64(uint64(len(c.keys.keys)))
}

func (c *pairs) prefix() []byte { return c.keys.prefix() }

func (c *pairs) appendWire(pieces [][]byte) [][]byte {
	pieces = c.ends.appendWire(pieces)
	pieces = c.keys.appendWire(pieces)
	return c.values.appendWire(pieces)
}

func (c *pairs) size() int { return c.ends.size() + c.keys.size() + c.values.size() }

func (c *pairs) reset() {
	c.ends.reset()
	c.keys.reset()
	c.values.reset()
}

// field is a column with its name and type in the table.
type field struct {
	name, typ string
	column    column
}

// appendBlock appends a whole block in Native format, revision 0, to pieces.
func appendBlock(pieces [][]byte, fields []field, rows int) [][]byte {
	head := binary.AppendUvarint(nil, uint64(len(fields)))
	head = binary.AppendUvarint(head, uint64(rows))
	for _, f := range fields {
		head = appendString(head, f.name)
		head = appendString(head, f.typ)
		head = append(head, f.column.prefix()...)
		pieces = append(pieces, head)
		pieces = f.column.appendWire(pieces)
		head = nil
	}
	return pieces
}

func appendString(dst []byte, s string) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(s)))
	return append(dst, s...)
}
