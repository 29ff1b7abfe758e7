package project

import (
	"fmt"
	"io"
	"log/slog"
)

const mask = "***"

// Secret is a token, key or password that no printing shows: only Reveal gives
// the value. It holds a pointer, because fmt does not call the methods of
// unexported fields and would otherwise print the value of a struct's secret.
type Secret struct {
	value *string
}

// NewSecret wraps a value that must not be printed.
func NewSecret(value string) Secret { return Secret{value: &value} }

// Reveal is the value itself, for the one place that needs it.
func (s Secret) Reveal() string {
	if s.value == nil {
		return ""
	}
	return *s.value
}

// IsSet tells whether there is a value.
func (s Secret) IsSet() bool { return s.Reveal() != "" }

// String is always "***".
func (s Secret) String() string { return mask }

// Format writes "***" for every verb, %#v and %x included.
func (s Secret) Format(f fmt.State, _ rune) {
	_, _ = io.WriteString(f, mask) // fmt's own buffer does not fail
}

// LogValue keeps slog from printing the value.
func (s Secret) LogValue() slog.Value { return slog.StringValue(mask) }

// MarshalText keeps encoders from writing the value.
func (s Secret) MarshalText() ([]byte, error) { return []byte(mask), nil }
