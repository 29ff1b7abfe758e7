package web

import (
	"context"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/logboom/logboom/pkg/clickhouse"
	"github.com/logboom/logboom/pkg/project"
	"github.com/logboom/logboom/pkg/query"
	"github.com/logboom/logboom/pkg/record"
)

// emptyView is shown in place of a list without lines. It suggests changes of
// the query or the time that find some.
type emptyView struct {
	Label string // of the time range
	Valid bool   // there is a query, and it is valid
	Steps []emptyStep
	Start string // the address that explains how to send a first log, if nothing is stored
}

// emptyStep is a suggested change.
type emptyStep struct {
	Do, Code, Keep string
	Path           string
	Count          uint64

	state logState
}

const (
	maxSteps    = 5
	stepTimeout = 3 * time.Second // nobody waits longer for suggestions
)

// suggest counts what similar states would show, and suggests those that show
// lines.
func (p *Pages) suggest(ctx context.Context, r *request, s logState) *emptyView {
	v := &emptyView{Label: "from " + spanText(s.shown(), p.now().UTC()), Valid: s.Query != ""}
	if s.Last != "" && s.Sel.IsZero() {
		v.Label = "in the " + strings.ToLower(lastText(s.Last))
	}
	steps := similarStates(s)
	ctx, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	var group errgroup.Group
	group.SetLimit(2)
	for i := range steps {
		group.Go(func() error {
			steps[i].Count = p.countLogs(ctx, r.project, steps[i].state)
			return nil
		})
	}
	_ = group.Wait() // the functions return no errors: what cannot be counted is not suggested
	for _, step := range steps {
		if step.Count > 0 {
			step.Path = step.state.address(r.projectPath("/logs"))
			v.Steps = append(v.Steps, step)
		}
	}
	if len(v.Steps) == 0 && s.Query == "" {
		v.Start = r.projectPath("/start")
	}
	return v
}

// similarStates returns the states that are one change away.
func similarStates(s logState) []emptyStep {
	s.Cursor, s.Line = "", ""
	var steps []emptyStep
	add := func(do, code, keep string, state logState, changes ...func(*logState)) {
		for _, change := range changes {
			change(&state)
		}
		steps = append(steps, emptyStep{Do: do, Code: code, Keep: keep, state: state})
	}
	if !s.Sel.IsZero() {
		add("Clear the selection", "", "same query", s, func(s *logState) { s.Sel = timeSpan{} })
	}
	for _, last := range []string{"24h", "30d"} {
		if length, _ := parseLast(last); length > s.To.Sub(s.From) {
			add("Widen to "+lengthText(length), "", "same query", s, withLast(last), func(wide *logState) { wide.From, wide.To = lastRange(last, s.To) })
		}
	}
	terms := s.Filter.Terms()
	for i, term := range terms {
		if len(steps) == maxSteps {
			break
		}
		if lowered, ok := s.Filter.LowerSeverity(i); ok {
			add("Lower to", lowered.Terms()[i].String(), "keep the rest", s, withQuery(lowered))
		} else {
			add("Remove", printable(term.String()), "keep the rest", s, withQuery(s.Filter.Without(i)))
		}
	}
	if len(terms) > 1 {
		add("Remove the query", "", "all lines of this time range", s, withQuery(query.All(record.KindLog)))
	}
	return steps
}

// countLogs counts what a state would show; 0 if that fails.
func (p *Pages) countLogs(ctx context.Context, in project.Project, s logState) uint64 {
	at := s.shown()
	h, err := p.service.Histogram(ctx, in, clickhouse.HistogramQuery{From: at.From, To: at.To, Filter: s.Filter, Buckets: 1})
	if err != nil {
		return 0
	}
	return h.Total
}
