package web

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/logboom/logboom/pkg/decode"
	"github.com/logboom/logboom/pkg/query"
	"github.com/logboom/logboom/pkg/record"
)

// logState is what the explorer shows. All of it is in the address of the page:
// going back undoes a change, reloading shows the same, and a link shows it to
// others.
type logState struct {
	Query   string      // as it was typed
	Filter  query.Query // the query; matches everything if the text is not a query
	Last    string      // the length of the time range, such as 1h; "" for a range between named times
	From    time.Time   // included
	To      time.Time   // not included
	Sel     timeSpan    // the part of the range that the list shows; zero: all of it
	Columns []string    // keys of the metadata with columns of their own
	Wrap    bool
	Live    bool
	Line    string // the ID of the open row
	Cursor  string // of a page of older rows
}

// timeSpan is a time range: From is included, To is not. The zero value is none.
type timeSpan struct{ From, To time.Time }

// IsZero reports whether there is no range.
func (s timeSpan) IsZero() bool { return s.From.IsZero() }

// Bounds of an address.
const (
	maxColumns  = 8
	maxColumn   = 256 // bytes of a key
	maxCursor   = 256 // bytes
	defaultLast = "1h"
	// longestRange is the longest time that anything is stored.
	longestRange = 400 * 24 * time.Hour
)

// logFault is what is wrong with an address.
type logFault struct {
	Text     string
	Position int // in the query, in bytes; -1: another part of the address is wrong
}

// readLogState reads an address. Wrong parts are left out and the first of them
// is returned as a fault, so that the page can show the rest.
func readLogState(values url.Values, now time.Time) (logState, *logFault) {
	s := logState{Query: values.Get("q"), Wrap: values.Get("wrap") == "1", Live: values.Get("live") == "1"}
	var fault *logFault
	refuse := func(text string) {
		if fault == nil && text != "" {
			fault = &logFault{text, -1}
		}
	}
	if len(s.Query) > query.MaxBytes {
		s.Query = ""
		refuse(fmt.Sprintf("The query is longer than %d bytes. Shorten it.", query.MaxBytes))
	}
	var err error
	if s.Filter, err = query.Parse(record.KindLog, s.Query); err != nil {
		s.Filter, fault = query.All(record.KindLog), queryFault(err)
	}
	refuse(s.readTime(values, now))
	refuse(s.readSelection(values.Get("sel")))
	for _, column := range values["col"] {
		if column != "" && len(column) <= maxColumn && len(s.Columns) < maxColumns && !slices.Contains(s.Columns, column) {
			s.Columns = append(s.Columns, column)
		}
	}
	if id, err := record.ParseRowID(values.Get("line")); err == nil {
		s.Line = id.String()
	}
	if s.Cursor = values.Get("cursor"); len(s.Cursor) > maxCursor {
		s.Cursor = ""
		refuse("The link to older lines is damaged. Open the first page again.")
	}
	return s, fault
}

// readTime reads the time range: last=1h, or from and to.
func (s *logState) readTime(values url.Values, now time.Time) (fault string) {
	s.Last = defaultLast
	defer func() {
		if s.Last != "" {
			s.From, s.To = lastRange(s.Last, now)
		}
	}()
	if last := values.Get("last"); last != "" {
		if _, ok := parseLast(last); !ok {
			return "“last=" + printable(last) + "” is not a valid time range. Write a number and m, h or d, such as 6h."
		}
		s.Last = last
		return ""
	}
	if values.Get("from") == "" && values.Get("to") == "" {
		return ""
	}
	from, okFrom := parseTime(values.Get("from"), now)
	to, okTo := parseTime(values.Get("to"), now)
	switch {
	case !okFrom:
		return "The start “" + printable(values.Get("from")) + "” is not a valid time. Write it as 2026-11-20 14:30."
	case !okTo:
		return "The end “" + printable(values.Get("to")) + "” is not a valid time. Write it as 2026-11-20 15:30."
	case !from.Before(to):
		return "The time range ends before it starts."
	case to.Sub(from) > longestRange:
		return "The time range is longer than 400 days."
	}
	s.Last, s.From, s.To = "", from, to
	return ""
}

// parseTime parses a time in UTC from a form or a link: now, RFC 3339, an epoch
// number, or as people write it.
func parseTime(text string, now time.Time) (time.Time, bool) {
	text = strings.TrimSpace(text)
	if text == "now" {
		return now.UTC(), true
	}
	for _, form := range []string{"2006-01-02 15:04", "2006-01-02 15:04:05", "2006-01-02T15:04", "2006-01-02T15:04:05", time.DateOnly} {
		if t, err := time.ParseInLocation(form, text, time.UTC); err == nil {
			return t, true
		}
	}
	nanoseconds, ok := decode.ParseTimestamp(text)
	return time.Unix(0, nanoseconds).UTC(), ok
}

// readSelection reads two times in milliseconds: 1763734800000-1763735100000.
func (s *logState) readSelection(text string) (fault string) {
	if text == "" {
		return ""
	}
	begin, end, _ := strings.Cut(text, "-")
	from, errFrom := strconv.ParseInt(begin, 10, 64)
	to, errTo := strconv.ParseInt(end, 10, 64)
	if errFrom != nil || errTo != nil || from >= to || from < 0 || to > 1<<43 {
		return "The selection in the chart is not valid. Select the time again."
	}
	selected := timeSpan{time.UnixMilli(from).UTC(), time.UnixMilli(to).UTC()}
	if selected.From.Before(s.To) && selected.To.After(s.From) {
		s.Sel = selected
	}
	return ""
}

// shown returns the time range of the list.
func (s *logState) shown() timeSpan {
	if !s.Sel.IsZero() {
		return s.Sel
	}
	return timeSpan{s.From, s.To}
}

