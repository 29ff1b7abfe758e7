package decode

import (
	"encoding/base64"
	"math"
	"strconv"
)

const (
	// maxNodes is how many values one attribute or body may hold.
	maxNodes = 64 << 10
	// keptNodes is how many nodes are kept for the next body.
	keptNodes = 4 << 10
)

// node is one value of OpenTelemetry's AnyValue. The values inside it are the nodes
// behind it, up to end.
type node struct {
	kind byte   // '"' text, '0' a number, true or false, '[', '{'; 0 an empty value
	key  string // of an attribute or a value in a map
	text string // of '"', and JSON text of '0'
	end  int
}

// addNode adds an empty value and returns its index. Beyond maxNodes the record is
// invalid and its values no longer matter: they all get the last index.
func (d *Decoder) addNode() int {
	o := d.otlp
	if len(o.nodes) == maxNodes {
		d.invalidate(CodeBodyTooLarge, "an attribute or the body", " holds too many values")
		return maxNodes - 1
	}
	o.nodes = append(o.nodes, node{end: len(o.nodes) + 1})
	return len(o.nodes) - 1
}

// invalidate records why the current record is invalid. Only the first reason
// counts and is formatted: a record may have a million more.
func (d *Decoder) invalidate(code, what, fault string) {
	if d.otlp.bad.code == "" {
		d.otlp.bad = problem{code, d.start, what + fault}
	}
}

// setNode makes the value at i a text, a number or an empty value. The value must be
// the last one, or contain it.
func (d *Decoder) setNode(i int, kind byte, text string) {
	o := d.otlp
	o.nodes = o.nodes[:i+1]
	n := &o.nodes[i]
	n.kind, n.text, n.end = kind, text, i+1
}

// openNode makes the value at i an array or a map. If it is one already, it keeps
// its values: protobuf joins a field that is given twice.
func (d *Decoder) openNode(i int, kind byte) {
	if d.otlp.nodes[i].kind != kind {
		d.setNode(i, kind, "")
	}
}

// closeNode ends the array or map at i behind the last value.
func (d *Decoder) closeNode(i int) {
	d.otlp.nodes[i].end = len(d.otlp.nodes)
}

// tooDeep reports whether a value is nested too deeply, and then makes the record
// invalid.
func (d *Decoder) tooDeep(level int) bool {
	if level <= d.limits.Depth {
		return false
	}
	d.invalidate(CodeInvalidField, "an attribute or the body", " is nested too deeply")
	return true
}

// addAttribute makes the first node a pair, or several pairs if it is a map. It does
// nothing for an invalid record.
func (d *Decoder) addAttribute() {
	o := d.otlp
	if o.bad.code != "" {
		return
	}
	n := &o.nodes[0]
	if n.kind == '"' || n.kind == '0' {
		switch n.key {
		case keyServiceName:
			o.app = n.text
			return
		case keyHostName:
			o.host = n.text
			return
		}
	}
	if n.kind != '{' && len(n.key) <= d.path.limit {
		i, _ := d.pairs.slot(n.key)
		d.fillPair(i, 0)
		return
	}
	d.flatten(0)
}

// flatten makes node i a pair, whose key is the path to the node, or makes each
// value of a map such a pair.
func (d *Decoder) flatten(i int) {
	n := &d.otlp.nodes[i]
	before := d.path
	d.path.push(n.key)
	if n.kind == '{' && n.end > i+1 {
		for child := i + 1; child < n.end; child = d.otlp.nodes[child].end {
			d.flatten(child)
		}
	} else {
		d.fillPair(d.pathSlot(), i)
	}
	d.path.back(before)
}

// fillPair sets the value of a pair to node i. A negative place means that there is
// no room for the pair.
func (d *Decoder) fillPair(place, i int) {
	if place >= 0 {
		d.pairs.list[place].Value = d.scan.cut(d.nodeText(i), d.limits.Value)
	}
}

