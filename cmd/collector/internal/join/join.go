// Package join makes whole lines of the pieces that Docker cuts long ones
// into.
//
// Docker cuts at 16 KiB and says of each piece which line it is of. What a
// newcomer would get wrong: the pieces of stdout and stderr come mixed, the
// last piece of a container without a final newline never says that it is the
// last, and a line may grow without end.
package join

import (
	"slices"

	"github.com/logboom/logboom/cmd/collector/internal/entry"
)

const (
	// MaxLine is where a line is cut that has no end, in bytes. It leaves room
	// for the rest of a record within the 1 MiB that Logboom takes.
	MaxLine = 1<<20 - 64<<10
	// maxOpen is how many lines may be unfinished at once: there are stdout
	// and stderr, and nothing else in sight.
	maxOpen = 4
)

// Line is a whole line, or a part of one that was cut.
type Line struct {
	Source string
	Time   int64 // of its first piece, in nanoseconds
	Text   []byte
	Part   *Part // nil: the line is whole
}

// Part says what a cut line is a part of.
type Part struct {
	ID      string // the same for all parts of a line; empty where Docker gave none
	Ordinal int32  // of the first piece in it, from 1
	Last    bool
}

// Joiner holds lines that are not whole yet. The zero value holds none.
type Joiner struct {
	open []*line // in the order of their beginnings
}

type line struct {
	first  entry.Entry
	text   []byte
	frames []byte // what it was made of
}

// Add takes the next entry and the frame that it was decoded from, and gives
// each line that ends with it to emit, which must not keep the text.
func (j *Joiner) Add(e *entry.Entry, frame []byte, emit func(Line)) {
	i := slices.IndexFunc(j.open, func(l *line) bool { return l.first.Source == e.Source })
	if i >= 0 && (!e.Partial || j.open[i].first.ID != e.ID) {
		emit(j.take(i).line(false)) // its end will not come any more
		i = -1
	}
	switch {
	case i >= 0:
		j.extend(i, e, frame, emit)
	case e.Ends():
		l := line{first: *e, text: e.Line}
		emit(l.line(true))
	default:
		if len(j.open) == maxOpen {
			emit(j.take(0).line(false))
		}
		j.open = append(j.open, begin(e, frame))
	}
}

func begin(e *entry.Entry, frame []byte) *line {
	l := &line{first: *e, text: slices.Clone(e.Line), frames: slices.Clone(frame)}
	l.first.Line = nil
	return l
}

// extend adds a piece to an open line, which is cut where it grows too long.
func (j *Joiner) extend(i int, e *entry.Entry, frame []byte, emit func(Line)) {
	l := j.open[i]
	if len(l.text)+len(e.Line) > MaxLine {
		emit(l.line(false))
		l = begin(e, frame)
		j.open[i] = l
	} else {
		l.text, l.frames = append(l.text, e.Line...), append(l.frames, frame...)
	}
	if e.Last {
		emit(j.take(i).line(true))
	}
}

func (j *Joiner) take(i int) *line {
	l := j.open[i]
	j.open = slices.Delete(j.open, i, i+1)
	return l
}

// line is what an open line has come to. It is a part where its beginning was
// cut off earlier or its end is missing.
func (l *line) line(ended bool) Line {
	made := Line{Source: l.first.Source, Time: l.first.Time, Text: l.text}
	if !ended || l.first.Ordinal > 1 {
		made.Part = &Part{ID: l.first.ID, Ordinal: max(1, l.first.Ordinal), Last: ended}
	}
	return made
}

// Carry is the frames of all open lines: a Joiner that is given them holds the
// same lines.
func (j *Joiner) Carry() []byte {
	var all []byte
	for _, l := range j.open {
		all = append(all, l.frames...)
	}
	return all
}

// End emits what is open: nothing more will come, so these lines end here.
func (j *Joiner) End(emit func(Line)) {
	for _, l := range j.open {
		emit(l.line(true))
	}
	j.open = nil
}
