package decode

import (
	"bytes"
	"strings"

	"github.com/logboom/logboom/pkg/record"
)

// Origin is what a client says of all lines of a raw body together. Empty fields
// are not given. Time has the form of an event's time in HEC.
type Origin struct {
	Time, Host, Source, SourceType, Index string
}

// fields returns the origin as the fields of an event.
func (o *Origin) fields() (fields [fieldCount]field) {
	for i, text := range map[int]string{fieldTimestamp: o.Time, fieldHost: o.Host, fieldSource: o.Source, fieldType: o.SourceType, fieldIndex: o.Index} {
		if text != "" {
			fields[i] = field{kind: '"', text: strings.ToValidUTF8(text, replacement)}
		}
	}
	return fields
}

// Raw reads the lines of a plain-text body and calls emit with each as a log. A
// line ends with LF or CR LF; blank lines are skipped. Severities are found as in
// HEC.
func (d *Decoder) Raw(body []byte, def Defaults, origin Origin, emit func(*record.Log)) Result {
	d.begin(body, def, protocol{})
	d.emitLog = emit
	body = bytes.TrimPrefix(body, []byte(byteOrderMark))
	d.scan.pos = len(d.scan.body) - len(body)
	fields := origin.fields()
	for line := range bytes.Lines(body) {
		d.start = d.scan.pos
		d.scan.pos += len(line)
		line = bytes.TrimSuffix(bytes.TrimSuffix(line, []byte("\n")), []byte("\r"))
		if len(bytes.TrimSpace(line)) > 0 {
			d.rawLine(line, fields)
		}
	}
	return d.end()
}

func (d *Decoder) rawLine(line []byte, fields [fieldCount]field) {
	d.scan.resetText()
	d.pairs.reset()
	d.fields = fields
	d.log = record.Log{Application: d.app}
	d.log.Data = d.scan.valid(line)
	p := d.overflow()
	if p.code == "" {
		p = d.finishContainer(&d.log, false)
	}
	if p.code != "" {
		d.reject(p.code, p.at, p.detail)
	}
}
