package web

import (
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/logboom/logboom/pkg/clickhouse"
	"github.com/logboom/logboom/pkg/query"
	"github.com/logboom/logboom/pkg/record"
)

// contextView is a log with what its application wrote around it on the same
// host, newest first.
type contextView struct {
	*logsView
	App, Host string
	Traces    []filterChip
	List      []logRow
	More      contextMore
	Count     int
	At        string
	Back      string
}

// contextMore are the addresses with more lines on one side, "" where there are
// no more.
type contextMore struct{ After, Before string }

const (
	contextStep = 20 // lines on either side at first, and added by a click
	traceTime   = 30 * time.Minute
)

// contextPage shows a line in its context. It has an address of its own.
func (p *Pages) contextPage(r *request) error {
	id, err := record.ParseRowID(r.Param("id"))
	if err != nil {
		return errGone
	}
	now := p.now().UTC()
	s, _ := readLogState(r.QueryParams(), now)
	s.Live, s.Line = false, id.String()
	q := clickhouse.ContextQuery{ID: id, Before: readCount(r.QueryParam("before")), After: readCount(r.QueryParam("after"))}
	ctx, cancel := r.querying()
	defer cancel()
	found, err := p.service.Context(ctx, r.project, q)
	if err != nil {
		return goneIfInvalid(err)
	}
	v := &contextView{
		logsView: p.newLogsView(r, s, nil, now), App: printable(found.Log.Application), Host: printable(found.Log.Host),
		At: found.Log.Timestamp.Format("2 Jan 15:04:05.000"),
	}
	v.Back = v.Links.This
	around := slices.Concat(found.Before, []clickhouse.StoredLog{found.Log}, found.After)
	slices.Reverse(around)
	marker := s.Filter.Marker()
	for _, l := range around {
		v.List = append(v.List, newRow(l, s, v.Path, marker))
	}
	v.Count = len(v.List)
	v.More = moreContext(found, s, q, v.Path)
	v.Traces = tracesOf(found.Log, v.Path)
	return r.render("logcontext", view{Title: "Context of " + v.At + " · " + r.project.Name, Tab: "logs", Body: v})
}

// readCount reads how many lines of one side are asked for.
func readCount(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		return contextStep
	}
	return min(n, clickhouse.MaxContext)
}

func moreContext(found clickhouse.LogContext, s logState, q clickhouse.ContextQuery, root string) (more contextMore) {
	address := func(before, after int) string {
		values := s.values()
		values.Del("line")
		values.Set("before", strconv.Itoa(before))
		values.Set("after", strconv.Itoa(after))
		return root + "/" + s.Line + "/context?" + values.Encode()
	}
	if len(found.After) == q.After && q.After < clickhouse.MaxContext {
		more.After = address(q.Before, q.After+contextStep)
	}
	if len(found.Before) == q.Before && q.Before < clickhouse.MaxContext {
		more.Before = address(q.Before+contextStep, q.After)
	}
	return more
}

// tracesOf returns links to all lines of the same unit of work, by the keys that
// programs commonly share.
func tracesOf(l clickhouse.StoredLog, root string) []filterChip {
	var list []filterChip
	for _, key := range []string{"trace_id", "traceId", "request_id", "correlation_id"} {
		if value := l.Metadata[key]; value != "" {
			at := url.Values{
				"q":    {query.All(record.KindLog).Toggle("metadata."+key, value).String()},
				"from": {stampOf(l.Timestamp.Add(-traceTime))}, "to": {stampOf(l.Timestamp.Add(traceTime))},
			}
			list = append(list, filterChip{key, root + "?" + at.Encode()})
		}
	}
	return list
}
