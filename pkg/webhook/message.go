package webhook

import (
	"fmt"
	"strings"
	"time"
)

// Message is what people are to be told. Its texts are a sender's own: they are
// cleaned and escaped here, by whoever writes a body, and need not be before.
type Message struct {
	ID       string    `json:"id"`      // the same for every attempt
	Kind     string    `json:"kind"`    // event, logs, digest, quota or test
	Project  string    `json:"project"` // its name
	Source   string    `json:"source,omitempty"`
	Title    string    `json:"title"`
	Text     string    `json:"text,omitempty"`
	Icon     string    `json:"icon,omitempty"`
	Severity string    `json:"severity,omitempty"` // info, warn or error: the colour
	Fields   []Field   `json:"fields,omitempty"`
	Lines    []string  `json:"lines,omitempty"` // of a digest: one for each of the first
	Count    int       `json:"count,omitempty"` // how many events or logs it stands for; 0: one
	Time     time.Time `json:"time"`
	Link     string    `json:"link,omitempty"`

	// Repeat: an earlier attempt was never answered, so that this may be the
	// second copy. A format that does not recognise the ID says so to people.
	Repeat bool `json:"-"`
}

// Field is a key with its value.
type Field struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

// Bounds of what one message shows, in characters.
const (
	maxTitle      = 250
	maxText       = 8000
	maxFields     = 10
	maxFieldKey   = 60
	maxFieldValue = 150
	maxLines      = 20
	maxLine       = 150
	maxWord       = 80 // icon, source, project, id
	maxLink       = 500
)

// Bounded is the message cut to what is ever shown of it, so that it may be
// kept while it waits.
func (m Message) Bounded() Message {
	m.Title, m.Text = cut(m.Title, maxTitle), cut(m.Text, maxText)
	m.Source, m.Icon = cut(m.Source, maxWord), cut(m.Icon, maxWord)
	m.Fields = m.Fields[:min(len(m.Fields), maxFields)]
	for i, f := range m.Fields {
		m.Fields[i] = Field{cut(f.Key, maxFieldKey), cut(f.Value, maxFieldValue)}
	}
	m.Lines = m.Lines[:min(len(m.Lines), maxLines)]
	for i, line := range m.Lines {
		m.Lines[i] = cut(line, maxLine)
	}
	return m
}

// cleaned is the message with texts that can neither command a screen nor call
// anybody, whatever the service makes of them.
func (m Message) cleaned() Message {
	m.Fields, m.Lines = append([]Field(nil), m.Fields...), append([]string(nil), m.Lines...)
	m = m.Bounded()
	m.Title, m.Text = cleanLine(m.Title), clean(m.Text)
	m.Project, m.Source, m.Icon = cleanLine(m.Project), cleanLine(m.Source), cleanLine(m.Icon)
	for i, f := range m.Fields {
		m.Fields[i] = Field{cleanLine(f.Key), cleanLine(f.Value)}
	}
	for i, line := range m.Lines {
		m.Lines[i] = cleanLine(line)
	}
	if len(m.Link) > maxLink {
		m.Link = ""
	}
	return m.Bounded() // what is written out takes more room
}

// headline is the first line.
func (m *Message) headline() string {
	if m.Icon == "" {
		return m.Title
	}
	return m.Icon + " " + m.Title
}

// body is what stands below it.
func (m *Message) body() string {
	if len(m.Lines) == 0 {
		return m.Text
	}
	var b strings.Builder
	for _, line := range m.Lines {
		b.WriteString("• " + line + "\n")
	}
	if more := m.Count - len(m.Lines); more > 0 {
		fmt.Fprintf(&b, "and %d more\n", more)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// repeatNote tells people what an unanswered attempt may have done.
const repeatNote = "sent again: an earlier attempt was not answered"

// footer is where it comes from, and what to look for it by.
func (m *Message) footer() string {
	parts := []string{m.Project}
	if m.Source != "" {
		parts = append(parts, m.Source)
	}
	parts = append(parts, m.Time.UTC().Format(time.RFC3339), m.ID)
	if m.Repeat {
		parts = append(parts, repeatNote)
	}
	return strings.Join(parts, " · ")
}

// colour is the message's colour as 0xRRGGBB.
func (m *Message) colour() int {
	switch m.Severity {
	case "error":
		return 0xd32f2f
	case "warn":
		return 0xf9a825
	}
	return 0x1976d2
}
