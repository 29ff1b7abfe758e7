package admin

import (
	"encoding"
	"reflect"
	"strings"
	"time"
)

// schema is a JSON Schema, as far as this API needs one. Type is a string, or
// several where null is allowed.
type schema struct {
	Ref                  string            `json:"$ref,omitempty"`
	Type                 any               `json:"type,omitempty"`
	Format               string            `json:"format,omitempty"`
	Description          string            `json:"description,omitempty"`
	Minimum              *int              `json:"minimum,omitempty"`
	Properties           map[string]schema `json:"properties,omitempty"`
	Required             []string          `json:"required,omitempty"`
	Items                *schema           `json:"items,omitempty"`
	AdditionalProperties *schema           `json:"additionalProperties,omitempty"`
}

// schemas are the named ones, each once.
type schemas map[string]schema

// schemaRoot is where a document keeps its named schemas.
const schemaRoot = "#/components/schemas/"

func reference(name string) schema { return schema{Ref: schemaRoot + name} }

// of describes the JSON that encoding/json makes of a type. Structs are named
// by their type.
func (s schemas) of(t reflect.Type) schema {
	if t == reflect.TypeFor[time.Time]() {
		return schema{Type: "string", Format: "date-time"}
	}
	if t.Kind() == reflect.Pointer {
		return orNull(s.of(t.Elem()))
	}
	if t.Implements(reflect.TypeFor[encoding.TextMarshaler]()) {
		return schema{Type: "string"}
	}
	switch t.Kind() {
	case reflect.Slice:
		items := s.of(t.Elem())
		return schema{Type: "array", Items: &items}
	case reflect.Map:
		values := s.of(t.Elem())
		return schema{Type: "object", AdditionalProperties: &values}
	case reflect.Struct:
		return s.named(t)
	}
	return scalar(t)
}

func scalar(t reflect.Type) schema {
	zero := reflect.Zero(t)
	switch {
	case zero.CanUint():
		return schema{Type: "integer", Minimum: new(int)}
	case zero.CanInt():
		return schema{Type: "integer"}
	case t.Kind() == reflect.Bool:
		return schema{Type: "boolean"}
	case t.Kind() == reflect.String:
		return schema{Type: "string"}
	}
	return schema{} // anything
}

// orNull allows null as well.
func orNull(one schema) schema {
	if name, ok := one.Type.(string); ok {
		one.Type = []string{name, "null"}
	}
	return one
}

// named describes a struct once, and refers to it from then on.
func (s schemas) named(t reflect.Type) schema {
	name := strings.ToUpper(t.Name()[:1]) + t.Name()[1:]
	if _, known := s[name]; known {
		return reference(name)
	}
	s[name] = schema{} // a struct that holds itself finds its name here
	notes := fieldNotes()
	described := schema{Type: "object", Properties: map[string]schema{}}
	for _, f := range reflect.VisibleFields(t) {
		key, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous || key == "" || key == "-" {
			continue
		}
		property := s.of(f.Type)
		property.Description = notes[name+"."+key]
		described.Properties[key] = property
		if !strings.Contains(options, "omitempty") {
			described.Required = append(described.Required, key)
		}
	}
	s[name] = described
	return reference(name)
}

// addProblem describes what every refusal answers, RFC 9457.
func (s schemas) addProblem() {
	text, number := schema{Type: "string"}, schema{Type: "integer"}
	s["Problem"] = schema{
		Type: "object",
		Properties: map[string]schema{
			"type": text, "title": text, "status": number, "code": text, "detail": text,
			"field": text, "index": number, "offset": number, "request_id": text,
		},
		Required: []string{"type", "title", "status", "code", "detail", "request_id"},
	}
}

// fieldNotes explains the fields whose names do not say it all.
func fieldNotes() map[string]string {
	return map[string]string{
		"Project.id":              "What stored rows carry; a project made again under its name has another.",
		"Project.changed":         "When the settings last were.",
		"NewToken.token":          "The value, shown in this answer only.",
		"DeadLetter.reason":       "Why it could not be stored, a short code.",
		"DeadLetter.stream":       "Where the message was read.",
		"DeadLetter.seq":          "Its place there; 0: it never was on a stream and cannot be replayed.",
		"DeadLetter.time":         "When the queue had the message.",
		"DeadLetter.bytes":        "Of what the message holds, which is not shown.",
		"DeadLetterPage.next":     "Cursor of the next page; empty: this is the last.",
		"ReplayedLetter.state":    "replayed: its message is on its stream again, and the letter is gone.",
		"ProjectPage.next":        "Cursor of the next page; empty: this is the last.",
		"TokenPage.next":          "Cursor of the next page; empty: this is the last.",
		"UsageAnswer.hours":       "By the time of receipt, oldest first; hours without records are left out.",
		"UsageHour.accepted":      "Records that were answered as accepted and have left the queue: stored, or dropped as dead letters.",
		"UsageHour.stored":        "Logs and events, as counted with their insert.",
		"UsageHour.dropped":       "Records that were not stored, by reason. rate, daily_records and monthly_bytes were refused for that quota and never accepted, at least so many; others became dead letters.",
		"UsageAmount.bytes":       "Of the records' text before compression.",
		"Histogram.seconds":       "How long a bucket is.",
		"Facets.total":            "Logs in all.",
		"KeyFacet.count":          "Logs that have the key.",
		"KeyFacet.many":           "It has too many values to count, so none are listed.",
		"KeyFacet.values":         "The ten most frequent values.",
		"LogContext.before":       "The oldest first; of the same application and host.",
		"Settings.retention_days": "How long what is sent from now on is kept: 1 to 3650.",
	}
}
