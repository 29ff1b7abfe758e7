package delivery

import (
	"encoding/json"
	"fmt"
	"maps"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/logboom/logboom/cmd/collector/internal/entry"
	"github.com/logboom/logboom/cmd/collector/internal/spool"
)

// Origin is what all lines of a container have in common.
type Origin struct {
	Tag        string            `json:"tag"`
	Host       string            `json:"host"`
	Attributes map[string]string `json:"attributes,omitempty"`
}

// eventEncoder encodes lines as events. An event has the form that Docker's own
// driver sends, with the time to the nanosecond:
//
//	{"event":{"line":…,"source":…,"tag":…,"attrs":{…}},"time":"1700000000.123457890","host":…}
type eventEncoder struct {
	origin Origin
	middle []byte // from the tag to the end of "event"
	ending []byte // the host and the closing brace
}

// Names of the attributes that mark a part of a line.
const (
	partID      = "partial_id"
	partOrdinal = "partial_ordinal"
	partLast    = "partial_last"
)

func newEventEncoder(o Origin) *eventEncoder {
	enc := &eventEncoder{origin: o}
	enc.middle = enc.encodeMiddle(o.Attributes)
	if o.Host != "" {
		enc.ending = appendText([]byte(`,"host":`), []byte(o.Host))
	}
	enc.ending = append(enc.ending, '}')
	return enc
}

func (enc *eventEncoder) encodeMiddle(attributes map[string]string) []byte {
	dst := appendText([]byte(`,"tag":`), []byte(enc.origin.Tag))
	if len(attributes) > 0 {
		text, err := json.Marshal(attributes)
		if err != nil {
			panic(err) // a map of strings can always be encoded
		}
		dst = append(append(dst, `,"attrs":`...), text...)
	}
	return append(dst, '}')
}

// append appends the event of a line.
func (enc *eventEncoder) append(dst []byte, l entry.Line) []byte {
	dst = appendText(append(dst, `{"event":{"line":`...), l.Text)
	dst = appendText(append(dst, `,"source":`...), []byte(l.Source))
	if l.Part == nil {
		dst = append(dst, enc.middle...)
	} else {
		dst = append(dst, enc.encodeMiddle(enc.partAttributes(l.Part))...)
	}
	if l.Time > 0 {
		dst = appendTime(append(dst, `,"time":`...), l.Time)
	}
	return append(dst, enc.ending...)
}

// partAttributes returns the attributes of a part of a line.
func (enc *eventEncoder) partAttributes(p *entry.Part) map[string]string {
	attributes := maps.Clone(enc.origin.Attributes)
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

// lossLine returns the line that reports dropped lines. Its source is
// "collector".
func lossLine(l spool.Loss) entry.Line {
	format := func(ns int64) string { return time.Unix(0, ns).UTC().Format(time.RFC3339Nano) }
	text := fmt.Sprintf("warning: the collector dropped %d lines of this container, written from %s to %s, because they could not be delivered in time and its spool is bounded",
		l.Lines, format(l.First), format(l.Last))
	return entry.Line{Source: "collector", Time: l.Last, Text: []byte(text)}
}

// appendTime appends a time as seconds with nine decimals, in a JSON string: a
// JSON number would lose digits when it is parsed as a float.
func appendTime(dst []byte, ns int64) []byte {
	const second = int64(time.Second)
	dst = strconv.AppendInt(append(dst, '"'), ns/second, 10)
	dst = append(dst, '.')
	fraction := strconv.AppendInt(nil, second+ns%second, 10)
	return append(append(dst, fraction[1:]...), '"')
}

// appendText appends a JSON string. Each byte that is not UTF-8 becomes U+FFFD,
// as in Docker's own driver.
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
	const hex = "0123456789abcdef"
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
