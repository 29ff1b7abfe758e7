package web

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/logboom/logboom/pkg/clickhouse"
)

// The chart has units of its own, which the browser scales.
const (
	chartWidth  = 1180
	chartHeight = 80
	chartFloor  = 78 // the bottom of the bars
	chartRoom   = 72 // the height of the highest bar
)

// chartView is the chart of logs by time and severity.
type chartView struct {
	Width, Height int
	Layers        []chartLayer // the lowest first
	Dim           []chartLayer // bars outside the selection
	Lost          string       // outlines of the hours in which records were dropped
	Brush         *chartBrush
	Legend        []legendEntry
	Axis          []string
	Text          string // for screen readers
	Rows          []chartRow
	Unit          string // per minute
	From, Step    int64  // the first bar and the length of a bar, milliseconds
	Bars          int
	Total         uint64 // lines in the time range
	Selected      uint64 // lines in the selection
	Narrowed      bool
	SelText       string
	LostTotal     uint64
	Problem       string
}

// chartLayer is all bars of a severity, as one path.
type chartLayer struct {
	Level, Path string
}

// chartBrush is the frame of the selection.
type chartBrush struct{ X, Width, End float64 }

// legendEntry is the total of a severity, with the link that adds it to the query
// or removes it.
type legendEntry struct {
	Level, Path string
	Count       uint64
	On          bool
}

// chartRow is a bar as a row of the table for screen readers.
type chartRow struct {
	When  string
	Count uint64
}

// readChart counts the lines of the time range. The selection does not matter.
func (p *Pages) readChart(ctx context.Context, r *request, s logState) (chartView, error) {
	length := s.To.Sub(s.From)
	width := barWidth(length)
	n := max(1, int(math.Round(float64(length)/float64(width))))
	h, err := p.service.Histogram(ctx, r.project, clickhouse.HistogramQuery{From: s.From, To: s.To, Filter: s.Filter, Buckets: n})
	if err != nil {
		return chartView{}, err
	}
	return drawChart(h, s, r.projectPath("/logs"), p.gapsOf(ctx, r, timeSpan{s.From, s.To})), nil
}

// levelCounts returns the counts of the layers, the lowest first. Lines without a
// known severity count as debug.
func levelCounts(c clickhouse.SeverityCounts) []struct {
	level string
	n     uint64
} {
	return []struct {
		level string
		n     uint64
	}{{"debug", c.Debug + c.Trace + c.Unknown}, {"info", c.Info}, {"warn", c.Warn}, {"error", c.Error}, {"fatal", c.Fatal}}
}

// drawChart draws a histogram.
func drawChart(h clickhouse.Histogram, s logState, root string, gaps []gap) chartView {
	v := chartView{
		Width: chartWidth, Height: chartHeight, Unit: widthText(time.Duration(h.Width * float64(time.Second)).Round(time.Second)),
		From: s.From.UnixMilli(), Step: s.To.Sub(s.From).Milliseconds() / int64(len(h.Buckets)), Bars: len(h.Buckets), Total: h.Total, Selected: h.Total,
	}
	highest, at := uint64(1), 0
	for i, b := range h.Buckets {
		if b.Count > highest {
			highest, at = b.Count, i
		}
	}
	bar := float64(chartWidth) / float64(len(h.Buckets))
	inside, outside := map[string]*strings.Builder{}, map[string]*strings.Builder{}
	for i, b := range h.Buckets {
		to := inside
		if !s.Sel.IsZero() && (b.Time.Before(s.Sel.From) || !b.Time.Before(s.Sel.To)) {
			to = outside
		}
		drawBar(to, b, float64(i)*bar+1, max(1, bar-2), float64(chartRoom)/float64(highest))
	}
	v.Layers, v.Dim = layersOf(inside), layersOf(outside)
	v.Legend = legendOf(h.Severities, s, root)
	v.Axis = axisOf(s)
	v.Text = fmt.Sprintf("Matching lines %s, by severity: %s in total; at most %s, at %s.", v.Unit, formatNumber(h.Total), formatNumber(highest), h.Buckets[at].Time.Format("15:04:05"))
	v.frame(h, s)
	v.drawLosses(gaps, s)
	for _, b := range h.Buckets {
		if b.Count > 0 {
			v.Rows = append(v.Rows, chartRow{b.Time.Format("2 Jan 15:04:05"), b.Count})
		}
	}
	return v
}

