package query

import (
	"slices"
	"strings"

	"github.com/logboom/logboom/pkg/record"
)

// fragment is SQL of this package: only untyped constants become one, never a
// text that came from outside.
type fragment string

// field is what a term tests: a column, or one key of the metadata or tags.
type field struct {
	name   string   // the canonical name: application, metadata.user
	typed  string   // the name as the query's text has it: app, user
	column fragment // "" for a key
	key    string
	kind   fieldKind
}

type fieldKind uint8

const (
	textField fieldKind = iota
	severityField
	idField
	keyField
)

// Field is a column that a query can name.
type Field struct {
	Name string // as queries usually write it
	Note string // what it holds
}

// Fields returns the columns of a kind, for completion. Queries can also name
// every key of the metadata or tags.
func Fields(kind record.Kind) []Field {
	var list []Field
	for _, c := range columns(kind) {
		list = append(list, Field{c.typed, c.note})
	}
	return list
}

// column is a field that is not a key.
type column struct {
	name        fragment
	typed       string
	alias, note string
	kind        fieldKind
}

func columns(kind record.Kind) []column {
	if kind == record.KindEvent {
		return []column{
			{"channel", "channel", "", "where the event was sent", textField},
			{"title", "title", "", "what happened", textField},
			{"description", "description", "", "the event's longer text", textField},
			{"id", "id", "", "the event's id", idField},
		}
	}
	return []column{
		{"application", "app", "app", "the program that wrote the line; also application", textField},
		{"severity", "severity", "level", "the severity as it was sent; also level, and >= with a severity", severityField},
		{"host", "host", "", "the machine that wrote the line", textField},
		{"source", "source", "", "where the line was read", textField},
		{"id", "id", "", "the line's id", idField},
	}
}

// keysColumn returns the column that holds a kind's keys and values. It is also
// the prefix of their names.
func keysColumn(kind record.Kind) fragment {
	if kind == record.KindEvent {
		return "tags"
	}
	return "metadata"
}

// textColumns returns the columns that words are searched in.
func textColumns(kind record.Kind) []fragment {
	if kind == record.KindEvent {
		return []fragment{"title", "description"}
	}
	return []fragment{"data"}
}

// typedField returns the field that a name in a query means. Names of
// columns may be in any case; every other name is a key.
func typedField(kind record.Kind, typed string) field {
	lower := strings.ToLower(typed)
	for _, c := range columns(kind) {
		if lower == string(c.name) || lower == c.alias {
			return field{name: string(c.name), typed: typed, column: c.name, kind: c.kind}
		}
	}
	key, prefix := typed, string(keysColumn(kind))+"."
	if len(typed) > len(prefix) && strings.EqualFold(typed[:len(prefix)], prefix) {
		if key = typed[len(prefix):]; key[0] == '"' {
			key, _ = unquote(key)
		}
	}
	return field{name: prefix + key, typed: typed, key: key, kind: keyField}
}

// namedField returns the field of a canonical name, typed as people write it.
func namedField(kind record.Kind, name string) field {
	for _, c := range columns(kind) {
		if name == string(c.name) {
			return field{name: name, typed: c.typed, column: c.name, kind: c.kind}
		}
	}
	prefix := string(keysColumn(kind)) + "."
	key := strings.TrimPrefix(name, prefix)
	f := field{name: prefix + key, key: key, kind: keyField}
	forms := []string{key, f.name}
	if i := slices.IndexFunc(forms, func(form string) bool {
		return nameLength(kind, form+":") == len(form) && typedField(kind, form).name == f.name
	}); i >= 0 {
		f.typed = forms[i]
	} else {
		f.typed = prefix + quote(key)
	}
	return f
}

// PrintField prints a field's canonical name as people write it in a query:
// app, user, metadata."odd key".
func PrintField(kind record.Kind, name string) string { return namedField(kind, name).typed }
