package entry

import (
	"slices"
)

const (
	// MaxLine is the length, in bytes, at which a Joiner cuts a line that does
	// not end. It leaves room for the rest of a record within the 1 MiB that
	// Logboom accepts.
	MaxLine = 1<<20 - 64<<10
	// maxOpen is how many lines may be unfinished at once. Docker writes two
	// sources, stdout and stderr; the rest is reserve.
	maxOpen = 4
)

// Line is a whole line, or a part of one that was cut.
type Line struct {
	Source string
	Time   int64 // of its first piece, in nanoseconds since the epoch
	Text   []byte
	Part   *Part // nil if the line is whole
}

// Part describes a part of a line that was cut.
type Part struct {
	ID      string // the same for all parts of a line; empty if Docker sent none
	Ordinal int32  // of the first piece in the part, from 1
	Last    bool
}

// Joiner joins the pieces into which Docker cuts long lines, at 16 KiB. The
// zero value holds no line.
//
// What a newcomer would get wrong: the pieces of stdout and stderr come mixed,
// the last piece of a container without a final newline is not marked as the
// last, and a line may grow without end.
type Joiner struct {
	open []*openLine // in the order in which they began
}

// openLine is a line whose last piece has not come yet.
type openLine struct {
	first  Entry
	text   []byte
	frames []byte // the frames of its pieces
}

// Add adds the next entry and the frame that it was decoded from. It calls emit
// with each line that ends with the entry; emit must not keep the text.
func (j *Joiner) Add(e *Entry, frame []byte, emit func(Line)) {
	i := slices.IndexFunc(j.open, func(l *openLine) bool { return l.first.Source == e.Source })
	if i >= 0 && (!e.Partial || j.open[i].first.ID != e.ID) {
		emit(j.remove(i).line(false)) // its last piece will not come any more
		i = -1
	}
	switch {
	case i >= 0:
		j.extend(i, e, frame, emit)
	case e.EndsLine():
		l := openLine{first: *e, text: e.Line}
		emit(l.line(true))
	default:
		if len(j.open) == maxOpen {
			emit(j.remove(0).line(false))
		}
		j.open = append(j.open, newOpenLine(e, frame))
	}
}

func newOpenLine(e *Entry, frame []byte) *openLine {
	l := &openLine{first: *e, text: slices.Clone(e.Line), frames: slices.Clone(frame)}
	l.first.Line = nil
	return l
}

// extend adds a piece to an open line, and cuts the line if it becomes longer
// than MaxLine.
func (j *Joiner) extend(i int, e *Entry, frame []byte, emit func(Line)) {
	l := j.open[i]
	if len(l.text)+len(e.Line) > MaxLine {
		emit(l.line(false))
		j.open[i] = newOpenLine(e, frame)
	} else {
		l.text, l.frames = append(l.text, e.Line...), append(l.frames, frame...)
	}
	if e.Last {
		emit(j.remove(i).line(true))
	}
}

func (j *Joiner) remove(i int) *openLine {
	l := j.open[i]
	j.open = slices.Delete(j.open, i, i+1)
	return l
}

// line returns what has come of an open line. It is a part if its beginning was
// cut off earlier or if its end is missing.
func (l *openLine) line(ended bool) Line {
	line := Line{Source: l.first.Source, Time: l.first.Time, Text: l.text}
	if !ended || l.first.Ordinal > 1 {
		line.Part = &Part{ID: l.first.ID, Ordinal: max(1, l.first.Ordinal), Last: ended}
	}
	return line
}

// OpenFrames returns the frames of all open lines. A Joiner to which they are
// added holds the same lines.
func (j *Joiner) OpenFrames() []byte {
	var frames []byte
	for _, l := range j.open {
		frames = append(frames, l.frames...)
	}
	return frames
}

// Close emits the open lines as whole lines: no further piece will come.
func (j *Joiner) Close(emit func(Line)) {
	for _, l := range j.open {
		emit(l.line(true))
	}
	j.open = nil
}
