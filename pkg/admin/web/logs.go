package web

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/logboom/logboom/pkg/clickhouse"
	"github.com/logboom/logboom/pkg/query"

	"github.com/logboom/logboom/pkg/record"
)

// logsView is the explorer. What is asked of the database comes through
// methods that wait: the template sends what stands before them.
type logsView struct {
	State  logState
	Path   string // of the explorer, without its state
	API    string // of the project's JSON routes
	Tokens []token
	Fault  *logFault

	Label    string // of the range, such as Last 1 hour
	Span     string // the range itself
	Short    string // the range for a narrow screen
	Choices  []timeChoice
	From, To string // of the form for named times
	Links    logLinks
	Chips    []filterChip
	Saved    []savedView
	Columns  []shownColumn

	flush  func()
	rows   *later[rowsView]
	chart  *later[chartView]
	facets *later[facetsView]
	asked  time.Time
}

// logLinks are the addresses of what is next to the state.
type logLinks struct {
	This, Live, Stop, Clear, ClearSel, Zoom, Wider string
	Earlier, Later, Wrap                           string
	NDJSON, CSV, Share, Tail                       string
}

// logFault is why the list could not be asked for.
type logFault struct {
	Text     string
	Position int // in the query, in bytes; -1: it is not the query's
}

// token is a piece of the query with its colour.
type token struct {
	Text, Class string
}

// logsPage shows a project's logs.
func (p *Pages) logsPage(r *request) error {
	now := p.now().UTC()
	state, fault := readLogState(r.QueryParams(), now)
	v := p.newLogsView(r, state, now)
	status := http.StatusOK
	if fault != nil {
		v.Fault, status = fault, http.StatusBadRequest
	}
	v.Tokens = paint(state.Query, v.Fault)
	v.Saved = p.savedOf(r)
	ctx, cancel := r.querying()
	defer cancel()
	var group sync.WaitGroup
	defer group.Wait()
	v.ask(ctx, p, r, &group)
	title := state.Query
	if title == "" {
		title = "Logs"
	}
	return r.stream(status, "logs", view{Title: printable(title) + " · " + r.project.Name, Tab: "logs", Body: v}, &v.flush)
}

// queryFault returns what is wrong with a query, nil for no error.
func queryFault(err error) *logFault {
	var bad *query.Error
	if !errors.As(err, &bad) {
		return nil
	}
	text := bad.Error()
	return &logFault{Text: strings.ToUpper(text[:1]) + text[1:] + ".", Position: bad.Position}
}

func (p *Pages) newLogsView(r *request, s logState, now time.Time) *logsView {
	root := r.projectPath("/logs")
	v := &logsView{
		State: s, Path: root, API: "/api/v1" + r.projectPath(""), Columns: columnsOf(s),
		Span: spanText(timeSpan{s.From, s.To}, now), From: s.From.Format("2006-01-02 15:04:05"), To: s.To.Format("2006-01-02 15:04:05"),
		Label: lengthText(s.To.Sub(s.From)), Short: lengthText(s.To.Sub(s.From)), asked: now,
		Chips: chipsOf(s, root),
	}
	if s.Last != "" {
		v.Label, v.Short = lastText(s.Last), s.Last
	}
	for _, one := range offered {
		v.Choices = append(v.Choices, timeChoice{one.text, s.address(root, recent(one.last)), s.Last == one.last})
	}
	v.Links = linksOf(s, root, v.API, now)
	return v
}

