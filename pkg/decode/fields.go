package decode

import (
	"fmt"

	"github.com/logboom/logboom/pkg/record"
)

// name returns the text of a short field, or "" if the field is absent.
func (d *Decoder) name(i int) string {
	if d.fields[i].absent() {
		return ""
	}
	return d.scan.cut(d.fields[i].text, d.limits.Value)
}

func (d *Decoder) severity(f *field) (number uint8, word string) {
	if f.absent() {
		return defaultSeverityNumber, defaultSeverity
	}
	word = severityWord(f.text)
	if word == "" {
		return defaultSeverityNumber, defaultSeverity
	}
	number = record.SeverityNumber(word)
	if number == 0 && isDigit(word[0]) {
		number = schemeNumber(word, d.pairs.value("severity_scheme"))
	}
	return number, d.scan.cut(word, d.limits.Value)
}

// timestamp returns the client's time if it is usable. If not, it keeps the
// client's text as a pair.
func (d *Decoder) timestamp(f *field) int64 {
	d.timed = false
	if f.absent() || f.text == "" {
		return d.now
	}
	nanos, ok := int64(0), false
	if !f.nested() {
		nanos, ok = ParseTimestamp(f.text)
	}
	d.timed = ok
	used := min(max(nanos, d.oldest), d.latest)
	if !ok {
		used = d.now
	}
	if !ok || used != nanos {
		d.pairs.set(keyOriginalTime, d.scan.cut(f.text, d.limits.Value))
	}
	return used
}

// addMarks adds pairs that say what was changed in the record.
func (d *Decoder) addMarks() {
	if d.pairs.dropped > 0 {
		d.pairs.set(keyTruncatedKeys, d.scan.keepNumber(d.pairs.dropped))
	}
	if d.scan.replaced > 0 {
		d.pairs.set(keyInvalidUTF8, d.scan.keepNumber(d.scan.replaced))
	}
}

func (d *Decoder) tooLarge(size int) problem {
	return problem{CodeBodyTooLarge, d.start, fmt.Sprintf("the record has %d bytes of text, of at most %d", size, d.limits.Record)}
}

// Keys that Logboom adds to metadata and tags. They do not count against the limit
// on keys, and replace a client's keys of the same name.
const (
	keyOriginalTime  = "timestamp_original" // the client's timestamp, if it was not usable as it is
	keyTruncatedKeys = "_truncated_keys"    // how many keys were dropped
	keyInvalidUTF8   = "_invalid_utf8"      // how many bytes were replaced by U+FFFD
)

// indexedPairs is the number of pairs from which on a map finds them. Below it, a
// linear search is faster.
const indexedPairs = 16

// pairSet collects the pairs of a record. A key that is given twice keeps its place
// and gets the last value.
type pairSet struct {
	limit   int
	list    []record.Pair
	index   map[string]int // of all pairs, once there are indexedPairs
	dropped int            // keys that came after the limit
}

func (p *pairSet) reset() {
	p.list = p.list[:0]
	p.dropped = 0
	if len(p.index) > 0 {
		clear(p.index)
	}
}

// release drops the texts of all records.
func (p *pairSet) release() {
	p.reset()
	clear(p.list[:cap(p.list)])
}

// slot returns the index of the pair with the key. It adds a new key, which must
// then stay valid as long as the record. It returns -1 if there are too many keys.
func (p *pairSet) slot(key string) (i int, added bool) {
	if i := p.find(key); i >= 0 {
		return i, false
	}
	if len(p.list) >= p.limit {
		p.dropped++
		return -1, false
	}
	return p.add(key), true
}

func (p *pairSet) find(key string) int {
	if len(p.list) >= indexedPairs {
		if i, ok := p.index[key]; ok {
			return i
		}
		return -1
	}
	for i := range p.list {
		if p.list[i].Key == key {
			return i
		}
	}
	return -1
}

