package web

import (
	"strconv"
	"time"
)

// longestRange is as far back as anything is kept.
const longestRange = 400 * 24 * time.Hour

// mostBars is how many bars the chart has at most.
const mostBars = 60

// barWidths are the widths that people can name.
var barWidths = []time.Duration{
	time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second, 15 * time.Second, 30 * time.Second,
	time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute, 15 * time.Minute, 30 * time.Minute,
	time.Hour, 2 * time.Hour, 3 * time.Hour, 6 * time.Hour, 12 * time.Hour, 24 * time.Hour, 2 * 24 * time.Hour, 7 * 24 * time.Hour,
}

// barWidth is the narrowest width at which a range has no more than mostBars.
func barWidth(length time.Duration) time.Duration {
	for _, width := range barWidths {
		if length <= width*mostBars {
			return width
		}
	}
	return barWidths[len(barWidths)-1]
}

// parseLast reads a length such as 15m, 6h or 30d.
func parseLast(text string) (time.Duration, bool) {
	if len(text) < 2 {
		return 0, false
	}
	units := map[byte]time.Duration{'m': time.Minute, 'h': time.Hour, 'd': 24 * time.Hour}
	unit, ok := units[text[len(text)-1]]
	n, err := strconv.ParseUint(text[:len(text)-1], 10, 31)
	if !ok || err != nil || n == 0 || time.Duration(n) > longestRange/unit {
		return 0, false
	}
	return time.Duration(n) * unit, true
}

// lastRange is the newest time of a length, in whole bars, so that the bar of
// now is in it.
func lastRange(last string, now time.Time) (from, to time.Time) {
	length, _ := parseLast(last) // it was read before
	width := barWidth(length)
	to = now.UTC().Truncate(width).Add(width)
	return to.Add(-length), to
}

// timeChoice is one of the ranges that are offered.
type timeChoice struct {
	Text, Path string
	Chosen     bool
}

// offered are the lengths that the menu of ranges offers.
var offered = []struct{ last, text string }{
	{"5m", "Last 5 minutes"}, {"15m", "Last 15 minutes"}, {"1h", "Last 1 hour"}, {"6h", "Last 6 hours"},
	{"24h", "Last 24 hours"}, {"7d", "Last 7 days"}, {"30d", "Last 30 days"},
}

// lastText is a length in words.
func lastText(last string) string {
	for _, one := range offered {
		if one.last == last {
			return one.text
		}
	}
	return "Last " + last
}

// spanText is some time as it is read: the day is left out where it is the same
// at both ends and today, seconds where there are none.
func spanText(s timeSpan, now time.Time) string {
	clock := "15:04"
	if s.From.Second() != 0 || s.To.Second() != 0 {
		clock = "15:04:05"
	}
	day := "2 Jan "
	if s.From.Year() != now.Year() {
		day = "2 Jan 2006 "
	}
	if sameDay(s.From, s.To.Add(-1)) {
		if sameDay(s.From, now) {
			day = ""
		}
		return s.From.Format(day+clock) + " – " + s.To.Format(clock)
	}
	return s.From.Format(day+clock) + " – " + s.To.Format(day+clock)
}

func sameDay(a, b time.Time) bool {
	return a.UTC().Truncate(24*time.Hour) == b.UTC().Truncate(24*time.Hour)
}

// lengthText is a length in the units that people use, such as 8 min.
func lengthText(d time.Duration) string {
	d = d.Round(time.Second)
	switch {
	case d >= 48*time.Hour:
		return strconv.FormatFloat(d.Hours()/24, 'f', -1, 64)[:min(4, len(strconv.FormatFloat(d.Hours()/24, 'f', -1, 64)))] + " days"
	case d >= time.Hour && d%time.Hour == 0:
		return strconv.Itoa(int(d/time.Hour)) + " h"
	case d >= time.Hour:
		return strconv.Itoa(int(d/time.Hour)) + " h " + strconv.Itoa(int(d/time.Minute)%60) + " min"
	case d >= time.Minute && d%time.Minute == 0:
		return strconv.Itoa(int(d/time.Minute)) + " min"
	case d >= time.Minute:
		return strconv.Itoa(int(d/time.Minute)) + " min " + strconv.Itoa(int(d/time.Second)%60) + " s"
	}
	return strconv.Itoa(int(d/time.Second)) + " s"
}

// widthText says what a bar is.
func widthText(width time.Duration) string {
	for _, unit := range []struct {
		length time.Duration
		name   string
	}{{24 * time.Hour, "day"}, {time.Hour, "hour"}, {time.Minute, "minute"}, {time.Second, "second"}} {
		if width == unit.length {
			return "per " + unit.name
		}
		if width > unit.length && width%unit.length == 0 {
			return "per " + strconv.Itoa(int(width/unit.length)) + " " + unit.name + "s"
		}
	}
	return "per " + lengthText(width)
}
