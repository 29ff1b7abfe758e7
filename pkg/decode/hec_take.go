package decode

import (
	"strings"

	"github.com/logboom/logboom/pkg/record"
)

// taken is what an object of a container log may be taken apart by.
type taken struct{ message, level field }

// place is where the value of the key goes, nil for nowhere; of two messages or
// levels the first counts.
func (t *taken) place(key string) *field {
	switch {
	case (key == "message" || key == "msg") && t.message.kind == 0:
		return &t.message
	case (key == "level" || key == "severity") && t.level.kind == 0:
		return &t.level
	}
	return nil
}

func (t *taken) complete() bool {
	return t.message.kind == '"' && strings.TrimSpace(t.message.text) != "" &&
		!t.level.absent() && !t.level.nested() && severityWord(t.level.text) != ""
}

// take makes the log's data of an object: its message, with its level as the
// severity and all else as metadata, where it has both. Otherwise, or where it
// is nested too deeply, the data is its JSON text; then it is false. depth
// objects are open inside of it.
func (d *Decoder) take(l *record.Log, object *field, depth int) bool {
	var found taken
	ok := d.again(object.at, func() bool { return d.find(&found, depth) })
	if !ok || !found.complete() {
		l.Data = d.scan.valid(d.scan.body[object.at : object.at+len(object.text)])
		return false
	}
	l.Data = found.message.text
	var passed taken
	d.rest(object.at, depth, func(key string) bool {
		place := passed.place(key)
		if place != nil {
			place.kind = 'n'
		}
		return place != nil
	})
	l.SeverityNumber, l.Severity = d.severity(&found.level)
	return true
}

// find reads an object's message and level, and checks that the rest of it can
// be metadata.
func (d *Decoder) find(found *taken, depth int) (ok bool) {
	s := &d.scan
	s.pos++
	for first := true; ; first = false {
		key, more := s.key(first)
		if !more {
			return s.ok()
		}
		if place := found.place(key); place == nil {
			ok = s.skip(depth)
		} else {
			*place, ok = s.value(depth)
		}
		if !ok {
			return false
		}
	}
}

// rest makes metadata of an object's keys, save those that known tells. The
// object has been read before, and only what known tells may be nested deeply.
func (d *Decoder) rest(at, depth int, known func(key string) bool) {
	s := &d.scan
	limit := s.depth
	s.depth = maxLineDepth
	defer func() { s.depth = limit }()
	d.again(at, func() (ok bool) {
		s.pos++
		for first := true; ; first = false {
			key, more := s.key(first)
			if !more {
				return s.ok()
			}
			if known(key) {
				ok = s.skip(depth)
			} else {
				ok = d.pair(key, depth)
			}
			if !ok {
				return false
			}
		}
	})
}

// again reads a value that was read before, and goes back to where the scanner
// was.
func (d *Decoder) again(at int, read func() bool) bool {
	s := &d.scan
	pos := s.pos
	s.pos = at
	ok := read()
	s.pos, s.failure = pos, ""
	return ok
}
