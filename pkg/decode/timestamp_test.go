package decode

import (
	"strings"
	"testing"
	"time"
)

func TestTimesAreParsedExactly(t *testing.T) {
	t.Parallel()
	const second = 1700000000
	for text, want := range map[string]int64{
		"2023-11-14T22:13:20Z":                second * 1e9,
		"2023-11-14t22:13:20z":                second * 1e9,
		"2023-11-14 22:13:20":                 second * 1e9,
		" 2023-11-14T22:13:20Z\n":             second * 1e9,
		"2023-11-15T00:13:20+02:00":           second * 1e9,
		"2023-11-14T16:43:20-0530":            second * 1e9,
		"2023-11-14T22:13:20.1Z":              second*1e9 + 100_000_000,
		"2023-11-14T22:13:20,123456Z":         second*1e9 + 123_456_000,
		"2023-11-14T22:13:20.123456789999Z":   second*1e9 + 123_456_789,
		"2023-11-14T22:13:20.000000001+00:00": second*1e9 + 1,
		"2016-12-31T23:59:60Z":                1483228800e9,
		"1969-12-31T23:59:59.5Z":              -5e8,
		"1700000000":                          second * 1e9,
		"1700000000000":                       second * 1e9,
		"1700000000000000":                    second * 1e9,
		"1700000000000000000":                 second * 1e9,
		"1700000000.123457":                   second*1e9 + 123_457_000,
		"1700000000.1234567899":               second*1e9 + 123_456_789,
		"1700000000123.456789":                second*1e9 + 123_456_789,
		"1700000000123456.789":                second*1e9 + 123_456_789,
		"1700000000123456789.9":               second*1e9 + 123_456_789,
		"1.7e9":                               second * 1e9,
		"1.700000000123457E+9":                second*1e9 + 123_457_000,
		"17e8":                                second * 1e9,
		"1700000000123e-3":                    second*1e9 + 123_000_000,
		"+1700000000":                         second * 1e9,
		"0001700000000":                       second * 1e9,
		"-1.5":                                -1_500_000_000,
		"0.000000001":                         1,
		"0.0000000009":                        0,
		"0.0000000019":                        1,
		"0":                                   0,
		"-0.0":                                0,
		"9000000000":                          9000000000e9,
		"99999999999":                         newestTime,
		"100000000000":                        100000000000e6,
		"9223372036854":                       9223372036854e6,
		"99999999999999":                      newestTime,
		"99999999999999999":                   newestTime,
		"9223372036854775":                    9223372036854775e3,
		"9223372036854775807":                 newestTime,
		"9223372036854775808":                 newestTime,
		"-9223372036854775808":                -newestTime,
		"1e400":                               newestTime,
		"1e99999999999999999999":              newestTime,
		"-1e400":                              -newestTime,
		"1e-400":                              0,
		"0e400":                               0,
		"9999-12-31T23:59:59Z":                newestTime,
		"0000-01-01T00:00:00Z":                oldestTime,
		strings.Repeat("9", 500):              newestTime,
		"0." + strings.Repeat("0", 500) + "1": 0,
	} {
		got, ok := ParseTimestamp(text)
		if !ok || got != want {
			t.Errorf("%.60s: got %d %v, want %d", text, got, ok, want)
		}
	}
}

func TestInvalidTimesAreRefused(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"", " ", "-", "+", ".5", "5.", "1.", "e5", "1e", "1e+", "1ex", "1x", "0x10", "1 2", "1,5", "NaN", "Infinity", "--1", "yesterday",
		"2023-11-14", "2023-11-14T22:13Z", "2023-11-14T22:13:20+2", "2023-11-14T22:13:20+24:00", "2023-11-14T22:13:20 UTC",
		"2023-13-01T00:00:00Z", "2023-00-01T00:00:00Z", "2023-11-31T00:00:00Z", "2023-02-29T00:00:00Z", "1900-02-29T00:00:00Z",
		"2023-11-14T24:00:00Z", "2023-11-14T22:60:20Z", "2023-11-14T22:13:61Z", "2023-11-14T22:13:20.Z", "2023-11-14T22:13:20Zx",
		"2023-1-14T22:13:20Z", "2023-11-14X22:13:20Z", "2023/11/14 22:13:20",
	} {
		if nanos, ok := ParseTimestamp(text); ok {
			t.Errorf("%q: got %d", text, nanos)
		}
	}
}

func TestEveryDayIsParsedExactly(t *testing.T) {
	t.Parallel()
	day := time.Date(1679, 1, 1, 0, 0, 0, 0, time.UTC)
	for day.Year() < 2262 {
		got, ok := ParseTimestamp(day.Format(time.RFC3339))
		if !ok || got != day.UnixNano() {
			t.Fatalf("%v: got %d, %v, want %d", day, got, ok, day.UnixNano())
		}
		day = day.Add(24 * time.Hour)
	}
}

// FuzzTime compares ParseTimestamp with the standard library for every text that the
// library accepts as RFC 3339.
func FuzzTime(f *testing.F) {
	for _, text := range []string{"2023-11-14T22:13:20.123456789Z", "2024-02-29T23:59:59-07:00", "1700000000.5", "1e9", "-0"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, ok := ParseTimestamp(text)
		var want time.Time // its UnmarshalText is strict where time.Parse is not
		if err := want.UnmarshalText([]byte(text)); err != nil || want.Year() < 1679 || want.Year() > 2261 {
			return
		}
		if !ok || got != want.UnixNano() {
			t.Errorf("%q: got %d %v, want %d", text, got, ok, want.UnixNano())
		}
	})
}
