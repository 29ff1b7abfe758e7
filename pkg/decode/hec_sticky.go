package decode

// stickyFields are those that an event has from the one before it where it has
// none of its own.
var stickyFields = [...]int{fieldTimestamp, fieldHost, fieldSource, fieldType, fieldIndex}

// sticky is one of them, as it was last given.
type sticky struct {
	field  field
	buffer []byte // the field's text: that of the event is gone with it
}

func (k *sticky) keep(f *field) {
	k.field.kind = f.kind
	if k.field.text != f.text {
		k.buffer = append(k.buffer[:0], f.text...)
		k.field.text = view(k.buffer)
	}
}

// inherit gives the event at hand what it takes from those before it, and keeps
// what those after it take from it.
func (d *Decoder) inherit() {
	for i, at := range stickyFields {
		f, kept := &d.fields[at], &d.sticky[i]
		if f.absent() {
			*f = kept.field
			continue
		}
		f.text = d.scan.cut(f.text, d.limits.Value)
		kept.keep(f)
	}
}

// forgetSticky ends what a body's events have in common.
func (d *Decoder) forgetSticky() {
	for i := range d.sticky {
		d.sticky[i].field = field{}
	}
}
