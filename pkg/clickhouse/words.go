package clickhouse

import (
	"encoding/binary"
	"math"
	"strings"
)

const (
	// sharedDictionaries is the version of LowCardinality's serialization.
	sharedDictionaries = 1
	// dictionaryFollows are the flags of a column that brings its dictionary
	// with it (additional keys, and the dictionary is to be updated).
	dictionaryFollows = 1<<9 | 1<<10
)

// words is a LowCardinality(String) column: a dictionary, and for each row the
// key of its word in it.
type words struct {
	keys []uint32

	dictionary text
	words      []string          // by key; own copies
	key        map[string]uint32 // the reverse
	// after[k] is the key that last followed k. Rows repeat their neighbours'
	// words, and metadata repeats its keys in the same order, so the guess is
	// mostly right and comparing is three times faster than hashing.
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
	c.appendKey(c.lookup(word))
}

func (c *words) appendKey(key uint32) {
	c.after[c.last] = key
	c.last = key
	c.keys = append(c.keys, key)
}

// lookup finds the word's key and makes it where there is none.
func (c *words) lookup(word string) uint32 {
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

// appendWire writes nothing for a column without rows: neither does ClickHouse.
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

// narrowKeys writes the keys as bytes, each as narrow as the dictionary
// allows, and returns the number of that width in the format: 0 for one byte,
// 1 for two, 2 for four.
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

func (c *words) size() int { return len(c.dictionary.buf) + 4*len(c.keys) }

func (c *words) reset() {
	c.keys = c.keys[:0]
	c.dictionary.reset()
	clear(c.words) // lets go of the strings
	c.words = c.words[:0]
	clear(c.key)
	c.after = c.after[:0]
	c.last = 0
}
