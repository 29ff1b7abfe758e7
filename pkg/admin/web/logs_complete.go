package web

import (
	"context"
	"net/http"
	"strconv"
	"strings"

	"github.com/logboom/logboom/pkg/clickhouse"
	"github.com/logboom/logboom/pkg/project"
	"github.com/logboom/logboom/pkg/query"
	"github.com/logboom/logboom/pkg/record"
)

// maxCompletions bounds the suggestions.
const maxCompletions = 8

// completions is what a person can insert where they type.
type completions struct {
	From  int          `json:"from"` // bytes of the query to replace
	To    int          `json:"to"`
	Head  string       `json:"head"`
	Items []completion `json:"items"`
}

// completion is one suggestion.
type completion struct {
	Insert string  `json:"insert"`
	Label  string  `json:"label"`
	Note   string  `json:"note,omitempty"`
	Count  *uint64 `json:"count,omitempty"` // of lines in the time range
	More   bool    `json:"more"`            // a value follows, so the script fetches suggestions again
}

// completeLogs answers what can be inserted at the position at, in bytes, of the query.
func (p *Pages) completeLogs(r *request) error {
	state, _ := readLogState(r.QueryParams(), p.now().UTC())
	cursor, err := strconv.Atoi(r.QueryParam("at"))
	if err != nil {
		cursor = len(state.Query)
	}
	typed := query.Complete(record.KindLog, state.Query, cursor)
	answer := completions{From: typed.From, To: typed.To, Items: []completion{}}
	if !typed.Nothing {
		ctx, cancel := r.querying()
		defer cancel()
		if err := p.complete(ctx, r.project, state, typed, &answer); err != nil {
			return r.JSON(http.StatusServiceUnavailable, map[string]string{"code": refusalOf(err).Code, "detail": problemText(err)})
		}
	}
	return r.JSON(http.StatusOK, answer)
}

// complete reads suggestions from the facets of the lines that match the rest of
// the query.
func (p *Pages) complete(ctx context.Context, in project.Project, s logState, typed query.Completion, answer *completions) error {
	filter, err := query.Parse(record.KindLog, typed.Rest)
	if err != nil {
		filter = query.Query{} // it is unfinished
	}
	at := s.shown()
	found, err := p.service.Facets(ctx, in, clickhouse.FacetQuery{From: at.From, To: at.To, Filter: filter})
	if err != nil {
		return err
	}
	if typed.Field == "" {
		answer.Head = "Fields, and how many lines have them"
		answer.Items = completeFields(found, typed.Prefix)
		return nil
	}
	answer.Head = "Values of " + strings.TrimPrefix(typed.Field, "metadata.") + " in this time range, in lines that match the rest of the query"
	answer.Items = completeValues(valuesOf(found, typed.Field), typed.Prefix)
	return nil
}

func completeValues(values []clickhouse.ValueCount, prefix string) []completion {
	list := []completion{}
	for _, v := range values {
		if len(list) < maxCompletions && hasPrefix(v.Value, prefix) {
			list = append(list, completion{Insert: query.PrintValue(v.Value), Label: printable(v.Value), Count: &v.Count})
		}
	}
	return list
}

// completeFields suggests columns, and the keys of the metadata that lines have.
func completeFields(found clickhouse.Facets, prefix string) []completion {
	list := []completion{}
	add := func(insert, note string, count *uint64) {
		if len(list) < maxCompletions && hasPrefix(insert, prefix) {
			list = append(list, completion{Insert: insert + ":", Label: insert, Note: note, Count: count, More: true})
		}
	}
	for _, f := range query.Fields(record.KindLog) {
		add(f.Name, f.Note, nil)
	}
	for _, key := range found.Metadata {
		add(query.PrintField(record.KindLog, "metadata."+key.Key), "", &key.Count)
	}
	return list
}

// hasPrefix reports whether a text begins with a prefix, in any case.
func hasPrefix(text, prefix string) bool {
	return len(text) >= len(prefix) && strings.EqualFold(text[:len(prefix)], prefix)
}
