package record

import (
	"encoding/binary"
	"slices"

	"github.com/klauspost/compress/s2"
)

// Rows of fewer than minCompressBytes are not compressed, nor are rows that S2
// does not make at least an eighth smaller. Measured on real lines: one row hardly
// shrinks (165 to 165 bytes), two do (315 to 233), a thousand shrink from 150 to
// 23 bytes each at 81 ns. Zstandard's fastest level reaches 13 bytes at 221 ns,
// but ingest is short of time before it is short of space.
const minCompressBytes = 256

// Batch holds rows of one project and one kind, encoded as they are added. Call
// Reset before the first use. A Batch that is reset and used again allocates
// nothing. One goroutine at a time may use it.
type Batch struct {
	kind      Kind
	project   string
	retention uint16
	count     int
	rows      []byte
	last      lastRow
}

// lastRow has the texts of the previous row, as places in Batch.rows.
type lastRow struct {
	time   int64
	number uint8
	texts  [4]span
	pairs  []pairSpan
}

type span struct{ from, to int }

type pairSpan struct{ key, value span }

// Places in lastRow.texts, first a log's, then an event's.
const (
	textApplication = 0
	textSeverity    = 1
	textHost        = 2
	textSource      = 3

	textChannel = 0
	textTitle   = 1
	textIcon    = 2
)

// Reset empties the batch for rows of one kind of a project, whose ID has at most
// MaxProjectBytes. The rows are kept for retentionDays.
func (b *Batch) Reset(kind Kind, project string, retentionDays uint16) {
	b.kind, b.project, b.retention = kind, project, retentionDays
	b.count = 0
	b.rows = b.rows[:0]
	b.last = lastRow{pairs: b.last.pairs[:0]}
}

// Len returns the number of rows.
func (b *Batch) Len() int { return b.count }

// Size returns the number of bytes of the rows before compression. Keep it well
// below MaxSectionBytes: a reader refuses more.
func (b *Batch) Size() int { return len(b.rows) }

// AppendLog adds a copy of the log. It panics on a batch of events.
func (b *Batch) AppendLog(l *Log) {
	b.mustBe(KindLog)
	flags, at := b.beginRow(l.Timestamp)
	flags |= b.appendChanged(rowApplication, textApplication, l.Application)
	flags |= b.appendSeverity(l.SeverityNumber, l.Severity)
	flags |= b.appendChanged(rowHost, textHost, l.Host)
	flags |= b.appendChanged(rowSource, textSource, l.Source)
	b.appendText(l.Data)
	flags |= b.appendPairs(l.Metadata)
	b.rows[at] = flags
	b.count++
}

// AppendEvent adds a copy of the event. It panics on a batch of logs.
func (b *Batch) AppendEvent(e *Event) {
	b.mustBe(KindEvent)
	flags, at := b.beginRow(e.Timestamp)
	flags |= b.appendChanged(rowChannel, textChannel, e.Channel)
	flags |= b.appendChanged(rowTitle, textTitle, e.Title)
	flags |= b.appendChanged(rowIcon, textIcon, e.Icon)
	if e.Notify {
		flags |= rowNotify
	}
	b.appendText(e.Description)
	flags |= b.appendPairs(e.Tags)
	b.rows[at] = flags
	b.count++
}

// mustBe panics on a row of another kind, because no reader could recognize it.
func (b *Batch) mustBe(kind Kind) {
	if b.kind != kind {
		panic("record: a row of kind " + kind.String() + " for a batch of kind " + b.kind.String())
	}
}

// beginRow reserves the flags, at the place that it returns, and writes the time.
func (b *Batch) beginRow(time int64) (flags byte, at int) {
	at = len(b.rows)
	delta := time - b.last.time
	b.last.time = time
	if millis := delta / 1e6; millis != 0 && millis*1e6 == delta {
		flags, delta = rowMillis, millis
	}
	b.rows = binary.AppendVarint(append(b.rows, 0), delta)
	return flags, at
}

