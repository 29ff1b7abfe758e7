package web

import (
	"reflect"
	"strconv"
	"strings"
	"time"
)

// formatNumber writes a whole number with a comma before each third digit.
func formatNumber(n uint64) string {
	digits := strconv.FormatUint(n, 10)
	var b strings.Builder
	for i, d := range digits {
		if left := len(digits) - i; i > 0 && left%3 == 0 {
			b.WriteByte(',')
		}
		b.WriteRune(d)
	}
	return b.String()
}

// formatCount writes a number in short: 9,999, then 12.3 k, 4.5 M, 6.7 G.
func formatCount(n uint64) string {
	if n < 10_000 {
		return formatNumber(n)
	}
	return scaled(float64(n), 1000, []string{"", " k", " M", " G", " T", " P", " E"})
}

// formatBytes writes a size in short: 640 B, 1.2 kB, 3.4 GB; 1 kB is 1000 B.
func formatBytes(n uint64) string {
	return scaled(float64(n), 1000, []string{" B", " kB", " MB", " GB", " TB", " PB", " EB"})
}

func scaled(value, step float64, units []string) string {
	unit := 0
	for value >= step*0.9995 && unit < len(units)-1 {
		value /= step
		unit++
	}
	decimals := 0
	if unit > 0 && value < 99.95 {
		decimals = 1
	}
	text := strconv.FormatFloat(value, 'f', decimals, 64)
	return strings.TrimSuffix(text, ".0") + units[unit]
}

// plural returns the number with its noun: 1 token, 2 tokens.
func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return formatNumber(uint64(max(0, n))) + " " + noun + "s"
}

// since says how long ago something happened, in one unit.
func since(t, now time.Time) string {
	if t.IsZero() {
		return "never"
	}
	passed := now.Sub(t)
	switch {
	case passed < 2*time.Minute:
		return "just now"
	case passed < 2*time.Hour:
		return plural(int(passed/time.Minute), "minute") + " ago"
	case passed < 48*time.Hour:
		return plural(int(passed/time.Hour), "hour") + " ago"
	}
	return plural(int(passed/(24*time.Hour)), "day") + " ago"
}

// lengthOf returns a duration in one or two units.
func lengthOf(d time.Duration) string {
	hours, minutes := int(d/time.Hour), int(d/time.Minute)%60
	switch {
	case hours >= 48:
		return strconv.Itoa(hours/24) + " days"
	case hours >= 1:
		return strconv.Itoa(hours) + " h " + strconv.Itoa(minutes) + " min"
	}
	return strconv.Itoa(max(1, minutes)) + " min"
}

// number is formatNumber for templates, for every kind of whole number.
func number(n any) string {
	v := reflect.ValueOf(n)
	if v.CanInt() {
		return formatNumber(uint64(max(0, v.Int())))
	}
	return formatNumber(v.Uint())
}
