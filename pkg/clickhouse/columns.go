package clickhouse

import (
	"encoding/binary"
	"math"
	"strings"

	"github.com/logboom/logboom/pkg/record"
)

// The columns below keep their values in the layout of ClickHouse's Native
// format, so that sending a block copies nothing:
// https://clickhouse.com/docs/interfaces/formats/Native and, for
// LowCardinality and Map, src/DataTypes/Serializations in ClickHouse's source.

// column is one column of a block.
type column interface {
	// prefix returns what Native writes before a column of this type.
	prefix() []byte
	// appendWire appends the column's bytes to pieces. They stay valid until
	// the column is appended to or reset.
	appendWire(pieces [][]byte) [][]byte
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
func (c *fixed) reset()                              { c.buf = c.buf[:0] }

// text is a String column: each value follows its length.
type text struct {
	buf []byte
}

func (c *text) append(s string) { c.buf = appendString(c.buf, s) }

func (c *text) prefix() []byte                      { return nil }
func (c *text) appendWire(pieces [][]byte) [][]byte { return append(pieces, c.buf) }
func (c *text) reset()                              { c.buf = c.buf[:0] }

const (
	// sharedDictionaries is the version of LowCardinality's serialization.
	sharedDictionaries = 1
	// dictionaryFollows are the flags of a column that carries its dictionary
	// (it has additional keys, and the dictionary is to be updated).
	dictionaryFollows = 1<<9 | 1<<10
)

// words is a LowCardinality(String) column: a dictionary, and for each row the
// key of its word in the dictionary.
type words struct {
	keys []uint32

	dictionary text
	words      []string          // by key; own copies
	key        map[string]uint32 // the reverse
	// after[k] is the key that last followed k. Rows repeat the words of their
	// neighbours, and metadata repeats its keys in the same order, so the guess
	// is mostly right, and comparing is three times faster than hashing.
	after []uint32
	last  uint32

	narrow []byte // the keys as appendWire sent them, kept for reuse
}

func (c *words) append(word string) {
	if int(c.last) < len(c.after) {
		if guess := c.after[c.last]; c.words[guess] == word {
			c.last = guess
			c.keys = append(c.keys, guess)
			return
		}
	}
	c.appendKey(c.keyOf(word))
}

func (c *words) appendKey(key uint32) {
	c.after[c.last] = key
	c.last = key
	c.keys = append(c.keys, key)
}

// keyOf returns the word's key and adds the word where it is new.
func (c *words) keyOf(word string) uint32 {
	if key, ok := c.key[word]; ok {
		return key
	}
	if c.key == nil {
		c.key = make(map[string]uint32)
	}
	key := uint32(len(c.words))
	word = strings.Clone(word) // a record's strings are borrowed
	c.key[word] = key
	c.words = append(c.words, word)
	c.after = append(c.after, key)
	c.dictionary.append(word)
	return key
}

func (c *words) prefix() []byte {
	return binary.LittleEndian.AppendUint64(nil, sharedDictionaries)
}

// appendWire writes nothing for a column without rows, as ClickHouse does.
func (c *words) appendWire(pieces [][]byte) [][]byte {
	if len(c.keys) == 0 {
		return pieces
	}
	width := c.narrowKeys()
	head := binary.LittleEndian.AppendUint64(nil, dictionaryFollows|width)
	head = binary.LittleEndian.AppendUint64(head, uint64(len(c.words)))
	count := binary.LittleEndian.AppendUint64(nil, uint64(len(c.keys)))
	return append(pieces, head, c.dictionary.buf, count, c.narrow)
}

// narrowKeys writes the keys, each as narrow as the dictionary allows, and
// returns the number of that width in the format: 0 for one byte, 1 for two,
// 2 for four.
func (c *words) narrowKeys() uint64 {
	c.narrow = c.narrow[:0]
	switch n := len(c.words); {
	case n <= math.MaxUint8:
		for _, key := range c.keys {
			c.narrow = append(c.narrow, uint8(key))
		}
		return 0
	case n <= math.MaxUint16:
		for _, key := range c.keys {
			c.narrow = binary.LittleEndian.AppendUint16(c.narrow, uint16(key))
		}
		return 1
	default:
		for _, key := range c.keys {
			c.narrow = binary.LittleEndian.AppendUint32(c.narrow, key)
		}
		return 2
	}
}

func (c *words) reset() {
	c.keys = c.keys[:0]
	c.dictionary.reset()
	clear(c.words) // releases the strings
	c.words = c.words[:0]
	clear(c.key)
	c.after = c.after[:0]
	c.last = 0
}

// pairs is a Map(LowCardinality(String), String) column: for each row the end
// of its pairs, then all keys, then all values.
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

// Types of columns as the tables have them.
const (
	lowCardinality = "LowCardinality(String)"
	dateTime       = "DateTime64(9, 'UTC')"
	stringMap      = "Map(LowCardinality(String), String)"
)

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
