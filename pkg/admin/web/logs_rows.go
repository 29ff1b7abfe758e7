package web

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/logboom/logboom/pkg/admin"
	"github.com/logboom/logboom/pkg/clickhouse"
	"github.com/logboom/logboom/pkg/record"
)

// Every row of logs is rendered by the template "row": in the page, in the rows
// that the script loads, and in the live tail.

// rowsView is the list of logs.
type rowsView struct {
	Rows      []logRow
	Older     string // the address of the page with older logs, "" if there is none
	OlderRows string // the address of only its rows, for the script
	Empty     *emptyView
	Missing   string // why the linked line is not in the list
	Problem   string
}

// logRow is one log, or a gap between two.
type logRow struct {
	ID         string
	Path       string // the page with this row open
	FieldsPath string // only the row's fields, for the script
	At         time.Time
	Level      string // one of record.SeverityLevels, or unknown
	Word       string // the severity as it is shown
	App        string
	Host       string
	Columns    []string
	Text       []piece // the line, shortened
	Pairs      string  // the metadata, shortened
	Linked     bool
	Gap        *gapRow

	// Of an open row.
	Open    bool
	Whole   []piece
	Bytes   int // of the line
	Fields  []rowField
	Context string // the address of the line's context
}

// rowField is a field of an open row.
type rowField struct {
	Name    string
	Field   string // the canonical name as JSON, for the script
	Value   []piece
	In, Out string // the addresses that add the value to the query, and exclude it
	Column  string // the address that shows the key as a column
}

// gapRow says how many records were dropped in an hour.
type gapRow struct {
	Count  uint64
	Causes string
	When   string
}

// rowsPerPage is the number of logs that the explorer shows at first.
const rowsPerPage = 200

// readRows reads the list.
func (p *Pages) readRows(ctx context.Context, r *request, s logState) (rowsView, error) {
	v, logs, err := p.readLogs(ctx, r, s)
	if err != nil {
		return v, err
	}
	if len(logs) == 0 && s.Cursor == "" {
		v.Empty = p.suggest(ctx, r, s)
		return v, nil
	}
	gaps := p.gapsOf(ctx, r, s.shown())
	rows := v.Rows
	v.Rows = nil
	for i, l := range logs {
		for len(gaps) > 0 && l.Timestamp.Before(gaps[0].To) {
			v.Rows = append(v.Rows, logRow{Gap: &gaps[0].gapRow})
			gaps = gaps[1:]
		}
		v.Rows = append(v.Rows, rows[i])
	}
	v.Missing = p.missingLine(ctx, r, s, rows)
	return v, nil
}

// readLogs reads one page of logs, with a row for each.
func (p *Pages) readLogs(ctx context.Context, r *request, s logState) (v rowsView, logs []clickhouse.StoredLog, err error) {
	at := s.shown()
	page, err := p.service.Logs(ctx, r.project, clickhouse.LogQuery{From: at.From, To: at.To, Filter: s.Filter, Limit: rowsPerPage, Cursor: s.Cursor})
	if err != nil {
		return v, nil, err
	}
	root := r.projectPath("/logs")
	if page.Next != "" {
		next := func(s *logState) { s.Cursor = page.Next }
		v.Older, v.OlderRows = s.address(root, next), s.address(root+"/rows", next)
	}
	marker := s.Filter.Marker()
	for _, l := range page.Logs {
		v.Rows = append(v.Rows, newRow(l, s, root, marker))
	}
	return v, page.Logs, nil
}

// olderRows answers the rows of the next page, for the script.
func (p *Pages) olderRows(r *request) error {
	s, fault := readLogState(r.QueryParams(), p.now().UTC())
	if fault != nil {
		return errGone
	}
	ctx, cancel := r.querying()
	defer cancel()
	v, _, err := p.readLogs(ctx, r, s)
	if err != nil {
		return goneIfInvalid(err)
	}
	return r.renderPart("page-rows", v)
}

// logFields answers the fields of one row, for the script.
func (p *Pages) logFields(r *request) error {
	id, err := record.ParseRowID(r.Param("id"))
	if err != nil {
		return errGone
	}
	s, _ := readLogState(r.QueryParams(), p.now().UTC())
	s.Line = id.String()
	ctx, cancel := r.querying()
	defer cancel()
	found, err := p.service.Context(ctx, r.project, clickhouse.ContextQuery{ID: id})
	if err != nil {
		return goneIfInvalid(err)
	}
	return r.renderPart("fields", newRow(found.Log, s, r.projectPath("/logs"), s.Filter.Marker()))
}

// tailLogs sends the rows of new logs, for the script of the live tail.
func (p *Pages) tailLogs(r *request) error {
	s, fault := readLogState(r.QueryParams(), p.now().UTC())
	if fault != nil {
		return errGone
	}
	root, marker := r.projectPath("/logs"), s.Filter.Marker()
	err := p.service.Tail(r.Response(), r.Request(), r.project, s.Filter, admin.TailFormat{
		Log: func(l clickhouse.StoredLog) ([]byte, error) {
			html, err := p.part("row", newRow(l, s, root, marker))
			if err != nil {
				return nil, err
			}
			return json.Marshal(string(html))
		},
		Problem: func(err error) ([]byte, error) { return json.Marshal(map[string]string{"detail": problemText(err)}) },
	})
	return goneIfInvalid(err)
}

