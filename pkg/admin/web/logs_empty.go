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

// emptyView is what a list without lines says, and what to do next.
type emptyView struct {
	Label string
	Valid bool // there is a query, and it is none's fault
	Steps []emptyStep
	Start string // where a first log is sent, where nothing was ever stored
}

// emptyStep is a question near the one that found nothing.
type emptyStep struct {
	Do, Code, Keep string
	Path           string
	Count          uint64

	state logState
}

const (
	mostSteps   = 5
	stepTimeout = 3 * time.Second // nobody waits longer for advice
)

// suggest asks near questions and keeps those that find something.
func (p *Pages) suggest(ctx context.Context, r *request, s logState) *emptyView {
	v := &emptyView{Label: "from " + spanText(s.shown(), p.now().UTC()), Valid: s.Query != ""}
	if s.Last != "" && s.Sel.IsZero() {
		v.Label = "in the " + strings.ToLower(lastText(s.Last))
	}
	steps := nearSteps(s)
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
	_ = group.Wait() // nobody fails: what cannot be counted is not suggested
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

// nearSteps are the questions one step away.
func nearSteps(s logState) []emptyStep {
	s.Cursor, s.Line = "", ""
	var steps []emptyStep
	if !s.Sel.IsZero() {
		whole := s
		whole.Sel = timeSpan{}
		steps = append(steps, emptyStep{Do: "Clear the selection", Keep: "same query", state: whole})
	}
	for _, last := range []string{"24h", "30d"} {
		if length, _ := parseLast(last); length > s.To.Sub(s.From) {
			wide := s
			recent(last)(&wide)
			wide.From, wide.To = lastRange(last, s.To)
			steps = append(steps, emptyStep{Do: "Widen to " + lengthText(length), Keep: "same query", state: wide})
		}
	}
	terms := s.Filter.Terms()
	for i, term := range terms {
		if len(steps) == mostSteps {
			break
		}
		less := s
		if lowered, ok := s.Filter.LowerSeverity(i); ok {
			asking(lowered)(&less)
			steps = append(steps, emptyStep{Do: "Lower to", Code: lowered.Terms()[i].String(), Keep: "keep the rest", state: less})
			continue
		}
		asking(s.Filter.Without(i))(&less)
		steps = append(steps, emptyStep{Do: "Drop", Code: printable(term.String()), Keep: "keep the rest", state: less})
	}
	if len(terms) > 1 {
		all := s
		asking(query.All(record.KindLog))(&all)
		steps = append(steps, emptyStep{Do: "Drop the query", Keep: "all lines of this time", state: all})
	}
	return steps
}

// countLogs counts what a state would show; 0 where that cannot be said.
func (p *Pages) countLogs(ctx context.Context, in project.Project, s logState) uint64 {
	at := s.shown()
	h, err := p.service.Histogram(ctx, in, clickhouse.HistogramQuery{From: at.From, To: at.To, Filter: s.Filter, Buckets: 1})
	if err != nil {
		return 0
	}
	return h.Total
}
