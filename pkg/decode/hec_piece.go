package decode

import (
	"strings"

	"github.com/logboom/logboom/pkg/record"
)

const (
	// pieceBytes is where Docker cuts lines (moby, daemon/logger/copier.go), in
	// the middle of a character if need be.
	pieceBytes = 16 << 10
	// maxPrefix bounds what the raw format puts before each line: a tag and
	// attributes.
	maxPrefix = 4 << 10
	// cutMarks is how many bytes of a character can be on one side of a cut.
	// Each of them has become a replacement of its own.
	cutMarks = 3
)

// outputs is how many outputs a container has. Docker reads the two apart, so
// lines of the one come between the pieces of the other's.
const outputs = 2

// output is which of a container's outputs a source is.
func output(source string) int {
	if source == "stderr" {
		return 1
	}
	return 0
}

// pieces is a line that came in pieces, up to now. Pieces are of the same
// container, output and time, with no other line of that output between them,
// and all but the last are full.
type pieces struct {
	log    record.Log // Data is in text
	text   []byte
	prefix int  // bytes at each piece's start that are not the line's
	held   bool // there is one, and its last piece was full: another may follow
}

// passOn emits a log, or keeps it for the piece that may follow. whole says
// that its data is what was printed: no other log is a piece, nor is one without
// a time of its own.
func (d *Decoder) passOn(l *record.Log, whole bool) {
	whole = whole && d.timed
	p := &d.pieces[output(l.Source)]
	if p.held && d.addPiece(p, l, whole) {
		return
	}
	if whole && len(l.Data) >= pieceBytes {
		if prefix, full := firstPiece(l.Data, d.fields[fieldContent].kind == '"'); full {
			p.begin(l, prefix)
			return
		}
	}
	d.send(l)
}

// addPiece adds a log to the line of which there were pieces. It is false where
// the log is not of it; the line was at its end then.
func (d *Decoder) addPiece(p *pieces, l *record.Log, whole bool) bool {
	if !whole || !p.goesOn(l, d.limits.Record) {
		d.complete(p)
		return false
	}
	d.joined++
	if full := p.add(l.Data[p.prefix:]); !full {
		d.complete(p)
	}
	return true
}

// flush emits the lines of which there were pieces.
func (d *Decoder) flush() {
	for i := range d.pieces {
		if d.pieces[i].held {
			d.complete(&d.pieces[i])
		}
	}
}

// complete emits a line as far as its pieces came.
func (d *Decoder) complete(p *pieces) {
	p.held = false
	p.log.Data = view(p.text)
	d.send(&p.log)
	p.log = record.Log{}
	if cap(p.text) > keptText {
		p.text = nil
	}
}

func (p *pieces) begin(l *record.Log, prefix int) {
	p.text = append(p.text[:0], l.Data...)
	p.log = *l
	p.log.Application, p.log.Host, p.log.Source = strings.Clone(l.Application), strings.Clone(l.Host), strings.Clone(l.Source)
	p.log.Severity = strings.Clone(l.Severity)
	p.log.Metadata = nil
	for _, pair := range l.Metadata {
		p.log.Metadata = append(p.log.Metadata, record.Pair{Key: strings.Clone(pair.Key), Value: strings.Clone(pair.Value)})
	}
	p.log.Data = ""
	p.prefix, p.held = prefix, true
}

// goesOn tells whether a log is the line's next piece, and fits.
func (p *pieces) goesOn(l *record.Log, limit int) bool {
	return l.Timestamp == p.log.Timestamp && l.Application == p.log.Application && l.Host == p.log.Host && l.Source == p.log.Source &&
		len(l.Data) >= p.prefix && l.Data[:p.prefix] == view(p.text[:p.prefix]) && p.log.Size()+len(p.text)+len(l.Data) <= limit
}

// add is true where another piece may follow.
func (p *pieces) add(data string) (full bool) {
	p.text = append(p.text, data...)
	_, full = firstPiece(data, false)
	return full
}

// firstPiece tells whether data may be the first piece of a longer line, after
// what a raw event has before it.
func firstPiece(data string, raw bool) (prefix int, full bool) {
	for cut := 0; cut <= marks(data); cut++ {
		prefix = len(data) - 2*cut - pieceBytes
		if prefix == 0 || raw && 0 < prefix && prefix <= maxPrefix && data[prefix-1] == ' ' {
			return prefix, true
		}
	}
	return 0, false
}

// marks counts the replacements at both ends, as many as one cut can leave.
func marks(data string) int {
	n := 0
	for rest := data; n < cutMarks && strings.HasSuffix(rest, replacement); n++ {
		rest = rest[:len(rest)-len(replacement)]
	}
	for rest := data; n < 2*cutMarks && strings.HasPrefix(rest, replacement); n++ {
		rest = rest[len(replacement):]
	}
	return n
}
