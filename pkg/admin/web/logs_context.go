package web

import (
	"errors"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/logboom/logboom/pkg/clickhouse"
	"github.com/logboom/logboom/pkg/query"
	"github.com/logboom/logboom/pkg/record"
)

// contextView is a log with what its application wrote around it, the newest
// first.
type contextView struct {
	*logsView
	App, Host string
	Trace     []filterChip
	List      []logRow
	More      contextMore
	Count     int
	At        string
	Back      string
	Elapsed   string
}

// contextMore are the addresses with more lines on one side, or none where
// there are no more.
type contextMore struct{ After, Before string }

const (
	contextStep  = 20
	traceMinutes = 30
)

// traceKeys are the keys by which one unit of work is known across programs.
var traceKeys = []string{"trace_id", "traceId", "request_id", "correlation_id"}

// contextPage shows a line in its surroundings. It has an address of its own.
func (p *Pages) contextPage(r *request) error {
	id, err := record.ParseRowID(r.Param("id"))
	if err != nil {
		return errGone
	}
	now := p.now().UTC()
	s, _ := readLogState(r.QueryParams(), now)
	s.Live, s.Line = false, id.String()
	before, after := readSide(r.QueryParam("before")), readSide(r.QueryParam("after"))
	ctx, cancel := r.querying()
	defer cancel()
	found, err := p.service.Context(ctx, r.project, clickhouse.ContextQuery{ID: id, Before: before, After: after})
	if errors.Is(err, clickhouse.ErrNoLog) {
		return errGone
	}
	if err != nil {
		return err
	}
	v := &contextView{logsView: p.newLogsView(r, s, now), App: printable(found.Log.Application), Host: printable(found.Log.Host), At: found.Log.Timestamp.Format("2 Jan 15:04:05.000")}
	v.Tokens, v.Back = paint(s.Query, nil), v.Links.This
	v.Saved = p.savedOf(r)
	v.fill(found, before, after)
	v.Elapsed = strconv.FormatInt(time.Since(now).Milliseconds(), 10) + " ms"
	return r.render("logcontext", view{Title: "Context of " + v.At + " · " + r.project.Name, Tab: "logs", Body: v})
}

// readSide is how many lines of one side are asked for.
func readSide(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		return contextStep
	}
	return min(n, clickhouse.MaxContext)
}

// fill lists the lines and where more of them are.
func (v *contextView) fill(found clickhouse.LogContext, before, after int) {
	s, marks := v.State, v.State.Filter.Marker()
	around := slices.Concat(found.Before, []clickhouse.StoredLog{found.Log}, found.After)
	slices.Reverse(around)
	for _, l := range around {
		v.List = append(v.List, newRow(l, s, v.Path, marks))
	}
	v.Count = len(v.List)
	here := v.Path + "/" + s.Line + "/context"
	more := func(before, after int) string {
		values := s.values()
		values.Del("line")
		values.Set("before", strconv.Itoa(before))
		values.Set("after", strconv.Itoa(after))
		return here + "?" + values.Encode()
	}
	if len(found.After) == after && after < clickhouse.MaxContext {
		v.More.After = more(before, after+contextStep)
	}
	if len(found.Before) == before && before < clickhouse.MaxContext {
		v.More.Before = more(before+contextStep, after)
	}
	v.Trace = tracesOf(found.Log, v.Path)
}

// tracesOf lead to all lines of the same unit of work.
func tracesOf(l clickhouse.StoredLog, root string) []filterChip {
	var list []filterChip
	for _, key := range traceKeys {
		if value := l.Metadata[key]; value != "" {
			at := url.Values{
				"q":    {query.All(record.KindLog).Toggle("metadata."+key, value).String()},
				"from": {stampOf(l.Timestamp.Add(-traceMinutes * time.Minute))}, "to": {stampOf(l.Timestamp.Add(traceMinutes * time.Minute))},
			}
			list = append(list, filterChip{key, root + "?" + at.Encode()})
		}
	}
	return list
}
