package record

import (
	"fmt"
	"hash/crc32"
)

// A message on the queue is a plain concatenation of sections. A section is:
//
//	version  1 byte    0xB1
//	kind     1 byte    1 logs, 2 events, 3 drops
//	codec    1 byte    0 rows as they are, 1 one S2 block
//	size     4 bytes   little endian, the length of the body
//	check    4 bytes   little endian, CRC-32C of the 7 bytes before and the body
//	body:
//	  project    uvarint length, bytes
//	  retention  2 bytes, little endian, days
//	  rows       uvarint, how many
//	  raw        uvarint, the length of the rows once decompressed
//	  rows, as the codec leaves them
//
// So sections can be joined, split and skipped without decoding them.
//
// A row omits what is the same as in the previous row; before the first row
// everything is empty and zero. A text is a uvarint length and its bytes.
//
//	flags       1 byte, see the row… constants
//	time        zigzag varint, nanoseconds (or milliseconds) since the previous row
//	log:        application, severity (number, text), host, source where they
//	            changed; data
//	event:      channel, title, icon where they changed; description
//	drop:       reason; records and bytes as uvarints; no pairs
//	pairs:      where the keys changed: their number, then each key;
//	            each value: 0 for the previous one of this key, else its
//	            length + 1 and its bytes
const (
	sectionVersion = 0xB1

	codecNone = 0
	codecS2   = 1

	prefixBytes = 3 + 4 + 4
	sizeOffset  = 3
	checkOffset = 7
)

// Flags of a row: first a log's, then those with another meaning in an event. The
// unnamed bit is zero.
const (
	rowApplication = 1 << 0
	rowSeverity    = 1 << 1
	rowHost        = 1 << 2
	rowSource      = 1 << 3
	rowPairs       = 1 << 4 // there are pairs
	rowKeys        = 1 << 5 // their keys follow; otherwise they are those of the last row with pairs
	rowMillis      = 1 << 6 // the time is in milliseconds
	rowFlags       = 1<<7 - 1

	rowChannel = 1 << 0
	rowTitle   = 1 << 1
	rowIcon    = 1 << 2
	rowNotify  = 1 << 3
)

// Bounds on the memory that a reader uses for one section, whatever the message
// contains. By default batches are cut at about 512 KiB and a record has at most
// 128 pairs.
const (
	// MaxSectionBytes bounds the rows of one section once decompressed.
	MaxSectionBytes = 64 << 20
	// MaxPairs bounds the pairs of one record; later ones are dropped.
	MaxPairs = 1 << 16
	// MaxProjectBytes bounds a project's id.
	MaxProjectBytes = 255

	minRowBytes = 3 // flags, time, an empty text
)

// CorruptError means that a message is not a sequence of valid sections.
type CorruptError struct {
	Offset int    // where the section begins in the message
	Reason string // what is wrong with it
}

// Error implements error.
func (e *CorruptError) Error() string {
	return fmt.Sprintf("corrupt section at byte %d of the message: %s", e.Offset, e.Reason)
}

// check is the CRC-32C of a section without the check itself.
func check(section []byte) uint32 {
	table := crc32.MakeTable(crc32.Castagnoli)
	return crc32.Update(crc32.Checksum(section[:checkOffset], table), table, section[prefixBytes:])
}
