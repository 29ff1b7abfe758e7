package decode

// pairsOf reads an object and makes each value in it a pair: an object in it
// is read likewise, its keys behind its own and a dot; arrays stay JSON text;
// numbers, true, false and null are their JSON text. depth objects are open
// around it.
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

// pairValue reads the next value into the pair at i; one that there is no
// place for is only checked.
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

// pathSlot is the place of the pair whose key is the path. The key is copied,
// and the copy given up again unless the pair is a new one.
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

// emptyObject keeps an object without keys as a value, so that its own key is
// not lost. The metadata object itself needs none.
func (d *Decoder) emptyObject() bool {
	if d.path.parts > 0 {
		if i := d.pathSlot(); i >= 0 {
			d.pairs.list[i].Value = "{}"
		}
	}
	return true
}
