package config

import (
	"fmt"
	"log/slog"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/logboom/logboom/pkg/secret"
)

const mask = "***"

// Secret is a setting that is never printed.
type Secret = secret.Value

// URL is an address that may contain a password, which is never printed. Check
// checks its form: an error while parsing the settings would quote the text.
type URL struct {
	Secret
}

// Check returns an error unless each of the addresses, separated by commas, has a
// host and one of the schemes. The error names the setting and not the address.
func (u URL) Check(setting string, schemes ...string) error {
	for one := range strings.SplitSeq(u.Reveal(), ",") {
		parsed, err := url.Parse(strings.TrimSpace(one))
		if err != nil || parsed.Host == "" {
			return invalid(setting, "must be an address such as %s://host:port", schemes[0])
		}
		if !slices.Contains(schemes, parsed.Scheme) {
			return invalid(setting, "the scheme %q is not one of %s", parsed.Scheme, strings.Join(schemes, ", "))
		}
	}
	return nil
}

// String returns the addresses with masked credentials.
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

// String returns the size in the largest unit that divides it.
func (s Size) String() string {
	for _, unit := range sizeUnits[:4] {
		if s != 0 && s%unit.size == 0 {
			return strconv.FormatInt(int64(s/unit.size), 10) + unit.suffix
		}
	}
	return strconv.FormatInt(int64(s), 10)
}

// UnmarshalText parses a size. Units may have any case, and "10M" means "10MiB".
func (s *Size) UnmarshalText(text []byte) error {
	number, unit := splitUnit(strings.TrimSpace(string(text)))
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil || n < 0 {
		return fmt.Errorf("%q is not a size such as 512, 64KiB or 10MiB", text)
	}
	if n > math.MaxInt64/int64(unit) {
		return fmt.Errorf("%q is too large for a size", text)
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

// MarshalText returns the size as UnmarshalText accepts it.
func (s Size) MarshalText() ([]byte, error) { return []byte(s.String()), nil }