func linksOf(s logState, root, api string, now time.Time) logLinks {
	length := s.To.Sub(s.From)
	l := logLinks{
		This:    s.address(root),
		Live:    s.address(root, func(s *logState) { s.Live, s.Sel = true, timeSpan{} }),
		Stop:    s.address(root, func(s *logState) { s.Live = false }),
		Clear:   s.address(root, asking(query.All(record.KindLog))),
		Earlier: s.address(root, between(s.From.Add(-length), s.From)),
		Wider:   s.address(root, between(s.From.Add(-length/2), earlier(s.To.Add(length/2), now.Truncate(time.Minute).Add(time.Minute)))),
		Wrap:    s.address(root, func(s *logState) { s.Wrap = !s.Wrap }),
		Share:   s.address(root, func(s *logState) { s.Last, s.Live = "", false }),
	}
	l.Tail = s.address(root + "/tail")
	if later := s.To.Add(length); s.To.Before(now) {
		l.Later = s.address(root, between(s.To, later))
	}
	if !s.Sel.IsZero() {
		l.ClearSel = s.address(root, func(s *logState) { s.Sel = timeSpan{} })
		l.Zoom = s.address(root, between(s.Sel.From, s.Sel.To))
	}
	at := s.shown()
	ask := url.Values{"q": {s.Query}, "from": {stampOf(at.From)}, "to": {stampOf(at.To)}, "format": {"ndjson"}}
	l.NDJSON = api + "/logs/export?" + ask.Encode()
	ask.Set("format", "csv")
	l.CSV = api + "/logs/export?" + ask.Encode()
	return l
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// ask has the questions asked: the list and the chart at once, the facets when
// the list is there. A bad query asks nothing, a tail only the facets.
func (v *logsView) ask(ctx context.Context, p *Pages, r *request, group *sync.WaitGroup) {
	s, found := v.State, r.project
	bad := v.Fault != nil && v.Fault.Position >= 0
	v.rows = askLater(group, func() (rowsView, error) {
		if bad || s.Live {
			return rowsView{}, nil
		}
		return p.readRows(ctx, r, s)
	})
	v.chart = askLater(group, func() (chartView, error) {
		if bad || s.Live {
			return chartView{}, nil
		}
		return p.readChart(ctx, r, s)
	})
	v.facets = askLater(group, func() (facetsView, error) {
		_, _ = v.rows.wait() // its error is the list's
		if bad {
			s.Query = "" // links must not repeat it
		}
		return p.readFacets(ctx, found, s, v.Path)
	})
}

// Flush sends what the page has so far.
func (v *logsView) Flush() string {
	v.flush()
	return ""
}

// Rows waits for the list.
func (v *logsView) Rows() rowsView {
	rows, err := v.rows.wait()
	if err != nil {
		rows.Problem = problemText(err)
	}
	return rows
}

// Chart waits for the chart.
func (v *logsView) Chart() chartView {
	chart, err := v.chart.wait()
	if err != nil {
		chart.Problem = problemText(err)
	}
	return chart
}

// Facets waits for the facets.
func (v *logsView) Facets() facetsView {
	facets, err := v.facets.wait()
	if err != nil {
		facets.Problem = problemText(err)
	}
	return facets
}

// Took is how long the answer took so far.
func (v *logsView) Took() string {
	return strconv.FormatInt(time.Since(v.asked).Milliseconds(), 10) + " ms"
}

// problemText is an error as a part of a page tells it.
func problemText(err error) string {
	found := refusalOf(err)
	var invalid *clickhouse.InvalidError
	if errors.As(err, &invalid) {
		return "The link cannot be followed: " + invalid.Error() + "."
	}
	return found.Title + ". " + found.Detail
}

// shownColumn is a key of the metadata with a column of its own.
type shownColumn struct {
	Key, Text string
}

func columnsOf(s logState) []shownColumn {
	var list []shownColumn
	for _, key := range s.Columns {
		list = append(list, shownColumn{key, printable(key)})
	}
	return list
}

// filterChip is a term of the query that a click takes away.
type filterChip struct {
	Text, Path string
}

// chipsOf are the query's terms, for narrow screens.
func chipsOf(s logState, root string) []filterChip {
	var chips []filterChip
	for i, term := range s.Filter.Terms() {
		chips = append(chips, filterChip{printable(term.String()), s.address(root, asking(s.Filter.Without(i)))})
	}
	return chips
}

// paint cuts the query for its coloured copy; from the fault on it is wrong.
func paint(text string, fault *logFault) []token {
	var list []token
	at := 0
	add := func(to int, class string) {
		if to > at {
			list = append(list, token{text[at:to], class})
			at = to
		}
	}
	for _, t := range query.Tokens(record.KindLog, text) {
		add(t.From, "")
		if t.Kind == query.Invalid && fault != nil && fault.Position > t.From && fault.Position <= t.To {
			add(fault.Position, "q-bad-before")
		}
		add(t.To, "q-"+string(t.Kind))
	}
	add(len(text), "")
	return list
}

// editLogs is where clicks on values lead: it edits the query and goes to the
// explorer. The address says what to do: in, out or text.
func (p *Pages) editLogs(r *request) error {
	values := r.QueryParams()
	state, _ := readLogState(values, p.now().UTC())
	field, value := values.Get("field"), values.Get("value")
	if !isQueryText(field) || !isQueryText(value) {
		return errGone
	}
	q := state.Filter
	switch do := values.Get("do"); {
	case do == "in" && field != "":
		q = q.Toggle(field, value)
	case do == "out" && field != "":
		q = q.ToggleExcluded(field, value)
	case do == "text" && value != "":
		q = q.AndText(value)
	}
	return r.goTo(state.address(r.projectPath("/logs"), asking(q)))
}

// isQueryText reports whether a query can hold a text.
func isQueryText(text string) bool {
	return len(text) <= query.MaxBytes && utf8.ValidString(text) && !strings.ContainsRune(text, 0)
}

// edits is the address that edits the query of a state.
func (s logState) editAddress(root, do, field, value string) string {
	s.Cursor, s.Line = "", ""
	v := s.values()
	v.Set("do", do)
	v.Set("field", field)
	v.Set("value", value)
	return root + "/edit?" + v.Encode()
}