func (p *pairSet) add(key string) int {
	p.list = append(p.list, record.Pair{Key: key})
	switch n := len(p.list); {
	case n > indexedPairs:
		p.index[key] = n - 1
	case n == indexedPairs:
		p.buildIndex()
	}
	return len(p.list) - 1
}

func (p *pairSet) buildIndex() {
	if p.index == nil {
		p.index = make(map[string]int, 2*indexedPairs)
	}
	for i := range p.list {
		p.index[p.list[i].Key] = i
	}
}

// set sets the key's value, even beyond the limit on keys.
func (p *pairSet) set(key, value string) {
	i := p.find(key)
	if i < 0 {
		i = p.add(key)
	}
	p.list[i].Value = value
}

// value returns the key's value, or "" if there is no such key.
func (p *pairSet) value(key string) string {
	if i := p.find(key); i >= 0 {
		return p.list[i].Value
	}
	return ""
}

// keyPath is the dotted path to the current value. It holds only as many bytes as a
// key may have: otherwise each of many values in a deep object with long keys would
// cost the whole path.
type keyPath struct {
	limit int
	text  []byte // the path, or the first limit bytes of it
	full  int    // its length
	parts int
}

func (p *keyPath) reset() { p.text, p.full, p.parts = p.text[:0], 0, 0 }

func (p *keyPath) push(key string) {
	if p.parts > 0 {
		p.append(".")
	}
	p.append(key)
	p.parts++
}

func (p *keyPath) append(s string) {
	p.full += len(s)
	p.text = append(p.text, s[:min(len(s), p.limit-len(p.text))]...)
}

// back returns to an earlier path and keeps the buffer.
func (p *keyPath) back(to keyPath) {
	p.text = p.text[:len(to.text)]
	p.full, p.parts = to.full, to.parts
}

// pairsOf reads an object and makes each value in it a pair. Nested objects are
// read in the same way, with a dot between the keys; arrays stay JSON text;
// numbers, true, false and null are their JSON text. depth objects are open around
// the object.
func (d *Decoder) pairsOf(depth int) bool {
	s := &d.scan
	if !s.enter(depth + 1) {
		return false
	}
	for first := true; ; first = false {
		key, more := s.key(first)
		if !more {
			return s.ok() && (!first || d.emptyObject())
		}
		if !d.pair(key, depth+1) {
			return false
		}
	}
}

// pair reads the value of a key into the record's pairs.
func (d *Decoder) pair(key string, depth int) bool {
	nested := d.scan.peek() == '{'
	if d.path.parts == 0 && !nested && len(key) <= d.path.limit {
		i, _ := d.pairs.slot(key)
		return d.pairValue(i, depth)
	}
	before := d.path
	d.path.push(key)
	var ok bool
	if nested {
		ok = d.pairsOf(depth)
	} else {
		ok = d.pairValue(d.pathSlot(), depth)
	}
	d.path.back(before)
	return ok
}

// pairValue reads the next value into the pair at index i. A negative i means that
// there is no room; then the value is only checked.
func (d *Decoder) pairValue(i, depth int) bool {
	if i < 0 {
		return d.scan.skip(depth)
	}
	f, ok := d.scan.value(depth)
	if ok {
		d.pairs.list[i].Value = d.scan.cut(f.text, d.limits.Value)
	}
	return ok
}

// pathSlot returns the slot of the pair whose key is the path. It copies the key,
// and drops the copy unless the pair is new.
func (d *Decoder) pathSlot() int {
	s := &d.scan
	before := len(s.text)
	key := ""
	if d.path.full > d.path.limit {
		key = s.cutTo(view(d.path.text), d.path.full, d.path.limit)
	} else {
		key = s.keep(d.path.text)
	}
	i, added := d.pairs.slot(key)
	if !added {
		s.text = s.text[:before]
	}
	return i
}

// emptyObject keeps an object without keys as a value, so that its own key is not
// lost. The metadata object itself is not kept.
func (d *Decoder) emptyObject() bool {
	if d.path.parts > 0 {
		if i := d.pathSlot(); i >= 0 {
			d.pairs.list[i].Value = "{}"
		}
	}
	return true
}
