package decode

import "bytes"

const (
	// After an error the decoder may look again at bytes that it has seen, to
	// find where the next entry begins: at most these plus rescanFactor times
	// the body, lest a body made for it costs its square.
	rescanFree   = 1 << 20
	rescanFactor = 2

	// openBrackets is how many brackets a broken entry may have open while its
	// end is searched.
	openBrackets = 64 << 10
)

// mayRescan says whether to look at n bytes again, and counts them.
func (d *Decoder) mayRescan(n int) bool {
	d.rescans += max(n, 0)
	return d.rescans <= rescanFree+rescanFactor*len(d.scan.body)
}

// mendLines rejects the entry at start, which is broken, and goes on behind the
// bracket that closes it when that is on its line, otherwise at the next line,
// or where two objects are glued together if such a protocol's entry may end
// there. That is so even if the error was later: an entry that was cut swallows
// those after it, which are entries of their own.
func (d *Decoder) mendLines(start int) {
	s := &d.scan
	d.reject(CodeInvalidJSON, s.failAt, s.failure)
	end := d.entryLimit(start)
	if s.body[start] == '{' {
		if closed, ok := entryEnd(s.body[:end], start, false); ok {
			s.pos = closed
			return
		}
	}
	if !d.mayRescan(s.failAt - end) {
		end = d.endOfLine(max(s.failAt, end))
	}
	s.pos = end
}

// entryLimit is where the broken entry at start ends at the latest.
func (d *Decoder) entryLimit(start int) int {
	end := d.endOfLine(start)
	if !d.protocol.glued {
		return end
	}
	if d.seam <= start {
		d.seam = gluedAt(d.scan.body, start)
	}
	return min(end, d.seam)
}

// endOfLine is where the line ends that from is in. The last answer is kept, or
// many broken entries on one long line would each search all of it.
func (d *Decoder) endOfLine(from int) int {
	if d.lineEnd < from {
		d.lineEnd = lineEnd(d.scan.body, from)
	}
	return d.lineEnd
}

func lineEnd(body []byte, from int) int {
	if n := bytes.IndexByte(body[from:], '\n'); n >= 0 {
		return from + n
	}
	return len(body)
}

// gluedAt is where, after start, an object begins right behind another, or the
// body's end.
func gluedAt(body []byte, start int) int {
	for i := start; ; i++ {
		n := bytes.IndexByte(body[i:], '}')
		if n < 0 {
			return len(body)
		}
		i += n
		if brace, ok := after(body, i+1, '{'); ok {
			if _, ok := after(body, brace+1, '"'); ok {
				return brace
			}
		}
	}
}

// mendArray rejects the entry at start, which is broken, and goes on behind the
// comma or bracket that ends it. It is false where the array ends, or where
// nothing after the entry can be told apart.
func (d *Decoder) mendArray(start int) (more bool) {
	s := &d.scan
	end := d.nextElement(start)
	if end < 0 {
		d.reject(CodeInvalidJSON, s.failAt, s.failure+"; the rest of the array cannot be read")
		s.pos = len(s.body)
		return false
	}
	d.reject(CodeInvalidJSON, s.failAt, s.failure)
	s.pos = end + 1
	return s.body[end] == ','
}

// nextElement is the place of the comma or bracket that ends the entry, as far
// as brackets and quotes tell. If they do not add up, the next comma between
// what looks like two objects must do, be it inside the last string that was
// read: a missing quote turns text and all else around. It is -1 for none.
func (d *Decoder) nextElement(start int) int {
	body := d.scan.body
	end, ok := entryEnd(body, start, true)
	if ok {
		return end
	}
	if !d.mayRescan(max(end, d.scan.failAt) - start) {
		return -1
	}
	return commaBetween(body, max(start, d.scan.lastStr))
}

// entryEnd returns where the entry at i ends: behind the bracket that closes
// its first one, or, in an array, at the comma or bracket that follows. It
// gives up where brackets do not match, a string goes over its line or, in an
// array, looks like what parts two objects, or the body ends; it returns that
// place.
func entryEnd(body []byte, i int, array bool) (end int, ok bool) {
	open := make([]byte, 0, 64)
	for ; i < len(body); i++ {
		c := body[i]
		switch {
		case c == '"':
			from := i
			if i, ok = closingQuote(body, i); !ok || array && partsObjects(body[from:i]) {
				return i, false
			}
		case c == '{' || c == '[':
			if open = append(open, c+2); len(open) > openBrackets { // c+2 is in ASCII what closes c
				return i, false
			}
		case len(open) == 0:
			if c == ',' || c == ']' {
				return i, true
			}
		case c == '}' || c == ']':
			if open[len(open)-1] != c {
				return i, false
			}
			if open = open[:len(open)-1]; len(open) == 0 && !array {
				return i + 1, true
			}
		}
	}
	return i, false
}

// closingQuote is the place of the quote that closes the one at i, or where
// the line ends without one.
func closingQuote(body []byte, i int) (at int, ok bool) {
	for i++; i < len(body); i++ {
		switch body[i] {
		case '"':
			return i, true
		case '\\':
			i++
		case '\n':
			return i, false
		}
	}
	return len(body), false
}

// partsObjects says whether text ends in a closing brace, a comma and an
// opening brace: with the quote after it, it is not text but the gap between
// two objects.
func partsObjects(text []byte) bool {
	for _, c := range []byte("{,}") {
		text = bytes.TrimRight(text, " \t\r")
		if len(text) == 0 || text[len(text)-1] != c {
			return false
		}
		text = text[:len(text)-1]
	}
	return true
}

// commaBetween is the place of the first comma from i on that has a closing
// brace before it and an opening one with a quote after it; -1 for none.
func commaBetween(body []byte, i int) int {
	for {
		n := bytes.IndexByte(body[i:], '}')
		if n < 0 {
			return -1
		}
		i += n + 1
		comma, ok := after(body, i, ',')
		if !ok {
			continue
		}
		if brace, ok := after(body, comma+1, '{'); ok {
			if _, ok := after(body, brace+1, '"'); ok {
				return comma
			}
		}
	}
}

// after is the place of the first byte from i on that is no white space, and
// whether it is c.
func after(body []byte, i int, c byte) (at int, ok bool) {
	s := scanner{body: body, pos: i}
	ok = s.peek() == c
	return s.pos, ok
}
