package decode

import (
	"strings"

	"github.com/logboom/logboom/pkg/record"
)

const (
	// pieceBytes is the length at which Docker cuts lines (moby,
	// daemon/logger/copier.go), even in the middle of a character.
	pieceBytes = 16 << 10
	// maxPrefix bounds what the raw format puts before each line: a tag and
	// attributes.
	maxPrefix = 4 << 10
	// cutMarks is how many bytes of a character can be on one side of a cut. Each of
	// them was replaced by a replacement character of its own.
	cutMarks = 3
)

// outputs is the number of outputs of a container. Docker reads them separately,
// so lines of one output can come between the pieces of the other's.
const outputs = 2

// output returns the index of the container's output that a source names.
func output(source string) int {
	if source == "stderr" {
		return 1
	}
	return 0
}

// pieces is a line that has arrived in pieces so far. The pieces have the same
// container, output and time, no other line of that output comes between them, and
// all but the last are full.
type pieces struct {
	log    record.Log // Data is in text
	text   []byte
	prefix int  // bytes at the start of each piece that do not belong to the line
	held   bool // there is a line, and its last piece was full: another may follow
}

// emitOrHold emits a log, or holds it for the piece that may follow. whole means
// that its data is a line as it was printed. Only such logs with a time of their
// own can be pieces.
func (d *Decoder) emitOrHold(l *record.Log, whole bool) {
	whole = whole && d.timed
	p := &d.pieces[output(l.Source)]
	if p.held && d.addPiece(p, l, whole) {
		return
	}
	if whole && len(l.Data) >= pieceBytes {
		if prefix, full := fullPiece(l.Data, d.fields[fieldContent].kind == '"'); full {
			p.begin(l, prefix)
			return
		}
	}
	d.emitContainer(l)
}

// addPiece appends a log to the line that is held. It returns false if the log does
// not belong to it; then the line was complete and has been emitted.
func (d *Decoder) addPiece(p *pieces, l *record.Log, whole bool) bool {
	if !whole || !p.continuesWith(l, d.limits.Record) {
		d.complete(p)
		return false
	}
	d.joined++
	if full := p.add(l.Data[p.prefix:]); !full {
		d.complete(p)
	}
	return true
}

// flush emits the lines that are held.
func (d *Decoder) flush() {
	for i := range d.pieces {
		if d.pieces[i].held {
			d.complete(&d.pieces[i])
		}
	}
}

// complete emits a line as far as its pieces have arrived.
func (d *Decoder) complete(p *pieces) {
	p.held = false
	p.log.Data = view(p.text)
	d.emitContainer(&p.log)
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

// continuesWith reports whether a log is the line's next piece, and fits.
func (p *pieces) continuesWith(l *record.Log, limit int) bool {
	return l.Timestamp == p.log.Timestamp && l.Application == p.log.Application && l.Host == p.log.Host && l.Source == p.log.Source &&
		len(l.Data) >= p.prefix && l.Data[:p.prefix] == view(p.text[:p.prefix]) && p.log.Size()+len(p.text)+len(l.Data) <= limit
}

// add appends a piece and reports whether another may follow.
func (p *pieces) add(data string) (full bool) {
	p.text = append(p.text, data...)
	_, full = fullPiece(data, false)
	return full
}

// fullPiece reports whether data may be a full piece of a line, behind the prefix
// of a raw event.
func fullPiece(data string, raw bool) (prefix int, full bool) {
	for cut := 0; cut <= replacements(data); cut++ {
		prefix = len(data) - 2*cut - pieceBytes
		if prefix == 0 || raw && 0 < prefix && prefix <= maxPrefix && data[prefix-1] == ' ' {
			return prefix, true
		}
	}
	return 0, false
}

// replacements counts the replacement characters at both ends of data, up to the
// number that one cut can leave.
func replacements(data string) int {
	n := 0
	for rest := data; n < cutMarks && strings.HasSuffix(rest, replacement); n++ {
		rest = rest[:len(rest)-len(replacement)]
	}
	for rest := data; n < 2*cutMarks && strings.HasPrefix(rest, replacement); n++ {
		rest = rest[len(replacement):]
	}
	return n
}
