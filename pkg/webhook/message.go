package webhook

import (
	"fmt"
	"strings"
	"time"
)

// Message is a message to people. Its texts may come from anybody: this package
// cleans and escapes them when it builds a body.
type Message struct {
	ID       string    `json:"id"`      // the same for every attempt
	Kind     string    `json:"kind"`    // event, logs, digest, quota or test
	Project  string    `json:"project"` // the name of the project
	Source   string    `json:"source,omitempty"`
	Title    string    `json:"title"`
	Text     string    `json:"text,omitempty"`
	Icon     string    `json:"icon,omitempty"`
	Severity string    `json:"severity,omitempty"` // info, warn or error; chooses the colour
	Fields   []Field   `json:"fields,omitempty"`
	Lines    []string  `json:"lines,omitempty"` // of a digest: a line for each of the first alerts
	Count    int       `json:"count,omitempty"` // how many events or logs the message stands for; 0 means 1
	Time     time.Time `json:"time"`
	Link     string    `json:"link,omitempty"`

	// Repeat is true if an earlier attempt was not answered, so that this may be
	// the second copy. Unless the format recognises the ID, the message says so.
	Repeat bool `json:"-"`
}

// Field is a key and its value.
type Field struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

// Bounds of a message, in characters or in items.
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

// Bounded returns the message with its texts cut to the bounds. It changes the
// message's slices.
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

// cleaned returns a copy of the message, cut to the bounds, whose texts can
// neither control a screen nor mention a person in any service.
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
	return m.Bounded() // an escape is longer than the character
}

// headline returns the first line.
func (m *Message) headline() string {
	if m.Icon == "" {
		return m.Title
	}
	return m.Icon + " " + m.Title
}

// body returns the text below the headline.
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

// repeatNote warns people of a possible second copy.
const repeatNote = "sent again: an earlier attempt was not answered"

// footer returns the origin of the message and the ID to search for.
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

// colour returns the colour of the severity as 0xRRGGBB.
func (m *Message) colour() int {
	switch m.Severity {
	case "error":
		return 0xd32f2f
	case "warn":
		return 0xf9a825
	}
	return 0x1976d2
}