// goneIfInvalid replaces the error of a link that cannot be followed, so that it
// is not found.
func goneIfInvalid(err error) error {
	var invalid *clickhouse.InvalidError
	if errors.As(err, &invalid) || errors.Is(err, clickhouse.ErrNoLog) {
		return errGone
	}
	return err
}

// part renders a part of the explorer.
func (p *Pages) part(name string, data any) ([]byte, error) {
	var b bytes.Buffer
	if err := p.templates["logs"].ExecuteTemplate(&b, name, data); err != nil {
		return nil, fmt.Errorf("template %s: %w", name, err)
	}
	return b.Bytes(), nil
}

// renderPart answers with a part of the explorer.
func (r *request) renderPart(name string, data any) error {
	html, err := r.pages.part(name, data)
	if err != nil {
		return err
	}
	return r.send(http.StatusOK, html, true)
}

// missingLine explains why the line of a link is not among the rows, "" if it is
// or if there is no such link.
func (p *Pages) missingLine(ctx context.Context, r *request, s logState, rows []logRow) string {
	if s.Line == "" || slices.ContainsFunc(rows, func(row logRow) bool { return row.Linked }) {
		return ""
	}
	id, err := record.ParseRowID(s.Line)
	if err != nil {
		return ""
	}
	if _, err := p.service.Context(ctx, r.project, clickhouse.ContextQuery{ID: id}); err != nil {
		return "The line of this link is no longer stored: its retention has ended, or it was erased."
	}
	return "The line of this link is further down. Load older lines, or show its context."
}

// newRow returns the row of a log, with its fields if it is open. marker finds
// what the query searched for.
func newRow(l clickhouse.StoredLog, s logState, root string, marker *regexp.Regexp) logRow {
	id := l.ID.String()
	row := logRow{
		ID: id, Path: s.address(root, func(s *logState) { s.Line = id }), FieldsPath: s.address(root + "/" + id + "/fields"),
		At: l.Timestamp, Level: record.SeverityLevel(l.SeverityNumber), Word: strings.ToUpper(printable(l.Severity)), App: printable(l.Application), Host: printable(l.Host),
		Text: safeText(oneLine(l.Data), marker), Pairs: pairsText(l.Metadata, s.Columns), Open: s.Line == id, Linked: s.Line == id,
	}
	for _, column := range s.Columns {
		row.Columns = append(row.Columns, printable(l.Metadata[column]))
	}
	if row.Open {
		row.Whole, row.Bytes = safeText(l.Data, marker), len(l.Data)
		row.Fields = fieldsOf(l, s, root)
		row.Context = s.address(root + "/" + id + "/context")
	}
	return row
}

// rowBytes bounds what a closed row shows of its line.
const rowBytes = 1000

// oneLine returns the beginning of a text, with pictures of its line ends.
func oneLine(text string) string {
	text = cutText(strings.TrimRight(text, "\n"), rowBytes)
	return strings.ReplaceAll(text, "\n", " ⏎ ")
}

// pairsShown bounds the metadata that a row shows after its line.
const pairsShown = 160

// pairsText returns the metadata as key=value, without keys that have a column.
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

// fieldsOf returns all fields of a log, the metadata last.
func fieldsOf(l clickhouse.StoredLog, s logState, root string) []rowField {
	list := []rowField{{Name: "time", Field: scriptText("time"), Value: safeText(stampOf(l.Timestamp), nil)}}
	add := func(name, field, value, column string) {
		if value != "" {
			list = append(list, rowField{printable(name), scriptText(field), safeText(value, nil), s.editAddress(root, "in", field, value), s.editAddress(root, "out", field, value), column})
		}
	}
	add("severity", "severity", l.Severity, "")
	add("app", "application", l.Application, "")
	add("host", "host", l.Host, "")
	add("source", "source", l.Source, "")
	add("id", "id", l.ID.String(), "")
	for _, key := range slices.Sorted(maps.Keys(l.Metadata)) {
		column := ""
		if !slices.Contains(s.Columns, key) && len(key) <= maxColumn {
			column = s.address(root, func(s *logState) { s.Columns = append(slices.Clone(s.Columns), key) })
		}
		add(key, "metadata."+key, l.Metadata[key], column)
	}
	return list
}

// scriptText returns a text as JSON, for a data attribute. It contains nothing
// that a terminal or browser acts on.
func scriptText(text string) string {
	raw, _ := json.Marshal(text) // a string
	var b strings.Builder
	for _, r := range string(raw) {
		if isControl(r) {
			fmt.Fprintf(&b, `\u%04x`, r)
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// gap is an hour in which records were dropped.
type gap struct {
	From, To time.Time
	gapRow
}

// gapsOf returns the hours in which records of the project were dropped, newest
// first. The content of dropped records is unknown, so the query does not apply.
func (p *Pages) gapsOf(ctx context.Context, r *request, at timeSpan) []gap {
	hours, err := p.service.Usage(ctx, r.project, at.From, at.To)
	if err != nil {
		p.logger.Warn("dropped records not shown", "project", r.project.Name, "err", err)
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
