package web

import (
	"context"
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/logboom/logboom/pkg/clickhouse"
	"github.com/logboom/logboom/pkg/query"
	"github.com/logboom/logboom/pkg/record"
)

// rowsView is the list of logs.
type rowsView struct {
	Rows    []logRow
	Older   string // the address of what follows, or none
	Cursor  string // the same for the script
	Empty   *emptyView
	Lost    string // the linked line is not there any more
	Problem string
}

// logRow is one line, or a gap between two.
type logRow struct {
	ID, Path string
	At       time.Time
	Level    string // of severityWords, or unknown
	Word     string // the severity as it is shown
	App      string
	Host     string
	Columns  []string
	Text     []piece
	Pairs    string // of the metadata, shortly
	Open     bool
	Linked   bool
	Whole    []piece // the whole line; of an open row
	Fields   []rowField
	Context  string
	Gap      *gapRow
}

// rowField is a field of an open row.
type rowField struct {
	Name    string // as a query names it
	Value   []piece
	In, Out string // the addresses that ask for it, and keep it out
}

// gapRow says what is missing where it stands.
type gapRow struct {
	Count  uint64
	Causes string
	When   string
}

// readRows reads the list, and what was lost meanwhile.
func (p *Pages) readRows(ctx context.Context, r *request, s logState) (rowsView, error) {
	at := s.shown()
	page, err := p.service.Logs(ctx, r.project, clickhouse.LogQuery{From: at.From, To: at.To, Filter: s.Filter, Limit: rowsPerPage, Cursor: s.Cursor})
	if err != nil {
		return rowsView{}, err
	}
	root := r.projectPath("/logs")
	v := rowsView{Cursor: page.Next}
	if page.Next != "" {
		v.Older = s.address(root, func(s *logState) { s.Cursor = page.Next })
	}
	if len(page.Logs) == 0 && s.Cursor == "" {
		v.Empty = p.suggest(ctx, r, s)
		return v, nil
	}
	found := s.Filter.Marker()
	gaps := p.gapsOf(ctx, r, at)
	for _, l := range page.Logs {
		for len(gaps) > 0 && l.Timestamp.Before(gaps[0].To) {
			v.Rows = append(v.Rows, logRow{Gap: &gaps[0].gapRow})
			gaps = gaps[1:]
		}
		v.Rows = append(v.Rows, newRow(l, s, root, found))
	}
	v.Lost = p.lostLine(ctx, r, s, v.Rows)
	return v, nil
}

// lostLine says so where the line that a link leads to is not in the list.
func (p *Pages) lostLine(ctx context.Context, r *request, s logState, rows []logRow) string {
	if s.Line == "" || slices.ContainsFunc(rows, func(row logRow) bool { return row.Linked }) {
		return ""
	}
	id, err := record.ParseRowID(s.Line)
	if err != nil {
		return ""
	}
	if _, err := p.service.Context(ctx, r.project, clickhouse.ContextQuery{ID: id}); err != nil {
		return "The line of this link is not stored any more: its retention has ended, or it was erased."
	}
	return "The line of this link is further down: load older lines, or show its context."
}

// pairsShown bounds the metadata that a row shows beside its line.
const pairsShown = 160

// newRow is a log as a row.
func newRow(l clickhouse.StoredLog, s logState, root string, found *regexp.Regexp) logRow {
	id := l.ID.String()
	row := logRow{
		ID: id, At: l.Timestamp, Level: record.SeverityLevel(l.SeverityNumber), Word: strings.ToUpper(printable(l.Severity)), App: printable(l.Application), Host: printable(l.Host),
		Text: safeText(firstLine(l.Data), found), Pairs: pairsText(l.Metadata, s.Columns), Open: s.Line == id, Linked: s.Line == id,
		Path: s.address(root, func(s *logState) { s.Line = id }),
	}
	for _, column := range s.Columns {
		row.Columns = append(row.Columns, printable(l.Metadata[column]))
	}
	if row.Open {
		row.Whole, row.Context = safeText(l.Data, found), root+"/"+id+"/context"
		row.Fields = fieldsOf(l, s, root)
	}
	return row
}

// rowBytes bounds what a row shows of its line before it is opened.
const rowBytes = 1000

// firstLine is a line on one line: its ends are shown.
func firstLine(text string) string {
	text = cutText(strings.TrimRight(text, "\n"), rowBytes)
	return strings.ReplaceAll(text, "\n", " ⏎ ")
}

// pairsText is the metadata as key=value, without what has a column.
func pairsText(metadata map[string]string, columns []string) string {
	var b strings.Builder
	for _, key := range slices.Sorted(maps.Keys(metadata)) {
		if slices.Contains(columns, key) {
			continue
		}
		if b.Len() > pairsShown {
			b.WriteString(" …")
			break
		}
		if b.Len() > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(printable(key) + "=" + printable(metadata[key]))
	}
	return b.String()
}

// fieldsOf are all fields of a log, its own before the metadata.
func fieldsOf(l clickhouse.StoredLog, s logState, root string) []rowField {
	var list []rowField
	add := func(field, value string) {
		if value != "" {
			list = append(list, rowField{printable(strings.TrimPrefix(field, "metadata.")), safeText(value, nil), s.edits(root, "in", field, value), s.edits(root, "out", field, value)})
		}
	}
	list = append(list, rowField{Name: "time", Value: safeText(stampOf(l.Timestamp), nil)})
	add("severity", l.Severity)
	add("application", l.Application)
	add("host", l.Host)
	add("source", l.Source)
	add("id", l.ID.String())
	for _, key := range slices.Sorted(maps.Keys(l.Metadata)) {
		add("metadata."+key, l.Metadata[key])
	}
	return list
}

// marksOf is what the query looks for, as the script reads it.
func marksOf(q query.Query) string {
	raw, err := json.Marshal(q.Marks())
	if err != nil {
		return "[]"
	}
	return string(raw)
}

// gap is what an hour lost.
type gap struct {
	From, To time.Time
	gapRow
}

// gapsOf are the hours in which records of the project were dropped, the newest
// first. Whose they were is not known, so the query does not count.
func (p *Pages) gapsOf(ctx context.Context, r *request, at timeSpan) []gap {
	hours, err := p.service.Usage(ctx, r.project, at.From, at.To)
	if err != nil {
		p.logger.Warn("losses not shown", "project", r.project.Name, "err", err)
		return nil
	}
	reasons := map[time.Time]map[string]uint64{}
	for _, h := range hours {
		if h.Measure != "dropped" || h.Records == 0 {
			continue
		}
		if reasons[h.Hour] == nil {
			reasons[h.Hour] = map[string]uint64{}
		}
		reasons[h.Hour][h.Reason] += h.Records
	}
	var gaps []gap
	for _, hour := range slices.SortedFunc(maps.Keys(reasons), func(a, b time.Time) int { return b.Compare(a) }) {
		g := gap{From: hour.UTC(), To: hour.UTC().Add(time.Hour)}
		for _, n := range reasons[hour] {
			g.Count += n
		}
		g.Causes, g.When = lossText(reasons[hour]), spanText(timeSpan{g.From, g.To}, p.now().UTC())
		gaps = append(gaps, g)
	}
	return gaps
}
