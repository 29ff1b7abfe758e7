package decode

import (
	"math"
	"strings"
	"time"
)

const (
	// maxAhead is how far a timestamp may be after the time of receipt.
	maxAhead = 10 * time.Minute

	oldestTime int64 = math.MinInt64
	newestTime int64 = math.MaxInt64
)

// ParseTimestamp parses a time as clients write it and returns Unix nanoseconds.
// It accepts RFC 3339, or an epoch in s, ms, us or ns, whose unit follows from its
// size. A time outside the years 1678 to 2262 becomes the first or last time that
// nanoseconds can express.
func ParseTimestamp(text string) (nanos int64, ok bool) {
	text = strings.TrimSpace(text)
	if len(text) > 4 && text[4] == '-' && isDigit(text[0]) {
		return parseRFC3339(text)
	}
	return parseEpoch(text)
}

// parseRFC3339 also accepts what many clients write: a space instead of the T,
// small letters, a comma before the fraction, an offset without a colon, and no
// offset, which means UTC. Digits beyond nanoseconds are ignored. A leap second
// becomes the second after it.
func parseRFC3339(text string) (nanos int64, ok bool) {
	c := timeParser{text: text, ok: true}
	year := c.number(4, 0, 9999)
	c.one("-")
	month := c.number(2, 1, 12)
	c.one("-")
	day := c.number(2, 1, 31)
	c.one("Tt ")
	hour := c.number(2, 0, 23)
	c.one(":")
	minute := c.number(2, 0, 59)
	c.one(":")
	second := c.number(2, 0, 60)
	fraction := c.fraction()
	offset := c.offset()
	if !c.ok || c.text != "" {
		return 0, false
	}
	date := time.Date(year, time.Month(month), day, 0, 0, 0, 0, time.UTC)
	if date.Day() != day { // a day that the month does not have
		return 0, false
	}
	return toNanos(date.Unix()+int64(hour*3600+minute*60+second-offset), int64(fraction)), true
}

// toNanos adds seconds and nanoseconds, within the range of an int64.
func toNanos(seconds, nanos int64) int64 {
	switch {
	case seconds > newestTime/1e9-1:
		return newestTime
	case seconds < oldestTime/1e9+1:
		return oldestTime
	}
	return seconds*1e9 + nanos
}

// timeParser parses the parts of a time from the left. Once ok is false, it stays
// false.
type timeParser struct {
	text string
	ok   bool
}

// number parses exactly so many digits.
func (c *timeParser) number(digits, least, most int) int {
	if len(c.text) < digits {
		c.ok = false
		return 0
	}
	n := 0
	for i := range digits {
		if !isDigit(c.text[i]) {
			c.ok = false
			return 0
		}
		n = n*10 + int(c.text[i]-'0')
	}
	c.text = c.text[digits:]
	c.ok = c.ok && least <= n && n <= most
	return n
}

// one skips one byte, which must be one of those allowed.
func (c *timeParser) one(allowed string) {
	if !c.next(allowed) {
		c.ok = false
	}
}

// next skips one byte if it is one of those allowed.
func (c *timeParser) next(allowed string) bool {
	if c.text == "" || strings.IndexByte(allowed, c.text[0]) < 0 {
		return false
	}
	c.text = c.text[1:]
	return true
}

// fraction parses the optional fraction of a second, in nanoseconds.
func (c *timeParser) fraction() int {
	if !c.next(".,") {
		return 0
	}
	nanos, unit, digits := 0, 100_000_000, 0
	for ; c.text != "" && isDigit(c.text[0]); digits++ {
		nanos += int(c.text[0]-'0') * unit
		unit /= 10
		c.text = c.text[1:]
	}
	c.ok = c.ok && digits > 0
	return nanos
}

// offset parses Z or ±hh:mm and returns seconds east of UTC.
func (c *timeParser) offset() int {
	if c.text == "" || c.next("Zz") {
		return 0
	}
	sign := 1
	if c.next("-") {
		sign = -1
	} else {
		c.one("+")
	}
	hours := c.number(2, 0, 23)
	c.next(":")
	return sign * (hours*3600 + c.number(2, 0, 59)*60)
}

// parseEpoch parses a decimal number. Below 1e11 it counts seconds (until the year
// 5138), below 1e14 milliseconds, below 1e17 microseconds, and nanoseconds from
// there on. It works with decimal digits, so that 1700000000.123457 is exact.
func parseEpoch(text string) (nanos int64, ok bool) {
	d, ok := parseDecimal(text)
	if !ok || d.digits == 0 {
		return 0, ok
	}
	places := d.point // digits of the number in nanoseconds
	switch {
	case d.point <= 11:
		places += 9
	case d.point <= 14:
		places += 6
	case d.point <= 17:
		places += 3
	}
	n := d.scaled(places)
	if d.negative {
		return -n, true
	}
	return n, true
}

// decimal is the number 0.mantissa × 10^point.
type decimal struct {
	negative bool
	mantissa uint64
	digits   int // of the mantissa, at most 19: more would be below a nanosecond
	point    int
}

// parseDecimal parses a number with an optional fraction and exponent.
func parseDecimal(text string) (d decimal, ok bool) {
	if text != "" && (text[0] == '-' || text[0] == '+') {
		d.negative = text[0] == '-'
		text = text[1:]
	}
	i, whole := 0, 0
	for ; i < len(text) && isDigit(text[i]); i++ {
		d.add(text[i], true)
		whole++
	}
	if whole == 0 {
		return d, false
	}
	if i+1 < len(text) && text[i] == '.' && isDigit(text[i+1]) {
		for i++; i < len(text) && isDigit(text[i]); i++ {
			d.add(text[i], false)
		}
	}
	exponent, ok := parseExponent(text[i:])
	d.point += exponent
	return d, ok
}

// add appends the next digit, left or right of the point.
func (d *decimal) add(c byte, whole bool) {
	if d.digits == 0 && c == '0' { // no digit of the mantissa
		if !whole {
			d.point--
		}
		return
	}
	if whole {
		d.point++
	}
	if d.digits < 19 {
		d.mantissa = d.mantissa*10 + uint64(c-'0')
		d.digits++
	}
}

// parseExponent parses what may follow a number's digits: nothing, or e and a
// number. It bounds large exponents.
func parseExponent(text string) (n int, ok bool) {
	if text == "" {
		return 0, true
	}
	if text[0]|0x20 != 'e' {
		return 0, false
	}
	text = text[1:]
	negative := strings.HasPrefix(text, "-")
	if negative || strings.HasPrefix(text, "+") {
		text = text[1:]
	}
	for i := range len(text) {
		if !isDigit(text[i]) {
			return 0, false
		}
		n = min(n*10+int(text[i]-'0'), 1<<20)
	}
	if negative {
		n = -n
	}
	return n, text != ""
}

// scaled returns the number's first places digits as a whole number, at most the
// largest int64.
func (d *decimal) scaled(places int) int64 {
	switch {
	case places > 19:
		return newestTime
	case places <= 0:
		return 0
	}
	n := d.mantissa
	for ; places > d.digits; places-- {
		n *= 10
	}
	for ; places < d.digits; places++ {
		n /= 10
	}
	return int64(min(n, uint64(newestTime)))
}
