package decode

import (
	"encoding/hex"

	"github.com/logboom/logboom/pkg/record"
)

// shared is what many records have in common, of their resource and then of
// their scope: it is read once, and each record begins as a copy of it.
type shared struct {
	pairs     []record.Pair
	textBytes int // of the scanner's text; what the pairs borrow lies before
	replaced  int
	dropped   int
	overflow  bool
	app, host string
	bad       problem
}

func (sh *shared) release() { clear(sh.pairs[:cap(sh.pairs)]) }

// save keeps the attributes read so far as what others share.
func (d *Decoder) save(sh *shared) {
	o := d.otlp
	sh.pairs = append(sh.pairs[:0], d.pairs.list...)
	sh.textBytes, sh.replaced, sh.overflow = len(d.scan.text), d.scan.replaced, d.scan.overflow
	sh.dropped = d.pairs.dropped
	sh.app, sh.host, sh.bad = o.app, o.host, o.bad
}

// restore goes back to what is shared. The attributes at hand must have begun
// as a copy of it.
func (d *Decoder) restore(sh *shared) {
	o := d.otlp
	d.pairs.rewind(sh.pairs, sh.dropped)
	d.scan.text = d.scan.text[:sh.textBytes]
	d.scan.replaced, d.scan.overflow = sh.replaced, sh.overflow
	o.app, o.host, o.bad = sh.app, sh.host, sh.bad
}

// forget goes back to what is shared by none: the start of a resource.
func (d *Decoder) forget() {
	d.pairs.reset()
	d.restore(&shared{})
}

// addScope adds the scope's own name and version to its attributes.
func (d *Decoder) addScope(name, version string) {
	if name != "" {
		d.pairs.set(keyScopeName, d.scan.cut(name, d.limits.Value))
	}
	if version != "" {
		d.pairs.set(keyScopeVersion, d.scan.cut(version, d.limits.Value))
	}
}

// rewind makes the set that of the pairs, whose keys must be its first ones. It
// costs a copy of them and a look at the others: with many pairs their index
// would cost more than the record does.
func (p *pairSet) rewind(pairs []record.Pair, dropped int) {
	switch {
	case len(p.list) < indexedPairs: // there is no index yet
	case len(pairs) < indexedPairs:
		clear(p.index)
	default:
		for i := range p.list[len(pairs):] {
			delete(p.index, p.list[len(pairs)+i].Key)
		}
	}
	p.list = append(p.list[:0], pairs...)
	p.dropped = dropped
}

// setLast is set for keys after which the set is rewound. They are in no index,
// which a record with more pairs than it takes for one would be made anew for:
// measured, a quarter of the whole decoding.
func (p *pairSet) setLast(key, value string) {
	for i := range p.list {
		if p.list[i].Key == key {
			p.list[i].Value = value
			return
		}
	}
	p.list = append(p.list, record.Pair{Key: key, Value: value})
}

// keepHex is raw in hexadecimal as a text of the record.
func (s *scanner) keepHex(raw []byte) string {
	from := len(s.text)
	s.text = hex.AppendEncode(s.text, raw)
	return view(s.text[from:])
}