// drawBar adds the bar of a bucket: its severities on top of each other.
func drawBar(to map[string]*strings.Builder, b clickhouse.Bucket, x, width, scale float64) {
	floor := float64(chartFloor)
	for _, one := range levelCounts(b.Severities) {
		if one.n == 0 {
			continue
		}
		height := max(0.8, float64(one.n)*scale)
		floor -= height
		if to[one.level] == nil {
			to[one.level] = &strings.Builder{}
		}
		fmt.Fprintf(to[one.level], "M%s %sh%sv%sh-%sz", short(x), short(floor), short(width), short(height), short(width))
	}
}

// short prints a coordinate with at most one decimal.
func short(f float64) string {
	return strings.TrimSuffix(strconv.FormatFloat(f, 'f', 1, 64), ".0")
}

func layersOf(paths map[string]*strings.Builder) []chartLayer {
	var list []chartLayer
	for _, one := range levelCounts(clickhouse.SeverityCounts{}) {
		if path := paths[one.level]; path != nil {
			list = append(list, chartLayer{one.level, path.String()})
		}
	}
	return list
}

// legendOf lists the totals, the most severe first, without severities that no
// line has.
func legendOf(c clickhouse.SeverityCounts, s logState, root string) []legendEntry {
	in, _ := s.Filter.Selected("severity")
	counts := levelCounts(c)
	var list []legendEntry
	for i := len(counts) - 1; i >= 0; i-- {
		one := counts[i]
		if one.n > 0 {
			list = append(list, legendEntry{one.level, s.editAddress(root, "in", "severity", one.level), one.n, len(in) > 0})
		}
	}
	return list
}

// axisOf returns the labels of five times, from the start to the end.
func axisOf(s logState) []string {
	form, length := "15:04", s.To.Sub(s.From)
	switch {
	case length > 48*time.Hour:
		form = "2 Jan 15:04"
	case length < 10*time.Minute:
		form = "15:04:05"
	}
	var names []string
	for i := range 5 {
		names = append(names, s.From.Add(length*time.Duration(i)/4).Format(form))
	}
	return names
}

// frame counts the lines of the selection and draws its frame.
func (v *chartView) frame(h clickhouse.Histogram, s logState) {
	if s.Sel.IsZero() {
		return
	}
	v.Narrowed, v.Selected = true, 0
	for _, b := range h.Buckets {
		if !b.Time.Before(s.Sel.From) && b.Time.Before(s.Sel.To) {
			v.Selected += b.Count
		}
	}
	x := s.place(s.Sel.From)
	v.Brush = &chartBrush{x, s.place(s.Sel.To) - x, s.place(s.Sel.To)}
	v.SelText = spanText(s.Sel, s.To) + " · " + lengthText(s.Sel.To.Sub(s.Sel.From))
}

// place returns the position of a time in the chart.
func (s *logState) place(t time.Time) float64 {
	share := float64(t.Sub(s.From)) / float64(s.To.Sub(s.From))
	return math.Round(min(1, max(0, share))*chartWidth*10) / 10
}

// drawLosses outlines the hours in which records were dropped.
func (v *chartView) drawLosses(gaps []gap, s logState) {
	var b strings.Builder
	for _, g := range gaps {
		v.LostTotal += g.Count
		from, to := s.place(g.From), s.place(g.To)
		if to > from {
			fmt.Fprintf(&b, "M%s 3.5h%sv10h-%sz", short(from+.5), short(to-from-1), short(to-from-1))
		}
	}
	v.Lost = b.String()
}
