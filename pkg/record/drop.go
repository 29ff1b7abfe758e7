package record

import "encoding/binary"

// Drop counts refused records, so that a loss is stored and shown too. Like records
// it travels through the queue, once, to the usage table.
type Drop struct {
	Time    int64  // Unix nanoseconds, UTC: any moment of the hour in which it happened
	Reason  string // of a closed set: a quota's name
	Records uint64
	Bytes   uint64 // of text, where it was known
}

// AppendDrop adds a copy of the count. It panics on a batch of another kind.
func (b *Batch) AppendDrop(d *Drop) {
	b.mustBe(KindDrop)
	flags, at := b.beginRow(d.Time)
	b.appendText(d.Reason)
	b.rows = binary.AppendUvarint(b.rows, d.Records)
	b.rows = binary.AppendUvarint(b.rows, d.Bytes)
	b.rows[at] = flags
	b.count++
}

// NextDrop reads the next count into d, as NextLog does with logs.
func (s *Section) NextDrop(d *Drop) (ok bool, err error) {
	if !s.next(KindDrop) {
		return false, s.err
	}
	c := &s.cursor
	s.drop.Time += c.delta(c.flags())
	s.drop.Reason, s.drop.Records, s.drop.Bytes = c.text(), c.uvarint(), c.uvarint()
	*d = s.drop
	return s.done()
}
