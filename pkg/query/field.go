package query

import (
	"strings"

	"github.com/logboom/logboom/pkg/record"
)

// fragment is SQL of this package: only untyped constants become one, never a
// text that came from outside.
type fragment string

// field is what a term looks at: a column, or one key of the pairs.
type field struct {
	name   string
	column fragment // "" for keys
	key    string   // of metadata or tags
	kind   fieldKind
}

type fieldKind uint8

const (
	textField fieldKind = iota
	severityField
	idField
	pairField
)

// Field describes a field to whoever completes a query.
type Field struct {
	Name string // as it is shown
	Note string // what it holds
}

// Fields lists a kind's own fields. Beside them every key of the metadata, or
// of the tags, is one.
func Fields(kind record.Kind) []Field {
	if kind == record.KindEvent {
		return []Field{
			{"channel", "where the event was sent"},
			{"title", "what happened"},
			{"description", "what there is to say of it"},
			{"id", "the event's own"},
			{"tags.", "one of the event's tags"},
		}
	}
	return []Field{
		{"application", "who wrote the line; also app"},
		{"severity", "how bad it is; also level, and >= with its words"},
		{"host", "where it was written"},
		{"source", "what it was read from"},
		{"id", "the line's own"},
		{"metadata.", "one of the line's metadata"},
	}
}

// pairsOf is the column that holds a kind's keys and values, which is also the
// prefix of their fields.
func pairsOf(kind record.Kind) fragment {
	if kind == record.KindEvent {
		return "tags"
	}
	return "metadata"
}

// textsOf are the columns that words are looked for in.
func textsOf(kind record.Kind) []fragment {
	if kind == record.KindEvent {
		return []fragment{"title", "description"}
	}
	return []fragment{"data"}
}

// fieldOf finds a field by its name, the known ones in any case. A bare unknown
// name is a key.
func fieldOf(kind record.Kind, name string) field {
	lower := strings.ToLower(name)
	if lower == "id" {
		return field{name: "id", kind: idField}
	}
	if prefix := len(pairsOf(kind)) + 1; len(name) > prefix && strings.EqualFold(name[:prefix], string(pairsOf(kind))+".") {
		return field{name: name, key: name[prefix:], kind: pairField}
	}
	if kind == record.KindEvent {
		return eventField(lower, name)
	}
	return logField(lower, name)
}

func logField(lower, name string) field {
	switch lower {
	case "application", "app":
		return field{name: "application", column: "application"}
	case "severity", "level":
		return field{name: "severity", column: "severity", kind: severityField}
	case "host":
		return field{name: "host", column: "host"}
	case "source":
		return field{name: "source", column: "source"}
	}
	return field{name: name, key: name, kind: pairField}
}

func eventField(lower, name string) field {
	switch lower {
	case "channel":
		return field{name: "channel", column: "channel"}
	case "title":
		return field{name: "title", column: "title"}
	case "description":
		return field{name: "description", column: "description"}
	}
	return field{name: name, key: name, kind: pairField}
}
