package decode

import (
	"math"
	"strings"
	"time"
)

const (
	// maxAhead is how far ahead of the time of receipt a sender's clock may be.
	maxAhead = 10 * time.Minute

	oldestTime int64 = math.MinInt64
	newestTime int64 = math.MaxInt64
)

// ParseTimestamp reads a time as senders write it, as Unix nanoseconds: RFC
// 3339, or an epoch in s, ms, us or ns whose unit follows from its size. A time
// outside the years 1678 to 2262 becomes the first or last that nanoseconds can
// say.
func ParseTimestamp(text string) (nanos int64, ok bool) {
	text = strings.TrimSpace(text)
	if len(text) > 4 && text[4] == '-' && isDigit(text[0]) {
		return parseRFC3339(text)
	}
	return parseEpoch(text)
}

// parseRFC3339 is lenient where senders are: a space for the T, small letters,
// a comma before the fraction, an offset without colon or none at all, which
// means UTC. What is finer than a nanosecond is cut off; a leap second is the
// second after.
func parseRFC3339(text string) (nanos int64, ok bool) {
	c := clock{text: text, ok: true}
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
	if !c.ok || c.text != "" || day > daysIn(month, year) {
		return 0, false
	}
	seconds := int64(daysSince1970(year, month, day))*86400 + int64(hour*3600+minute*60+second-offset)
	return toNanos(seconds, int64(fraction)), true
}

// toNanos joins seconds and nanoseconds, within what an int64 can hold.
func toNanos(seconds, nanos int64) int64 {
	switch {
	case seconds > newestTime/1e9-1:
		return newestTime
	case seconds < oldestTime/1e9+1:
		return oldestTime
	}
	return seconds*1e9 + nanos
}

// daysSince1970 counts the days of the Gregorian calendar. Years begin in
// March here, so that the day that may be missing is a year's last.
func daysSince1970(year, month, day int) int {
	if month <= 2 {
		year, month = year-1, month+12
	}
	y := year + 400 // never negative, and a whole number of cycles away
	days := 365*y + y/4 - y/100 + y/400 + (153*(month-3)+2)/5 + day - 1
	return days - 146097 - 719468
}

func daysIn(month, year int) int {
	switch month {
	case 4, 6, 9, 11:
		return 30
	case 2:
		if year%4 == 0 && (year%100 != 0 || year%400 == 0) {
			return 29
		}
		return 28
	}
	return 31
}

// clock reads the parts of a time from the left. Once ok is false it stays so.
type clock struct {
	text string
	ok   bool
}

// number reads exactly so many digits.
func (c *clock) number(digits, least, most int) int {
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

// one reads one byte of those allowed.
func (c *clock) one(allowed string) {
	if !c.next(allowed) {
		c.ok = false
	}
}

func (c *clock) next(allowed string) bool {
	if c.text == "" || strings.IndexByte(allowed, c.text[0]) < 0 {
		return false
	}
	c.text = c.text[1:]
	return true
}

// fraction reads the part of a second that may follow, in nanoseconds.
func (c *clock) fraction() int {
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

// offset reads Z or ±hh:mm, in seconds east of UTC.
func (c *clock) offset() int {
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

// parseEpoch reads a decimal number. Below 1e11 it counts seconds (until the
// year 5138), below 1e14 milliseconds, below 1e17 microseconds, otherwise
// nanoseconds. It goes by decimal digits, so that 1700000000.123457 is exact.
func parseEpoch(text string) (nanos int64, ok bool) {
	d, ok := parseDecimal(text)
	if !ok || d.digits == 0 {
		return 0, ok
	}
	places := d.point // digits of the number once it is in nanoseconds
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
	digits   int // of the mantissa, 19 at most: the others are below a nanosecond
	point    int
}

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

// add takes the next digit, left of the point or right of it.
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

// parseExponent reads what follows a number's digits: nothing, or e and a
// number. A large one is as good as a larger one.
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

// scaled is the number's first digits, as many as places says, as a whole
// number; at most the largest int64.
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
