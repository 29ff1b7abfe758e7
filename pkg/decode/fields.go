package decode

import (
	"fmt"
	"strings"

	"github.com/logboom/logboom/pkg/record"
)

// logField and eventField are the protocols' field functions. Names are
// case-sensitive, as JSON's are.
func logField(key string) int {
	switch key {
	case "data":
		return fieldData
	case "application":
		return fieldApplication
	case "severity":
		return fieldSeverity
	case "host":
		return fieldHost
	case "source":
		return fieldSource
	case "timestamp":
		return fieldTimestamp
	case "metadata":
		return fieldPairs
	}
	return fieldNone
}

func eventField(key string) int {
	switch key {
	case "channel":
		return fieldChannel
	case "title":
		return fieldTitle
	case "event":
		return fieldEvent
	case "description":
		return fieldDescription
	case "icon":
		return fieldIcon
	case "notify":
		return fieldNotify
	case "timestamp":
		return fieldTimestamp
	case "tags":
		return fieldPairs
	}
	return fieldNone
}

func finishLog(d *Decoder) problem {
	f := &d.fields
	switch {
	case f[fieldData].kind == 0:
		return problem{CodeMissingField, d.start, "data is required"}
	case f[fieldApplication].nested():
		return problem{CodeInvalidField, f[fieldApplication].at, "application must be text"}
	case !f[fieldPairs].absent() && f[fieldPairs].kind != '{':
		return problem{CodeInvalidField, f[fieldPairs].at, "metadata must be an object"}
	}
	l := &d.log
	l.Data = f[fieldData].text
	l.Application = d.name(fieldApplication)
	if l.Application == "" {
		l.Application = d.app
	}
	l.Host = d.name(fieldHost)
	l.Source = d.name(fieldSource)
	l.SeverityNumber, l.Severity = d.severity(&f[fieldSeverity])
	l.Timestamp = d.timestamp(&f[fieldTimestamp])
	d.addMarks()
	l.Metadata = d.pairs.list
	if size := l.Size(); size > d.limits.Record {
		return d.tooLarge(size)
	}
	d.emitLog(l)
	d.result.Accepted++
	return problem{}
}

func finishEvent(d *Decoder) problem {
	if p := d.checkEvent(); p.code != "" {
		return p
	}
	f := &d.fields
	e := &d.event
	e.Channel = d.name(fieldChannel)
	e.Title = f[fieldTitle].text
	e.Description = ""
	if !f[fieldDescription].absent() {
		e.Description = f[fieldDescription].text
	}
	e.Icon = d.name(fieldIcon)
	e.Notify = strings.EqualFold(f[fieldNotify].text, "true")
	e.Timestamp = d.timestamp(&f[fieldTimestamp])
	d.addMarks()
	e.Tags = d.pairs.list
	if size := e.Size(); size > d.limits.Record {
		return d.tooLarge(size)
	}
	d.emitEvent(e)
	d.result.Accepted++
	return problem{}
}

// checkEvent also settles which of its two names the title has.
func (d *Decoder) checkEvent() problem {
	f := &d.fields
	switch {
	case f[fieldTitle].absent():
		f[fieldTitle] = f[fieldEvent]
	case !f[fieldEvent].absent():
		d.pairs.set("event", d.scan.cut(f[fieldEvent].text, d.limits.Value))
	}
	if p := d.required(fieldChannel, "channel"); p.code != "" {
		return p
	}
	if p := d.required(fieldTitle, "title"); p.code != "" {
		return p
	}
	notify := &f[fieldNotify]
	switch {
	case f[fieldIcon].nested():
		return problem{CodeInvalidField, f[fieldIcon].at, "icon must be text"}
	case !notify.absent() && !strings.EqualFold(notify.text, "true") && !strings.EqualFold(notify.text, "false"):
		return problem{CodeInvalidField, notify.at, "notify must be true or false"}
	case !f[fieldPairs].absent() && f[fieldPairs].kind != '{':
		return problem{CodeInvalidField, f[fieldPairs].at, "tags must be an object"}
	}
	return problem{}
}

// required says what is wrong with a field that must be there and not blank.
func (d *Decoder) required(i int, name string) problem {
	f := &d.fields[i]
	switch {
	case f.absent():
		return problem{CodeMissingField, d.start, name + " is required"}
	case f.nested():
		return problem{CodeInvalidField, f.at, name + " must be text"}
	case strings.TrimSpace(f.text) == "":
		return problem{CodeInvalidField, f.at, name + " must not be blank"}
	}
	return problem{}
}

// name is the text of a short field, empty where it is absent.
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

// timestamp is the sender's time where it can be used as it is. Where not, the
// sender's own text becomes a pair, so that nothing is lost by it.
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

// addMarks says in the pairs what was done to the record.
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
