package ship

import (
	"fmt"

	"github.com/logboom/logboom/cmd/collector/internal/entry"
	"github.com/logboom/logboom/cmd/collector/internal/join"
	"github.com/logboom/logboom/cmd/collector/internal/spool"
)

// eventOverhead is what an event has beside its line, roughly; it only serves
// to guess how many bytes in the spool are a full batch.
const eventOverhead = 64

// bench is what a batch is built on. It is kept from one batch to the next.
type bench struct {
	scanner spool.Scanner
	body    []byte
	packed  []byte
	packer  packer

	form   *form
	joiner join.Joiner
	cut    spool.Cut
	bad    int64 // frames that were passed over
}

// limits is when a batch is full. The zero value is never.
type limits struct{ lines, bytes int }

// build makes the body of the batch that the cursor names, or cuts a new one
// where it names none. carry is what it leaves over.
func (b *bench) build(s *spool.Stream, c spool.Cursor, f *form, over bool, l limits) (carry []byte, err error) {
	b.form, b.joiner, b.bad = f, join.Joiner{}, 0
	b.cut, b.body = spool.Cut{To: c.From, Told: c.Lost}, b.body[:0]
	if c.Cut != nil {
		b.cut.Told = c.Cut.Told
	}
	if b.cut.Told.Lines > 0 {
		b.body = f.append(b.body, lost(b.cut.Told))
	}
	if err := b.carried(c.Carry); err != nil {
		return nil, err
	}
	if c.Cut != nil {
		err = b.until(s, c.From, *c.Cut)
	} else {
		err = b.fill(s, c.From, over, l)
	}
	if err != nil {
		return nil, err
	}
	if b.cut.ID = fmt.Sprintf("%s-%x-%x-%x", s.ID, c.From, b.cut.To, b.cut.Told.Lines); c.Cut != nil {
		b.cut.ID = c.Cut.ID
	}
	return b.joiner.Carry(), nil
}

// carried gives the joiner the frames that earlier batches left over. They end
// no line, or they would not be there.
func (b *bench) carried(frames []byte) error {
	for len(frames) >= entry.HeaderSize {
		n, err := entry.Length(frames)
		if err != nil || len(frames) < entry.HeaderSize+n {
			return fmt.Errorf("cursor: what is carried over is broken: %w", spool.ErrBroken)
		}
		b.add(frames[:entry.HeaderSize+n])
		frames = frames[entry.HeaderSize+n:]
	}
	return nil
}

// until adds the frames of a batch that was cut before.
func (b *bench) until(s *spool.Stream, from int64, cut spool.Cut) error {
	b.scanner.Start(s, from)
	for b.scanner.At() < cut.To {
		frame, err := b.scanner.Next()
		if err != nil {
			return err
		}
		if frame == nil {
			return fmt.Errorf("batch %s: its end is missing: %w", cut.ID, spool.ErrBroken)
		}
		b.add(frame)
	}
	b.cut.To = cut.To
	if cut.Final {
		b.finish()
	}
	return nil
}

// fill adds frames until the batch is full or there are no more.
func (b *bench) fill(s *spool.Stream, from int64, over bool, l limits) error {
	b.scanner.Start(s, from)
	for int(b.cut.Lines) < l.lines && len(b.body) < l.bytes {
		frame, err := b.scanner.Next()
		if err != nil && b.scanner.At() > from {
			break // what is good goes first
		}
		if err != nil {
			return err
		}
		if frame == nil {
			if over {
				b.finish()
			}
			break
		}
		b.add(frame)
		b.cut.To = b.scanner.At()
	}
	return nil
}

// finish ends the lines that nothing will end any more.
func (b *bench) finish() {
	b.cut.Final = true
	b.joiner.End(b.line)
}

func (b *bench) add(frame []byte) {
	var e entry.Entry
	if e.Decode(frame[entry.HeaderSize:]) != nil {
		b.bad++
		return
	}
	b.joiner.Add(&e, frame, b.line)
}

func (b *bench) line(l join.Line) {
	if b.cut.Lines == 0 {
		b.cut.First, b.cut.Last = l.Time, l.Time
	}
	b.cut.Lines++
	b.cut.First, b.cut.Last = min(b.cut.First, l.Time), max(b.cut.Last, l.Time)
	b.body = b.form.append(b.body, l)
}
