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

	"github.com/logboom/logboom/pkg/admin"
	"github.com/logboom/logboom/pkg/clickhouse"
	"github.com/logboom/logboom/pkg/query"
	"github.com/logboom/logboom/pkg/record"
)

// logsView is the explorer. The methods that return what was read from the
// database wait for it: the template sends the parts before them first.
type logsView struct {
	State  logState
	Path   string // of the explorer, without its state
	API    string // of the project's JSON routes
	Tokens []queryToken
	Fault  *logFault

	Label    string // of the time range, such as Last 1 hour
	Span     string // the time range itself
	Short    string // the time range on a narrow screen
	Choices  []timeChoice
	From, To string // of the form for named times
	Links    logLinks
	Chips    []filterChip
	Saved    []savedView
	Columns  []shownColumn

	flush  func()
	rows   *future[rowsView]
	chart  *future[chartView]
	facets *future[facetsView]
	began  time.Time
}

// logLinks are the addresses of states that are one click away.
type logLinks struct {
	This, Live, Stop, Clear, ClearSel, Zoom, Wider string
	Earlier, Later, Wrap                           string
	NDJSON, CSV, Share, Tail                       string
}

// queryToken is a piece of the query's coloured copy.
type queryToken struct {
	Text, Class string
}

// shownColumn is a key of the metadata with a column of its own.
type shownColumn struct {
	Key, Text string
}

// filterChip is a link with a term of a query: to the query without the term,
// or to the lines that have it.
type filterChip struct {
	Text, Path string
}

// logsPage shows a project's logs.
func (p *Pages) logsPage(r *request) error {
	now := p.now().UTC()
	state, fault := readLogState(r.QueryParams(), now)
	v := p.newLogsView(r, state, fault, now)
	status := http.StatusOK
	if fault != nil {
		status = http.StatusBadRequest
	}
	ctx, cancel := r.querying()
	defer cancel()
	var group sync.WaitGroup
	defer group.Wait()
	v.read(ctx, p, r, &group)
	title := state.Query
	if title == "" {
		title = "Logs"
	}
	return r.stream(status, "logs", view{Title: printable(title) + " · " + r.project.Name, Tab: "logs", Body: v}, &v.flush)
}

// queryFault returns what is wrong with a query, nil if err is no query.Error.
func queryFault(err error) *logFault {
	var bad *query.Error
	if !errors.As(err, &bad) {
		return nil
	}
	return &logFault{sentence(bad.Error()), bad.Position}
}

// newLogsView returns the view without what is read from the database.
func (p *Pages) newLogsView(r *request, s logState, fault *logFault, now time.Time) *logsView {
	root := r.projectPath("/logs")
	v := &logsView{
		State: s, Path: root, API: "/api/v1" + r.projectPath(""), Fault: fault, Tokens: colourQuery(s.Query, fault), Saved: p.savedViews(r),
		Span: spanText(timeSpan{s.From, s.To}, now), From: s.From.Format("2006-01-02 15:04:05"), To: s.To.Format("2006-01-02 15:04:05"),
		Label: lengthText(s.To.Sub(s.From)), Short: lengthText(s.To.Sub(s.From)), began: now,
	}
	if s.Last != "" {
		v.Label, v.Short = lastText(s.Last), s.Last
	}
	for _, one := range offeredRanges() {
		v.Choices = append(v.Choices, timeChoice{one.text, s.address(root, withLast(one.last)), s.Last == one.last})
	}
	for i, term := range s.Filter.Terms() {
		v.Chips = append(v.Chips, filterChip{printable(term.String()), s.address(root, withQuery(s.Filter.Without(i)))})
	}
	for _, key := range s.Columns {
		v.Columns = append(v.Columns, shownColumn{key, printable(key)})
	}
	v.Links = linksOf(s, root, v.API, now)
	return v
}

func linksOf(s logState, root, api string, now time.Time) logLinks {
	length := s.To.Sub(s.From)
	widerTo := s.To.Add(length / 2)
	if next := now.Truncate(time.Minute).Add(time.Minute); next.Before(widerTo) {
		widerTo = next
	}
	l := logLinks{
		This:    s.address(root),
		Live:    s.address(root, func(s *logState) { s.Live, s.Sel = true, timeSpan{} }),
		Stop:    s.address(root, func(s *logState) { s.Live = false }),
		Clear:   s.address(root, withQuery(query.All(record.KindLog))),
		Earlier: s.address(root, withTimes(s.From.Add(-length), s.From)),
		Wider:   s.address(root, withTimes(s.From.Add(-length/2), widerTo)),
		Wrap:    s.address(root, func(s *logState) { s.Wrap = !s.Wrap }),
		Share:   s.address(root, func(s *logState) { s.Last, s.Live = "", false }),
		Tail:    s.address(root + "/tail"),
	}
	if s.To.Before(now) {
		l.Later = s.address(root, withTimes(s.To, s.To.Add(length)))
	}
	if !s.Sel.IsZero() {
		l.ClearSel = s.address(root, func(s *logState) { s.Sel = timeSpan{} })
		l.Zoom = s.address(root, withTimes(s.Sel.From, s.Sel.To))
	}
	at := s.shown()
	export := url.Values{"q": {s.Query}, "from": {stampOf(at.From)}, "to": {stampOf(at.To)}, "format": {"ndjson"}}
	l.NDJSON = api + "/logs/export?" + export.Encode()
	export.Set("format", "csv")
	l.CSV = api + "/logs/export?" + export.Encode()
	return l
}