// values returns the state as it is in an address.
func (s *logState) values() url.Values {
	v := url.Values{}
	set := func(key, value string) {
		if value != "" {
			v.Set(key, value)
		}
	}
	set("q", s.Query)
	if s.Last == "" {
		set("from", stampOf(s.From))
		set("to", stampOf(s.To))
	} else if s.Last != defaultLast {
		set("last", s.Last)
	}
	if !s.Sel.IsZero() {
		set("sel", fmt.Sprintf("%d-%d", s.Sel.From.UnixMilli(), s.Sel.To.UnixMilli()))
	}
	for _, column := range s.Columns {
		v.Add("col", column)
	}
	if s.Wrap {
		set("wrap", "1")
	}
	if s.Live {
		set("live", "1")
	}
	set("line", s.Line)
	set("cursor", s.Cursor)
	return v
}

func stampOf(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

// address returns the state's address after changes. The open row and the cursor
// belong to one list, so they are left out unless a change sets them.
func (s logState) address(root string, changes ...func(*logState)) string {
	s.Cursor, s.Line = "", ""
	for _, change := range changes {
		change(&s)
	}
	if encoded := s.values().Encode(); encoded != "" {
		return root + "?" + encoded
	}
	return root
}

// withTimes sets a time range between named times.
func withTimes(from, to time.Time) func(*logState) {
	return func(s *logState) { s.Last, s.From, s.To, s.Sel, s.Live = "", from, to, timeSpan{}, false }
}

// withLast sets the length of a time range that ends now.
func withLast(last string) func(*logState) {
	return func(s *logState) { s.Last, s.Sel, s.Live = last, timeSpan{}, false }
}

// withQuery sets the query.
func withQuery(q query.Query) func(*logState) {
	return func(s *logState) { s.Query, s.Filter = q.String(), q }
}

// editAddress returns the address that adds a value to the query (act "in"),
// excludes it ("out") or searches for a text ("text").
func (s logState) editAddress(root, act, field, value string) string {
	s.Cursor, s.Line = "", ""
	v := s.values()
	v.Set("do", act)
	v.Set("field", field)
	v.Set("value", value)
	return root + "/edit?" + v.Encode()
}

// parseLast parses the length of a time range, such as 15m, 6h or 30d.
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

// lastRange returns the range of a length that ends now. It consists of whole
// bars of the chart, so that the current bar is in it.
func lastRange(last string, now time.Time) (from, to time.Time) {
	length, _ := parseLast(last) // readTime has checked it
	width := barWidth(length)
	to = now.UTC().Truncate(width).Add(width)
	return to.Add(-length), to
}

// maxBars bounds the bars of the chart.
const maxBars = 60

// barWidth returns the smallest common length of time that splits a range into
// at most maxBars.
func barWidth(length time.Duration) time.Duration {
	widths := []time.Duration{
		time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second, 15 * time.Second, 30 * time.Second,
		time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute, 15 * time.Minute, 30 * time.Minute,
		time.Hour, 2 * time.Hour, 3 * time.Hour, 6 * time.Hour, 12 * time.Hour, 24 * time.Hour, 2 * 24 * time.Hour, 7 * 24 * time.Hour,
	}
	for _, width := range widths {
		if length <= width*maxBars {
			return width
		}
	}
	return widths[len(widths)-1]
}

// timeChoice is an entry of the menu of time ranges.
type timeChoice struct {
	Text, Path string
	Chosen     bool
}

// offeredRanges returns the lengths in the menu of time ranges.
func offeredRanges() []struct{ last, text string } {
	return []struct{ last, text string }{
		{"5m", "Last 5 minutes"}, {"15m", "Last 15 minutes"}, {"1h", "Last 1 hour"}, {"6h", "Last 6 hours"},
		{"24h", "Last 24 hours"}, {"7d", "Last 7 days"}, {"30d", "Last 30 days"},
	}
}

// lastText returns the length of a time range in words.
func lastText(last string) string {
	for _, one := range offeredRanges() {
		if one.last == last {
			return one.text
		}
	}
	return "Last " + last
}

// spanText returns a time range as people read it. It leaves out a day that is
// today or the same at both ends, and seconds that are zero.
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
	return a.UTC().Truncate(24 * time.Hour).Equal(b.UTC().Truncate(24 * time.Hour))
}

// lengthText returns a length of time in common units, such as 8 min.
func lengthText(d time.Duration) string {
	d = d.Round(time.Second)
	hours, minutes, seconds := d/time.Hour, d/time.Minute%60, d/time.Second%60
	switch {
	case d >= 48*time.Hour:
		days := strconv.FormatFloat(d.Hours()/24, 'f', -1, 64)
		return days[:min(4, len(days))] + " days"
	case hours > 0 && d%time.Hour == 0:
		return fmt.Sprintf("%d h", hours)
	case hours > 0:
		return fmt.Sprintf("%d h %d min", hours, minutes)
	case minutes > 0 && seconds == 0:
		return fmt.Sprintf("%d min", minutes)
	case minutes > 0:
		return fmt.Sprintf("%d min %d s", minutes, seconds)
	}
	return fmt.Sprintf("%d s", seconds)
}

// widthText returns the length of time that a bar stands for, such as per minute.
func widthText(width time.Duration) string {
	for _, unit := range []struct {
		length time.Duration
		name   string
	}{{24 * time.Hour, "day"}, {time.Hour, "hour"}, {time.Minute, "minute"}, {time.Second, "second"}} {
		if width == unit.length {
			return "per " + unit.name
		}
		if width > unit.length && width%unit.length == 0 {
			return fmt.Sprintf("per %d %ss", width/unit.length, unit.name)
		}
	}
	return "per " + lengthText(width)
}
