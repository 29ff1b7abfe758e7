package record

import (
	"encoding/binary"
	"strconv"
	"unsafe"
)

// Section is the rows of one project and kind from one request. Its Reader owns it.
type Section struct {
	Kind          Kind
	Project       string
	RetentionDays uint16
	Rows          int // number of rows

	offset int
	read   int
	cursor cursor
	log    Log   // the previous row; its Metadata survives rows without any
	event  Event // the same
	drop   Drop
	err    error
}

// reset keeps only the capacity for pairs.
func (s *Section) reset(kind Kind) {
	*s = Section{
		Kind:  kind,
		log:   Log{Metadata: s.log.Metadata[:0]},
		event: Event{Tags: s.event.Tags[:0]},
	}
}

// NextLog reads the next log into l and overwrites l.Metadata in place. The strings
// are valid until the reader's next NextSection or Reset. After the last row ok is
// false and the error nil. A damaged row returns a *CorruptError, and further calls
// return it again.
func (s *Section) NextLog(l *Log) (ok bool, err error) {
	if !s.next(KindLog) {
		return false, s.err
	}
	c, last := &s.cursor, &s.log
	flags := c.flags()
	last.Timestamp += c.delta(flags)
	if flags&rowApplication != 0 {
		last.Application = c.text()
	}
	if flags&rowSeverity != 0 {
		last.SeverityNumber, last.Severity = c.byte(), c.text()
	}
	if flags&rowHost != 0 {
		last.Host = c.text()
	}
	if flags&rowSource != 0 {
		last.Source = c.text()
	}
	last.Data = c.text()
	last.Metadata = c.pairs(flags, last.Metadata)
	pairs := l.Metadata[:0]
	*l = *last
	l.Metadata = present(pairs, flags, last.Metadata)
	return s.done()
}

// NextEvent reads the next event into e, as NextLog does with logs.
func (s *Section) NextEvent(e *Event) (ok bool, err error) {
	if !s.next(KindEvent) {
		return false, s.err
	}
	c, last := &s.cursor, &s.event
	flags := c.flags()
	last.Timestamp += c.delta(flags)
	if flags&rowChannel != 0 {
		last.Channel = c.text()
	}
	if flags&rowTitle != 0 {
		last.Title = c.text()
	}
	if flags&rowIcon != 0 {
		last.Icon = c.text()
	}
	last.Notify = flags&rowNotify != 0
	last.Description = c.text()
	last.Tags = c.pairs(flags, last.Tags)
	pairs := e.Tags[:0]
	*e = *last
	e.Tags = present(pairs, flags, last.Tags)
	return s.done()
}

// present copies the row's pairs, because the next row may refer to them.
func present(dst []Pair, flags byte, pairs []Pair) []Pair {
	if flags&rowPairs == 0 {
		return dst
	}
	return append(dst, pairs...)
}

// next returns whether there is another row of the kind, and checks the end.
func (s *Section) next(kind Kind) bool {
	switch {
	case s.err != nil:
	case s.Kind != kind:
		s.err = &CorruptError{s.offset, "it has rows of kind " + s.Kind.String() + ", not " + kind.String()}
	case s.read < s.Rows:
		return true
	case s.cursor.pos != len(s.cursor.buf):
		s.err = &CorruptError{s.offset, "bytes are left over after the last row"}
	}
	return false
}

// done ends a row and reports the cursor's error.
func (s *Section) done() (ok bool, err error) {
	if s.cursor.reason != "" {
		s.err = &CorruptError{s.offset, "row " + strconv.Itoa(s.read) + ": " + s.cursor.reason}
		return false, s.err
	}
	s.read++
	return true, nil
}

// cursor decodes values from a buffer. reason keeps the first error; every value
// after it is zero.
type cursor struct {
	buf    []byte
	pos    int
	reason string
}

func (c *cursor) fail(reason string) {
	if c.reason == "" {
		c.reason = reason
	}
	c.pos = len(c.buf)
}

func (c *cursor) byte() byte {
	if c.pos >= len(c.buf) {
		c.fail("cut")
		return 0
	}
	c.pos++
	return c.buf[c.pos-1]
}

func (c *cursor) uint16() uint16 {
	if len(c.buf)-c.pos < 2 {
		c.fail("cut")
		return 0
	}
	c.pos += 2
	return binary.LittleEndian.Uint16(c.buf[c.pos-2:])
}

func (c *cursor) uvarint() uint64 {
	if c.pos < len(c.buf) && c.buf[c.pos] < 0x80 {
		c.pos++
		return uint64(c.buf[c.pos-1])
	}
	v, n := binary.Uvarint(c.buf[c.pos:])
	if n <= 0 {
		c.fail("a number is cut or too large")
		return 0
	}
	c.pos += n
	return v
}

func (c *cursor) flags() byte {
	flags := c.byte()
	if flags&^rowFlags != 0 || flags&(rowKeys|rowPairs) == rowKeys {
		c.fail("unknown flags")
		return 0
	}
	return flags
}

func (c *cursor) delta(flags byte) int64 {
	v := c.uvarint()
	delta := int64(v>>1) ^ -int64(v&1)
	if flags&rowMillis != 0 {
		delta *= 1e6
	}
	return delta
}

func (c *cursor) text() string { return c.bytes(c.uvarint()) }

// bytes borrows the next n bytes as a string.
func (c *cursor) bytes(n uint64) string {
	if n > uint64(len(c.buf)-c.pos) {
		c.fail("a text runs past the end")
		return ""
	}
	if n == 0 {
		return ""
	}
	from := c.pos
	c.pos += int(n)
	return unsafe.String(&c.buf[from], int(n))
}

// pairs decodes a row's pairs in place of those of the last row that had any.
func (c *cursor) pairs(flags byte, last []Pair) []Pair {
	if flags&rowKeys != 0 {
		last = c.keys(last[:0])
	}
	if flags&rowPairs == 0 {
		return last
	}
	for i := range last {
		if n := c.uvarint(); n > 0 {
			last[i].Value = c.bytes(n - 1)
		}
	}
	return last
}

func (c *cursor) keys(dst []Pair) []Pair {
	n := c.uvarint()
	// Each key has at least one byte, so a small row cannot claim many.
	if n > MaxPairs || n > uint64(len(c.buf)-c.pos) {
		c.fail("too many keys")
		return dst
	}
	for range n {
		dst = append(dst, Pair{Key: c.text()})
	}
	return dst
}