// future is a value that is read while the page before it is sent already.
type future[T any] struct {
	done  chan struct{} // closed when value and err are set
	value T
	err   error
}

// start reads a value in the background; the group waits for it.
func start[T any](group *sync.WaitGroup, read func() (T, error)) *future[T] {
	f := &future[T]{done: make(chan struct{})}
	group.Go(func() {
		defer close(f.done)
		f.value, f.err = read()
	})
	return f
}

func (f *future[T]) wait() (T, error) {
	<-f.done
	return f.value, f.err
}

// read starts the reads of the page: the list and the chart together, the facets
// after the list. With a query that is not valid, or a live tail, it reads only
// the facets.
func (v *logsView) read(ctx context.Context, p *Pages, r *request, group *sync.WaitGroup) {
	s := v.State
	invalid := v.Fault != nil && v.Fault.Position >= 0
	v.rows = start(group, func() (rowsView, error) {
		if invalid || s.Live {
			return rowsView{}, nil
		}
		return p.readRows(ctx, r, s)
	})
	v.chart = start(group, func() (chartView, error) {
		if invalid || s.Live {
			return chartView{}, nil
		}
		return p.readChart(ctx, r, s)
	})
	v.facets = start(group, func() (facetsView, error) {
		_, _ = v.rows.wait() // the list shows its error
		s := s
		if invalid {
			s.Query = "" // links must not repeat it
		}
		return p.readFacets(ctx, r.project, s, v.Path)
	})
}

// Flush sends what the page contains so far.
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

// Elapsed returns how long the page has been read.
func (v *logsView) Elapsed() string {
	return strconv.FormatInt(time.Since(v.began).Milliseconds(), 10) + " ms"
}

// problemText returns an error as a part of a page shows it.
func problemText(err error) string {
	var invalid *clickhouse.InvalidError
	if errors.As(err, &invalid) {
		return "This link is not valid. " + sentence(invalid.Error())
	}
	found := refusalOf(err)
	return found.Title + ". " + found.Detail
}

// colourQuery splits a query into the pieces of its coloured copy. From the
// fault on, they are marked as wrong.
func colourQuery(text string, fault *logFault) []queryToken {
	var list []queryToken
	at := 0
	add := func(to int, class string) {
		if to > at {
			list = append(list, queryToken{text[at:to], class})
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

// editLogs edits the query and leads back to the explorer. Links on values lead
// here; editAddress makes them.
func (p *Pages) editLogs(r *request) error {
	values := r.QueryParams()
	state, _ := readLogState(values, p.now().UTC())
	field, value := values.Get("field"), values.Get("value")
	if !isQueryText(field) || !isQueryText(value) {
		return errGone
	}
	q := state.Filter
	switch act := values.Get("do"); {
	case act == "in" && field != "":
		q = q.Toggle(field, value)
	case act == "out" && field != "":
		q = q.ToggleExcluded(field, value)
	case act == "text" && value != "":
		q = q.AndText(value)
	}
	return r.goTo(state.address(r.projectPath("/logs"), withQuery(q)))
}

// isQueryText reports whether a query can contain a text.
func isQueryText(text string) bool {
	return len(text) <= query.MaxBytes && utf8.ValidString(text) && !strings.ContainsRune(text, 0)
}

// savedView is a saved view as the menu shows it.
type savedView struct {
	ID, Name, Path, Query string
}

const maxViewName = 60 // characters

// savedViews returns the person's views of the project. If they cannot be read,
// the page is shown without them.
func (p *Pages) savedViews(r *request) []savedView {
	list, err := p.service.Views(r.Request().Context(), r.caller, r.project)
	if err != nil {
		p.logger.Warn("saved views not shown", "project", r.project.Name, "err", err)
		return nil
	}
	shown := make([]savedView, len(list))
	for i, v := range list {
		state, err := url.ParseQuery(v.State)
		if err != nil {
			state = url.Values{} // another version wrote it
		}
		shown[i] = savedView{v.ID, v.Name, r.projectPath("/logs") + "?" + state.Encode(), state.Get("q")}
	}
	return shown
}

// saveView saves the state in the form under a name.
func (p *Pages) saveView(r *request) error {
	state, fault := readLogState(r.form, p.now().UTC())
	state.Live, state.Line, state.Cursor = false, "", ""
	name := strings.TrimSpace(r.form.Get("name"))
	if name == "" {
		name = state.Query
	}
	if fault != nil && fault.Position >= 0 || name == "" || !utf8.ValidString(name) {
		return r.goTo(state.address(r.projectPath("/logs")))
	}
	if characters := []rune(printable(name)); len(characters) > maxViewName {
		name = string(characters[:maxViewName])
	}
	err := p.service.SaveView(r.Request().Context(), r.caller, r.project, admin.View{Name: printable(name), State: state.values().Encode(), Saved: p.now().UTC()})
	if err != nil {
		return err
	}
	return r.goTo(state.address(r.projectPath("/logs")))
}

// deleteView deletes one of the person's views.
func (p *Pages) deleteView(r *request) error {
	state, _ := readLogState(r.form, p.now().UTC())
	if err := p.service.DeleteView(r.Request().Context(), r.caller, r.project, r.form.Get("id")); err != nil {
		return err
	}
	return r.goTo(state.address(r.projectPath("/logs")))
}