// nodeText returns a value as text: its own, or the JSON text of an array or a map.
func (d *Decoder) nodeText(i int) string {
	n := &d.otlp.nodes[i]
	if n.kind != '[' && n.kind != '{' || d.otlp.bad.code != "" {
		return n.text
	}
	from := len(d.scan.text)
	d.appendNode(i)
	return view(d.scan.text[from:])
}

// appendNode appends the value at i to the text as JSON. It stops when the text is
// too long for a record.
func (d *Decoder) appendNode(i int) {
	s, n := &d.scan, &d.otlp.nodes[i]
	switch n.kind {
	case 0:
		s.text = append(s.text, "null"...)
	case '"':
		s.appendQuoted(n.text)
	case '0':
		s.text = append(s.text, n.text...)
	default:
		d.appendNested(i, n.kind == '{')
	}
}

func (d *Decoder) appendNested(i int, keyed bool) {
	s, n := &d.scan, &d.otlp.nodes[i]
	s.text = append(s.text, n.kind)
	for child := i + 1; child < n.end && s.room(1); child = d.otlp.nodes[child].end {
		if child > i+1 {
			s.text = append(s.text, ',')
		}
		if keyed {
			s.appendQuoted(d.otlp.nodes[child].key)
			s.text = append(s.text, ':')
		}
		d.appendNode(child)
	}
	s.text = append(s.text, n.kind+2) // the closing bracket, in ASCII
}

// appendQuoted appends text as a JSON string.
func (s *scanner) appendQuoted(text string) {
	if !s.room(len(text) + 2) {
		return
	}
	s.text = append(s.text, '"')
	from := 0
	for i := range len(text) {
		c := text[i]
		if c >= ' ' && c != '"' && c != '\\' {
			continue
		}
		s.text = append(s.text, text[from:i]...)
		s.appendEscaped(c)
		from = i + 1
	}
	s.text = append(append(s.text, text[from:]...), '"')
}

// appendEscaped appends a quote, a backslash or a control character as in a JSON
// string.
func (s *scanner) appendEscaped(c byte) {
	switch c {
	case '"', '\\':
		s.text = append(s.text, '\\', c)
	case '\n':
		s.text = append(s.text, `\n`...)
	case '\r':
		s.text = append(s.text, `\r`...)
	case '\t':
		s.text = append(s.text, `\t`...)
	default:
		s.text = append(s.text, `\u00`...)
		s.keepHex([]byte{c})
	}
}

// numberBytes is the length of the longest number.
const numberBytes = 32

// setInt makes the value at i a whole number.
func (d *Decoder) setInt(i int, n int64) {
	if d.scan.room(numberBytes) {
		d.setNode(i, '0', d.scan.keepNumber(int(n)))
	}
}

// setDouble makes the value at i a number as JSON writes it, or a word if JSON has
// no such number.
func (d *Decoder) setDouble(i int, f float64) {
	switch {
	case !d.scan.room(numberBytes): // the record is invalid
	case math.IsNaN(f):
		d.setNode(i, '"', "NaN")
	case math.IsInf(f, 1):
		d.setNode(i, '"', "Infinity")
	case math.IsInf(f, -1):
		d.setNode(i, '"', "-Infinity")
	default:
		format := byte('f')
		if size := math.Abs(f); size != 0 && (size < 1e-6 || size >= 1e21) { // as in ECMA-262, where JSON's numbers come from
			format = 'e'
		}
		var room [numberBytes]byte
		digits := strconv.AppendFloat(room[:0], f, format, -1, 64)
		if n := len(digits); n >= 4 && digits[n-4] == 'e' && digits[n-2] == '0' { // ECMA-262 writes e-7, not e-07
			digits = append(digits[:n-2], digits[n-1])
		}
		d.setNode(i, '0', d.scan.keep(digits))
	}
}

// setBytes makes the value at i the base64 of raw.
func (d *Decoder) setBytes(i int, raw []byte) {
	s := &d.scan
	text := ""
	if s.room(base64.StdEncoding.EncodedLen(len(raw))) {
		from := len(s.text)
		s.text = base64.StdEncoding.AppendEncode(s.text, raw)
		text = view(s.text[from:])
	}
	d.setNode(i, '"', text)
}
