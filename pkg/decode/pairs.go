package decode

import "github.com/logboom/logboom/pkg/record"

// Keys that Logboom itself adds to metadata and tags. They come on top of the
// keys that a record may have, and take the place of a sender's own.
const (
	keyOriginalTime  = "timestamp_original" // the sender's timestamp, where it was not usable as it is
	keyTruncatedKeys = "_truncated_keys"    // how many keys were dropped
	keyInvalidUTF8   = "_invalid_utf8"      // how many bytes were replaced by U+FFFD
)

// indexedPairs is from how many pairs on they are found by a map rather than
// by looking at each: below it, the map is slower.
const indexedPairs = 16

// pairSet gathers the pairs of a record. A key given twice keeps its place and
// takes the last value.
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

// release drops the texts of all records so far.
func (p *pairSet) release() {
	p.reset()
	clear(p.list[:cap(p.list)])
}

// slot is the place of the pair with the key, which is added when it is new:
// it then must stay valid as long as the record is. It is -1 where there are
// too many.
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

// set gives the key the value, whether or not there is room.
func (p *pairSet) set(key, value string) {
	i := p.find(key)
	if i < 0 {
		i = p.add(key)
	}
	p.list[i].Value = value
}

// value is what the key has, empty where it is not there.
func (p *pairSet) value(key string) string {
	if i := p.find(key); i >= 0 {
		return p.list[i].Value
	}
	return ""
}

// keyPath is the dotted path to the value at hand. It keeps no more of it than
// a key may have bytes, for in a deep object with long keys each of many
// values would otherwise cost the whole path.
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

// back returns to what the path was and keeps the buffer.
func (p *keyPath) back(to keyPath) {
	p.text = p.text[:len(to.text)]
	p.full, p.parts = to.full, to.parts
}
