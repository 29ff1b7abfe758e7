package config

import (
	"fmt"
	"log/slog"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

const mask = "***"

// Secret is a setting that is never printed. It holds a pointer, because fmt
// calls no methods of unexported fields and would print a string there.
type Secret struct {
	value *string
}

// NewSecret wraps a value that must not be printed.
func NewSecret(value string) Secret { return Secret{value: &value} }

// Reveal is the secret itself, for the one place that needs it.
func (s Secret) Reveal() string { return reveal(s.value) }

func reveal(value *string) string {
	if value == nil {
		return ""
	}
	return *value
}

// IsSet tells whether there is a value.
func (s Secret) IsSet() bool { return s.Reveal() != "" }

// String is "***", or empty where there is no value.
func (s Secret) String() string {
	if !s.IsSet() {
		return ""
	}
	return mask
}

// GoString keeps %#v from printing the value.
func (s Secret) GoString() string { return s.String() }

// LogValue keeps slog from printing the value.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// MarshalText keeps encoders from printing the value.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText takes any text.
func (s *Secret) UnmarshalText(text []byte) error {
	*s = NewSecret(string(text))
	return nil
}

// URL is an address that may carry a password, which is never printed. It is
// checked by Check and not when it is read, since a parser's error would
// repeat the text.
type URL struct {
	raw *string // a pointer for the same reason as Secret's
}

// NewURL wraps an address.
func NewURL(raw string) URL { return URL{raw: &raw} }

// Reveal is the address with its password.
func (u URL) Reveal() string { return reveal(u.raw) }

// IsSet tells whether there is an address.
func (u URL) IsSet() bool { return u.Reveal() != "" }

// Check refuses an address that is no URL with a host and one of the schemes;
// the error names the setting and never the address.
func (u URL) Check(setting string, schemes ...string) error {
	for one := range strings.SplitSeq(u.Reveal(), ",") {
		parsed, err := url.Parse(strings.TrimSpace(one))
		if err != nil || parsed.Host == "" {
			return fmt.Errorf("--%s (%s): must be an address such as %s://host:port", setting, Variable(setting), schemes[0])
		}
		if !slices.Contains(schemes, parsed.Scheme) {
			return fmt.Errorf("--%s (%s): scheme %q is none of %s", setting, Variable(setting), parsed.Scheme, strings.Join(schemes, ", "))
		}
	}
	return nil
}

// String is the address with credentials masked.
func (u URL) String() string {
	parts := strings.Split(u.Reveal(), ",")
	for i, part := range parts {
		parts[i] = redact(strings.TrimSpace(part))
	}
	return strings.Join(parts, ",")
}

func redact(raw string) string {
	if raw == "" {
		return ""
	}
	parsed, err := url.Parse(raw)
	if err != nil {
		return mask
	}
	if parsed.User != nil {
		parsed.User = url.User(mask)
	}
	if parsed.RawQuery != "" {
		parsed.RawQuery = mask
	}
	return strings.Replace(parsed.String(), url.QueryEscape(mask), mask, 1)
}

// GoString keeps %#v from printing credentials.
func (u URL) GoString() string { return u.String() }

// LogValue keeps slog from printing credentials.
func (u URL) LogValue() slog.Value { return slog.StringValue(u.String()) }

// MarshalText keeps encoders from printing credentials.
func (u URL) MarshalText() ([]byte, error) { return []byte(u.String()), nil }

// UnmarshalText takes any text; Check judges it.
func (u *URL) UnmarshalText(text []byte) error {
	*u = NewURL(string(text))
	return nil
}

// Size is a number of bytes, written as 512, 64KiB, 10MiB or 2GiB.
type Size int64

// Units of Size.
const (
	KiB Size = 1 << 10
	MiB Size = 1 << 20
	GiB Size = 1 << 30
	TiB Size = 1 << 40
)

var sizeUnits = []struct {
	suffix string
	size   Size
}{{"TiB", TiB}, {"GiB", GiB}, {"MiB", MiB}, {"KiB", KiB}, {"B", 1}}

// String is the size in the largest unit that divides it.
func (s Size) String() string {
	for _, unit := range sizeUnits[:4] {
		if s != 0 && s%unit.size == 0 {
			return strconv.FormatInt(int64(s/unit.size), 10) + unit.suffix
		}
	}
	return strconv.FormatInt(int64(s), 10)
}

// UnmarshalText reads a size; the units are case-blind, and "10M" is "10MiB".
func (s *Size) UnmarshalText(text []byte) error {
	number, unit := splitUnit(strings.TrimSpace(string(text)))
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil || n < 0 {
		return fmt.Errorf("%q is no size such as 512, 64KiB or 10MiB", text)
	}
	if n > math.MaxInt64/int64(unit) {
		return fmt.Errorf("%q is larger than a size may be", text)
	}
	*s = Size(n) * unit
	return nil
}

func splitUnit(text string) (number string, unit Size) {
	lower := strings.ToLower(text)
	for _, u := range sizeUnits {
		long := strings.ToLower(u.suffix)
		for _, suffix := range []string{long, strings.TrimSuffix(long, "ib")} {
			if suffix != "" && strings.HasSuffix(lower, suffix) {
				return strings.TrimSpace(lower[:len(lower)-len(suffix)]), u.size
			}
		}
	}
	return lower, 1
}

// MarshalText is the inverse of UnmarshalText.
func (s Size) MarshalText() ([]byte, error) { return []byte(s.String()), nil }
