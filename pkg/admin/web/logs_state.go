package web

import (
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/logboom/logboom/pkg/decode"
	"github.com/logboom/logboom/pkg/query"
	"github.com/logboom/logboom/pkg/record"
)

// logState is what the explorer shows, and all of it is in the page's address:
// back undoes, reload shows the same, a link shows it to others.
type logState struct {
	Query   string
	Filter  query.Query // the query; matches everything where the text is not one
	Last    string      // such as 1h; "" where the times were named
	From    time.Time   // included
	To      time.Time   // not
	Sel     timeSpan    // the part of the time that the list is narrowed to; zero: all
	Columns []string    // keys of the metadata, shown before the line
	Wrap    bool
	Live    bool
	Line    string // the id of a log that is open
	Cursor  string // where the list goes on
}

// timeSpan is some time; the zero value is none.
type timeSpan struct{ From, To time.Time }

// IsZero tells whether no time was named.
func (s timeSpan) IsZero() bool { return s.From.IsZero() }

// Bounds of what an address may hold.
const (
	maxColumns  = 8
	maxColumn   = 256
	maxPosition = 256 // bytes of a cursor
	usualLast   = "1h"
)

// readLogState reads an address. What makes no sense in it is left out and told
// of, so that the rest is shown.
func readLogState(values url.Values, now time.Time) (logState, *logFault) {
	s := logState{Query: values.Get("q"), Wrap: values.Get("wrap") == "1", Live: values.Get("live") == "1"}
	var fault *logFault
	blame := func(text string) {
		if fault == nil {
			fault = &logFault{text, -1}
		}
	}
	if len(s.Query) > query.MaxBytes {
		s.Query = ""
		blame("The query is longer than " + strconv.Itoa(query.MaxBytes) + " bytes: shorten it.")
	}
	var err error
	if s.Filter, err = query.Parse(record.KindLog, s.Query); err != nil {
		s.Filter, fault = query.All(record.KindLog), queryFault(err)
	}
	if text := s.readTime(values, now); text != "" {
		blame(text)
	}
	if text := s.readSelection(values.Get("sel")); text != "" {
		blame(text)
	}
	for _, column := range values["col"] {
		if column != "" && len(column) <= maxColumn && len(s.Columns) < maxColumns && !slices.Contains(s.Columns, column) {
			s.Columns = append(s.Columns, column)
		}
	}
	if id, err := record.ParseRowID(values.Get("line")); err == nil {
		s.Line = id.String()
	}
	if s.Cursor = values.Get("cursor"); len(s.Cursor) > maxPosition {
		s.Cursor = ""
		blame("The link to further lines is cut: begin again.")
	}
	return s, fault
}

// readTime reads the range: last=1h, or from and to.
func (s *logState) readTime(values url.Values, now time.Time) (fault string) {
	s.Last = usualLast
	defer func() {
		if s.Last != "" {
			s.From, s.To = lastRange(s.Last, now)
		}
	}()
	if last := values.Get("last"); last != "" {
		if _, ok := parseLast(last); !ok {
			return "The time “last=" + printable(last) + "” is none: write a number and m, h or d, such as 6h."
		}
		s.Last = last
		return ""
	}
	if values.Get("from") == "" && values.Get("to") == "" {
		return ""
	}
	from, okFrom := readInstant(values.Get("from"), now)
	to, okTo := readInstant(values.Get("to"), now)
	switch {
	case !okFrom:
		return "The begin “" + printable(values.Get("from")) + "” is no time: write it as 2026-11-20 14:30."
	case !okTo:
		return "The end “" + printable(values.Get("to")) + "” is no time: write it as 2026-11-20 15:30."
	case !from.Before(to):
		return "The time ends before it begins."
	case to.Sub(from) > longestRange:
		return "The time is longer than 400 days."
	}
	s.Last, s.From, s.To = "", from, to
	return ""
}

// readInstant reads a time of a form or a link: RFC 3339, an epoch number, or
// as people write it, in UTC. Now is "now".
func readInstant(text string, now time.Time) (time.Time, bool) {
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

// readSelection reads two numbers of milliseconds, 1763734800000-1763735100000.
func (s *logState) readSelection(text string) (fault string) {
	if text == "" {
		return ""
	}
	begin, end, _ := strings.Cut(text, "-")
	from, errFrom := strconv.ParseInt(begin, 10, 64)
	to, errTo := strconv.ParseInt(end, 10, 64)
	if errFrom != nil || errTo != nil || from >= to || from < 0 || to > 1<<43 {
		return "The selection in the chart could not be read: draw it again."
	}
	chosen := timeSpan{time.UnixMilli(from).UTC(), time.UnixMilli(to).UTC()}
	if chosen.From.Before(s.To) && chosen.To.After(s.From) {
		s.Sel = chosen
	}
	return ""
}

// shown is the time of the list.
func (s *logState) shown() timeSpan {
	if !s.Sel.IsZero() {
		return s.Sel
	}
	return timeSpan{s.From, s.To}
}

// values writes the state as an address has it.
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
	} else if s.Last != usualLast {
		set("last", s.Last)
	}
	if !s.Sel.IsZero() {
		set("sel", strconv.FormatInt(s.Sel.From.UnixMilli(), 10)+"-"+strconv.FormatInt(s.Sel.To.UnixMilli(), 10))
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

// address is the state's address with changes. What a place in the list means
// ends with each change, unless the change itself sets it.
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

// between has the state show a named time and no part of it.
func between(from, to time.Time) func(*logState) {
	return func(s *logState) { s.Last, s.From, s.To, s.Sel, s.Live = "", from, to, timeSpan{}, false }
}

// recent has the state show the newest time of a length.
func recent(last string) func(*logState) {
	return func(s *logState) { s.Last, s.Sel, s.Live = last, timeSpan{}, false }
}

// asking has the state ask another query.
func asking(q query.Query) func(*logState) {
	return func(s *logState) { s.Query, s.Filter = q.String(), q }
}
