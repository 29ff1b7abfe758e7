package delivery

import (
	"fmt"

	"github.com/logboom/logboom/cmd/collector/internal/entry"
	"github.com/logboom/logboom/cmd/collector/internal/spool"
)

// builder builds the body of a batch. It keeps its buffers from one batch to
// the next.
type builder struct {
	scanner    spool.Scanner
	body       []byte
	compressed []byte
	compress   func(dst, body []byte) ([]byte, error) // nil: no compression

	encoder   *eventEncoder
	joiner    entry.Joiner
	batch     spool.Batch
	badFrames int64 // frames without a valid entry, which were skipped
}

// limits says when a batch is full.
type limits struct{ lines, bytes int }

// build builds the body of the cursor's batch, or of a new batch if the cursor
// has none. It returns the frames of the lines that do not end in the batch.
func (b *builder) build(s *spool.Stream, c spool.Cursor, encoder *eventEncoder, ended bool, l limits) (openFrames []byte, err error) {
	b.encoder, b.joiner, b.badFrames = encoder, entry.Joiner{}, 0
	b.batch, b.body = spool.Batch{To: c.From, Reported: c.Lost}, b.body[:0]
	if c.Batch != nil {
		b.batch.Reported = c.Batch.Reported
	}
	if b.batch.Reported.Lines > 0 {
		b.body = encoder.append(b.body, lossLine(b.batch.Reported))
	}
	if err := b.addOpenFrames(c.OpenFrames); err != nil {
		return nil, err
	}
	if c.Batch != nil {
		err = b.rebuild(s, c.From, *c.Batch)
	} else {
		err = b.fill(s, c.From, ended, l)
	}
	if err != nil {
		return nil, err
	}
	if b.batch.ID = fmt.Sprintf("%s-%x-%x-%x", s.ID, c.From, b.batch.To, b.batch.Reported.Lines); c.Batch != nil {
		b.batch.ID = c.Batch.ID
	}
	return b.joiner.OpenFrames(), nil
}

// addOpenFrames adds the frames that earlier batches left over. No line ends in
// them.
func (b *builder) addOpenFrames(frames []byte) error {
	for len(frames) >= entry.HeaderSize {
		n, err := entry.Length(frames)
		if err != nil || len(frames) < entry.HeaderSize+n {
			return fmt.Errorf("open frames of the cursor: %w", spool.ErrBadFrame)
		}
		b.addFrame(frames[:entry.HeaderSize+n])
		frames = frames[entry.HeaderSize+n:]
	}
	return nil
}

// rebuild adds the frames of a batch that was built before.
func (b *builder) rebuild(s *spool.Stream, from int64, batch spool.Batch) error {
	b.scanner.Start(s, from)
	for b.scanner.Position() < batch.To {
		frame, err := b.scanner.Next()
		if err != nil {
			return err
		}
		if frame == nil {
			return fmt.Errorf("batch %s: its end is missing: %w", batch.ID, spool.ErrBadFrame)
		}
		b.addFrame(frame)
	}
	b.batch.To = batch.To
	if batch.Final {
		b.finish()
	}
	return nil
}

// fill adds frames until the batch is full or there are no more frames.
func (b *builder) fill(s *spool.Stream, from int64, ended bool, l limits) error {
	b.scanner.Start(s, from)
	for int(b.batch.Lines) < l.lines && len(b.body) < l.bytes {
		frame, err := b.scanner.Next()
		if err != nil && b.scanner.Position() > from {
			break // the next batch reports the error; the valid frames are sent first
		}
		if err != nil {
			return err
		}
		if frame == nil {
			if ended {
				b.finish()
			}
			break
		}
		b.addFrame(frame)
		b.batch.To = b.scanner.Position()
	}
	return nil
}

// finish ends the open lines: no further frame will end them.
func (b *builder) finish() {
	b.batch.Final = true
	b.joiner.Close(b.addLine)
}

func (b *builder) addFrame(frame []byte) {
	var e entry.Entry
	if e.Decode(frame[entry.HeaderSize:]) != nil {
		b.badFrames++
		return
	}
	b.joiner.Add(&e, frame, b.addLine)
}

func (b *builder) addLine(l entry.Line) {
	if b.batch.Lines == 0 {
		b.batch.First, b.batch.Last = l.Time, l.Time
	}
	b.batch.Lines++
	b.batch.First, b.batch.Last = min(b.batch.First, l.Time), max(b.batch.Last, l.Time)
	b.body = b.encoder.append(b.body, l)
}