func (b *Batch) appendChanged(flag byte, text int, s string) byte {
	if b.same(b.last.texts[text], s) {
		return 0
	}
	b.last.texts[text] = b.appendText(s)
	return flag
}

func (b *Batch) appendSeverity(number uint8, s string) byte {
	if number == b.last.number && b.same(b.last.texts[textSeverity], s) {
		return 0
	}
	b.rows = append(b.rows, number)
	b.last.number = number
	b.last.texts[textSeverity] = b.appendText(s)
	return rowSeverity
}

// appendPairs keeps the previous pairs where a row has none, so that a row without
// pairs between two others costs nothing.
func (b *Batch) appendPairs(pairs []Pair) byte {
	if len(pairs) == 0 {
		return 0
	}
	pairs = pairs[:min(len(pairs), MaxPairs)]
	flags := byte(rowPairs)
	if !b.sameKeys(pairs) {
		flags |= rowKeys
		b.appendKeys(pairs)
	}
	for i := range pairs {
		b.appendValue(&b.last.pairs[i].value, pairs[i].Value)
	}
	return flags
}

func (b *Batch) sameKeys(pairs []Pair) bool {
	if len(pairs) != len(b.last.pairs) {
		return false
	}
	for i := range pairs {
		if !b.same(b.last.pairs[i].key, pairs[i].Key) {
			return false
		}
	}
	return true
}

func (b *Batch) appendKeys(pairs []Pair) {
	b.last.pairs = b.last.pairs[:0]
	b.rows = binary.AppendUvarint(b.rows, uint64(len(pairs)))
	for i := range pairs {
		key := b.appendText(pairs[i].Key)
		b.last.pairs = append(b.last.pairs, pairSpan{key: key})
	}
}

// appendValue writes 0 where the key has its previous value, which is empty at
// first.
func (b *Batch) appendValue(last *span, s string) {
	if b.same(*last, s) {
		b.rows = append(b.rows, 0)
		return
	}
	b.rows = binary.AppendUvarint(b.rows, uint64(len(s))+1)
	from := len(b.rows)
	b.rows = append(b.rows, s...)
	*last = span{from, len(b.rows)}
}

func (b *Batch) appendText(s string) span {
	b.rows = binary.AppendUvarint(b.rows, uint64(len(s)))
	from := len(b.rows)
	b.rows = append(b.rows, s...)
	return span{from, len(b.rows)}
}

func (b *Batch) same(sp span, s string) bool {
	return string(b.rows[sp.from:sp.to]) == s
}

// AppendBatch appends the batch to dst as one section and returns dst. A batch
// without rows appends nothing. The batch does not change.
func AppendBatch(dst []byte, b *Batch) []byte {
	if b.count == 0 {
		return dst
	}
	start := len(dst)
	dst = append(dst, sectionVersion, byte(b.kind), codecNone)
	dst = append(dst, make([]byte, prefixBytes-sizeOffset)...)
	dst = binary.AppendUvarint(dst, uint64(len(b.project)))
	dst = append(dst, b.project...)
	dst = binary.LittleEndian.AppendUint16(dst, b.retention)
	dst = binary.AppendUvarint(dst, uint64(b.count))
	dst = binary.AppendUvarint(dst, uint64(len(b.rows)))
	dst, codec := appendRows(dst, b.rows)

	section := dst[start:]
	section[2] = codec
	binary.LittleEndian.PutUint32(section[sizeOffset:], uint32(len(section)-prefixBytes))
	binary.LittleEndian.PutUint32(section[checkOffset:], check(section))
	return dst
}

// appendRows compresses into the free capacity of dst.
func appendRows(dst, rows []byte) (out []byte, codec byte) {
	if len(rows) < minCompressBytes {
		return append(dst, rows...), codecNone
	}
	dst = slices.Grow(dst, s2.MaxEncodedLen(len(rows)))
	packed := s2.Encode(dst[len(dst):cap(dst)], rows)
	if len(packed) > len(rows)-len(rows)/8 {
		return append(dst, rows...), codecNone
	}
	return dst[:len(dst)+len(packed)], codecS2
}
