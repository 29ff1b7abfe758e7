package ship

import (
	"encoding/json"
	"fmt"
	"maps"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/logboom/logboom/cmd/collector/internal/join"
	"github.com/logboom/logboom/cmd/collector/internal/spool"
)

// Origin is what all lines of a container have in common.
type Origin struct {
	Tag        string            `json:"tag"`
	Host       string            `json:"host"`
	Attributes map[string]string `json:"attributes,omitempty"`
}

// form is an Origin in the shape in which events need it. An event is what
// Docker's own driver sends, with the time to the nanosecond:
//
//	{"event":{"line":…,"source":…,"tag":…,"attrs":{…}},"time":"1700000000.123457890","host":…}
type form struct {
	origin Origin
	middle []byte // from tag to the end of the event
	ending []byte // host, to the end
}

// Names of the attributes of a line that was cut.
const (
	partID      = "partial_id"
	partOrdinal = "partial_ordinal"
	partLast    = "partial_last"
)

func newForm(o Origin) *form {
	f := &form{origin: o}
	f.middle = f.event(o.Attributes)
	if o.Host != "" {
		f.ending = appendText([]byte(`,"host":`), []byte(o.Host))
	}
	f.ending = append(f.ending, '}')
	return f
}

func (f *form) event(attributes map[string]string) []byte {
	dst := appendText([]byte(`,"tag":`), []byte(f.origin.Tag))
	if len(attributes) > 0 {
		text, err := json.Marshal(attributes)
		if err != nil {
			panic(err) // texts are always JSON
		}
		dst = append(append(dst, `,"attrs":`...), text...)
	}
	return append(dst, '}')
}

// append adds a line's event.
func (f *form) append(dst []byte, l join.Line) []byte {
	dst = appendText(append(dst, `{"event":{"line":`...), l.Text)
	dst = appendText(append(dst, `,"source":`...), []byte(l.Source))
	if l.Part == nil {
		dst = append(dst, f.middle...)
	} else {
		dst = append(dst, f.event(f.marked(l.Part))...)
	}
	if l.Time > 0 {
		dst = appendTime(append(dst, `,"time":`...), l.Time)
	}
	return append(dst, f.ending...)
}

// marked is the attributes of a line that is only a part.
func (f *form) marked(p *join.Part) map[string]string {
	attributes := maps.Clone(f.origin.Attributes)
	if attributes == nil {
		attributes = map[string]string{}
	}
	if p.ID != "" {
		attributes[partID] = p.ID
	}
	attributes[partOrdinal] = strconv.Itoa(int(p.Ordinal))
	attributes[partLast] = strconv.FormatBool(p.Last)
	return attributes
}

// lostSource is the source of the lines that are the collector's own.
const lostSource = "collector"

// lost is the line that says what was dropped.
func lost(l spool.Lost) join.Line {
	stamp := func(ns int64) string { return time.Unix(0, ns).UTC().Format(time.RFC3339Nano) }
	text := fmt.Sprintf("warning: the collector dropped %d lines of this container, written from %s to %s, because they could not be delivered in time and its spool is bounded",
		l.Lines, stamp(l.First), stamp(l.Last))
	return join.Line{Source: lostSource, Time: l.Last, Text: []byte(text)}
}

// appendTime adds seconds with nine decimals, as a JSON string: a number of
// that many digits would lose some in a float.
func appendTime(dst []byte, ns int64) []byte {
	const second = int64(time.Second)
	dst = strconv.AppendInt(append(dst, '"'), ns/second, 10)
	dst = append(dst, '.')
	fraction := strconv.AppendInt(nil, second+ns%second, 10)
	return append(append(dst, fraction[1:]...), '"')
}

const hex = "0123456789abcdef"

// appendText adds a JSON string. Bytes that are no UTF-8 become U+FFFD, one
// each, as Docker's own driver has it.
func appendText(dst, text []byte) []byte {
	dst = append(dst, '"')
	from := 0
	for i := 0; i < len(text); {
		if b := text[i]; b < utf8.RuneSelf {
			if b >= ' ' && b != '"' && b != '\\' {
				i++
				continue
			}
			dst = appendEscape(append(dst, text[from:i]...), b)
			i++
			from = i
			continue
		}
		r, size := utf8.DecodeRune(text[i:])
		if r == utf8.RuneError && size == 1 {
			dst = append(append(dst, text[from:i]...), "\ufffd"...)
			from = i + 1
		}
		i += size
	}
	return append(append(dst, text[from:]...), '"')
}

func appendEscape(dst []byte, b byte) []byte {
	switch b {
	case '"', '\\':
		return append(dst, '\\', b)
	case '\n':
		return append(dst, `\n`...)
	case '\r':
		return append(dst, `\r`...)
	case '\t':
		return append(dst, `\t`...)
	}
	return append(dst, '\\', 'u', '0', '0', hex[b>>4], hex[b&15])
}
