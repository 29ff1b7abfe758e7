package decode

import (
	"math"
	"strconv"
	"strings"
)

// jsonText reads a string; null is an empty one.
func (d *Decoder) jsonText(what string) (text string, ok bool) {
	f, ok := d.scan.value(0)
	if !ok || f.absent() {
		return "", ok
	}
	if f.kind != '"' {
		d.blame(CodeInvalidField, what, " must be a string")
		return "", true
	}
	return f.text, true
}

// jsonNumber reads the text of a number, which may be in a string. It is empty
// for null.
func (d *Decoder) jsonNumber(what string) (text string, ok bool) {
	f, ok := d.scan.value(0)
	if !ok || f.absent() {
		return "", ok
	}
	if f.kind != '"' && f.kind != '0' || f.text == "" {
		d.blame(CodeInvalidField, what, " must be a number")
		return "", true
	}
	return f.text, true
}

// jsonWhole reads a whole number from 0 to most.
func (d *Decoder) jsonWhole(what string, most uint64) (n uint64, ok bool) {
	text, ok := d.jsonNumber(what)
	if text == "" {
		return 0, ok
	}
	negative, n, good := wholeNumber(text)
	if !good || negative && n > 0 || n > most {
		d.blame(CodeInvalidField, what, " must be a whole number that it has room for")
		return 0, true
	}
	return n, true
}

// wholeNumber reads a whole number, be it written as 12, 12.0 or 1.2e1.
func wholeNumber(text string) (negative bool, n uint64, ok bool) {
	digits := strings.TrimPrefix(text, "-")
	negative = len(digits) < len(text)
	if digits == "" || !isDigit(digits[0]) {
		return false, 0, false
	}
	if n, err := strconv.ParseUint(digits, 10, 64); err == nil {
		return negative, n, true
	}
	f, err := strconv.ParseFloat(digits, 64)
	if err != nil || f != math.Trunc(f) || f >= 1<<64 {
		return false, 0, false
	}
	return negative, uint64(f), true
}

// jsonSeverity reads a SeverityNumber, as a number or by its name. A name that
// is not known is none.
func (d *Decoder) jsonSeverity(what string) (number int64, ok bool) {
	text, ok := d.jsonNumber(what)
	if text == "" {
		return 0, ok
	}
	if c := text[0]; c != '-' && !isDigit(c) {
		return severityNamed(strings.TrimPrefix(text, "SEVERITY_NUMBER_")), ok
	}
	negative, n, good := wholeNumber(text)
	switch {
	case !good || n > math.MaxInt32:
		d.blame(CodeInvalidField, what, " must be a whole number that it has room for")
	case negative:
		number = -int64(n)
	default:
		number = int64(n)
	}
	return number, ok
}

// severityNamed is the number of a canonical name, 0 for any other.
func severityNamed(name string) int64 {
	for number := uint8(1); number <= 24; number++ {
		if canonicalSeverity(number) == name {
			return int64(number)
		}
	}
	return 0
}

// jsonID reads an id of so many bytes in hexadecimal, of either case.
func (d *Decoder) jsonID(what string, length int) (id string, ok bool) {
	text, ok := d.jsonText(what)
	if len(text) != 2*length {
		return "", ok
	}
	var lower [2 * traceBytes]byte
	for i := range len(text) {
		c := text[i]
		if 'A' <= c && c <= 'F' {
			c |= 0x20
		}
		if !isDigit(c) && (c < 'a' || c > 'f') {
			return "", ok
		}
		lower[i] = c
	}
	return realID(d.scan.keep(lower[:len(text)])), ok
}

// jsonData reads a record's body, an AnyValue.
func (d *Decoder) jsonData() bool {
	o := d.otlp
	o.nodes = o.nodes[:0]
	if !d.jsonValue(d.addNode(), 1) {
		return false
	}
	o.entry.data = d.nodeText(0)
	return true
}

func (d *Decoder) jsonAttributes() bool {
	fits, ok := d.fits('[', "attributes")
	if !fits {
		return ok
	}
	return d.elements(func() bool {
		d.otlp.nodes = d.otlp.nodes[:0]
		if !d.jsonKeyValue(1) {
			return false
		}
		d.addAttribute()
		return true
	})
}

// jsonKeyValue reads a KeyValue into a node of its own.
func (d *Decoder) jsonKeyValue(level int) bool {
	i := d.addNode()
	fits, ok := d.fits('{', "what attributes and maps hold")
	if !fits {
		return ok
	}
	return d.members(func(key string) (ok bool) {
		switch key {
		case "key":
			d.otlp.nodes[i].key, ok = d.jsonText(key)
			return ok
		case "value":
			return d.jsonValue(i, level)
		}
		return d.scan.skip(0)
	})
}

// jsonValue reads an AnyValue into the node at i, level values deep. Of several
// members the last one counts.
func (d *Decoder) jsonValue(i, level int) bool {
	if d.deep(level) {
		return d.scan.skip(0)
	}
	fits, ok := d.fits('{', "a value")
	if !fits {
		return ok
	}
	return d.members(func(key string) bool {
		switch {
		case d.scan.peek() == 'n':
			return d.scan.literal("null")
		case key == "arrayValue" || key == "array_value":
			return d.jsonList(i, '[', level+1)
		case key == "kvlistValue" || key == "kvlist_value":
			return d.jsonList(i, '{', level+1)
		}
		return d.jsonScalar(i, key)
	})
}

// jsonScalar reads the value of a key of AnyValue that holds no others.
func (d *Decoder) jsonScalar(i int, key string) bool {
	switch key {
	case "stringValue", "string_value", "bytesValue", "bytes_value":
		text, ok := d.jsonText(key)
		d.setNode(i, '"', text)
		return ok
	case "boolValue", "bool_value":
		f, ok := d.scan.value(0)
		if f.kind != 't' {
			d.blame(CodeInvalidField, key, " must be true or false")
		}
		d.setNode(i, '0', f.text)
		return ok
	case "intValue", "int_value":
		return d.jsonInt(i, key)
	case "doubleValue", "double_value":
		return d.jsonDouble(i, key)
	}
	return d.scan.skip(0)
}

func (d *Decoder) jsonInt(i int, what string) bool {
	text, ok := d.jsonNumber(what)
	negative, n, good := wholeNumber(text)
	switch {
	case !good || n > 1<<63 || n == 1<<63 && !negative:
		d.blame(CodeInvalidField, what, " must be a whole number of 64 bits")
	case negative:
		d.setInt(i, -int64(n))
	default:
		d.setInt(i, int64(n))
	}
	return ok
}

func (d *Decoder) jsonDouble(i int, what string) bool {
	text, ok := d.jsonNumber(what)
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		d.blame(CodeInvalidField, what, " must be a number")
		return ok
	}
	d.setDouble(i, f)
	return ok
}

// jsonList reads an ArrayValue or a KeyValueList, as the bracket says, into the
// node at i.
func (d *Decoder) jsonList(i int, bracket byte, level int) bool {
	d.openNode(i, bracket)
	fits, ok := d.fits('{', "arrayValue and kvlistValue")
	if fits {
		ok = d.members(func(key string) bool {
			if key != "values" {
				return d.scan.skip(0)
			}
			return d.jsonListValues(bracket, level)
		})
	}
	d.closeNode(i)
	return ok
}

func (d *Decoder) jsonListValues(bracket byte, level int) bool {
	fits, ok := d.fits('[', "values")
	if !fits {
		return ok
	}
	return d.elements(func() bool {
		if bracket == '{' {
			return d.jsonKeyValue(level)
		}
		return d.jsonValue(d.addNode(), level)
	})
}
