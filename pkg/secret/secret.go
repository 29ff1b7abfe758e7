// Package secret holds what must not be shown: passwords, keys and tokens. It
// generates them, recognises their form and computes the digests that are
// stored in their place.
//
// Every package that handles a secret passes it on as a Value, so that a log
// line, an error or a JSON document that includes it by mistake shows "***".
package secret

import "log/slog"

const mask = "***"

// Value is a secret that prints as "***". Only Reveal returns it. It holds a
// pointer because fmt does not call the methods of unexported fields and would
// otherwise print the value inside a struct.
type Value struct {
	text *string
}

// New wraps a text that must not be printed.
func New(text string) Value { return Value{text: &text} }

// Reveal returns the secret itself. Call it only where the secret is used.
func (v Value) Reveal() string {
	if v.text == nil {
		return ""
	}
	return *v.text
}

// IsSet reports whether the secret is not empty.
func (v Value) IsSet() bool { return v.Reveal() != "" }

// String returns "***", or "" if the secret is empty.
func (v Value) String() string {
	if !v.IsSet() {
		return ""
	}
	return mask
}

// GoString keeps %#v from printing the secret.
func (v Value) GoString() string { return v.String() }

// LogValue keeps slog from printing the secret.
func (v Value) LogValue() slog.Value { return slog.StringValue(v.String()) }

// MarshalText keeps encoders from writing the secret.
func (v Value) MarshalText() ([]byte, error) { return []byte(v.String()), nil }

// UnmarshalText accepts any text. The settings of a process are read with it.
func (v *Value) UnmarshalText(text []byte) error {
	*v = New(string(text))
	return nil
}
