package web

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/logboom/logboom/pkg/clickhouse"
	"github.com/logboom/logboom/pkg/project"
)

// usedHour is what became of one hour's records.
type usedHour struct {
	At             time.Time
	Stored, Events uint64
	Bytes          uint64
	Dropped        uint64
	Reasons        map[string]uint64
}

// used is a project's usage of the hours that a page shows, the oldest first
// and none left out, and what counts for its quotas.
type used struct {
	Hours   []usedHour
	Today   uint64 // records since midnight, UTC
	Month   uint64 // bytes of text since the first of the month, UTC
	Last    time.Time
	Stored  uint64 // of the hours shown, as what follows
	Events  uint64
	Bytes   uint64
	Dropped uint64
	Reasons map[string]uint64
}

// usageOf asks for the project's usage of the newest hours. With month it asks
// back to the first of the month too.
func (p *Pages) usageOf(ctx context.Context, found project.Project, hours int, month bool) (used, error) {
	now := p.now().UTC()
	first := now.Truncate(time.Hour).Add(-time.Duration(hours-1) * time.Hour)
	from := first
	if midnight := now.Truncate(24 * time.Hour); midnight.Before(from) {
		from = midnight
	}
	if begins := monthOf(now); month && begins.Before(from) {
		from = begins
	}
	rows, err := p.deps.Reader.Usage(ctx, found.ID, from, now.Truncate(time.Hour).Add(time.Hour))
	if err != nil {
		return used{}, err
	}
	return sumUsage(rows, first, hours, now), nil
}

func monthOf(t time.Time) time.Time { return time.Date(t.Year(), t.Month(), 1, 0, 0, 0, 0, time.UTC) }

// sumUsage sorts the rows into the hours from first on.
func sumUsage(rows []clickhouse.UsageHour, first time.Time, hours int, now time.Time) used {
	u := used{Hours: make([]usedHour, hours), Reasons: map[string]uint64{}}
	for i := range u.Hours {
		u.Hours[i].At = first.Add(time.Duration(i) * time.Hour)
	}
	for _, row := range rows {
		u.count(row, now)
		if at := int(row.Hour.Sub(first) / time.Hour); !row.Hour.Before(first) && at < hours {
			u.Hours[at].add(row)
		}
	}
	for _, h := range u.Hours {
		u.Stored += h.Stored
		u.Events += h.Events
		u.Bytes += h.Bytes
		u.Dropped += h.Dropped
		for reason, n := range h.Reasons {
			u.Reasons[reason] += n
		}
	}
	return u
}

// count adds a row to what quotas are measured by.
func (u *used) count(row clickhouse.UsageHour, now time.Time) {
	if row.Measure == "dropped" {
		return
	}
	if row.Hour.After(u.Last) {
		u.Last = row.Hour
	}
	if !row.Hour.Before(now.Truncate(24 * time.Hour)) {
		u.Today += row.Records
	}
	if !row.Hour.Before(monthOf(now)) {
		u.Month += row.Bytes
	}
}

func (h *usedHour) add(row clickhouse.UsageHour) {
	switch row.Measure {
	case "dropped":
		h.Dropped += row.Records
		if h.Reasons == nil {
			h.Reasons = map[string]uint64{}
		}
		h.Reasons[row.Reason] += row.Records
		return
	case "events":
		h.Events += row.Records
	}
	h.Stored += row.Records
	h.Bytes += row.Bytes
}

// reasonTexts say why something was dropped, for people.
var reasonTexts = map[string]string{
	"rate": "rate limit", "daily_records": "daily quota", "monthly_bytes": "monthly quota", "quota": "quota",
}

// reasonText is the reason in words; one that is not known is its own word.
func reasonText(reason string) string {
	if text, ok := reasonTexts[reason]; ok {
		return text
	}
	return strings.ReplaceAll(reason, "_", " ")
}

// lossText tells losses by cause, the largest first.
func lossText(reasons map[string]uint64) string {
	names := slices.SortedFunc(maps.Keys(reasons), func(a, b string) int {
		if reasons[a] != reasons[b] {
			return int(min(1, max(-1, int64(reasons[b])-int64(reasons[a]))))
		}
		return strings.Compare(a, b)
	})
	var parts []string
	for _, name := range names {
		parts = append(parts, formatNumber(reasons[name])+" "+reasonText(name))
	}
	return strings.Join(parts, ", ")
}

// bars is a chart of hours as SVG paths: one path for each kind of bar is a
// tenth of the bytes of as many rectangles.
type bars struct {
	Width, Height int
	Stored, Lost  string
	Text          string // what a reader of screens is told
}

// minLost is the least height of what was lost: never too small to be seen.
const minLost = 8

// chart draws the hours. A bar of records is at least a pixel high, and what
// was lost stands above it as an outline.
func chart(u used, barWidth, gap, height int) bars {
	most := uint64(1)
	for _, h := range u.Hours {
		most = max(most, h.Stored+h.Dropped)
	}
	var stored, lost strings.Builder
	for i, h := range u.Hours {
		x := i * (barWidth + gap)
		high, above := share(h.Stored, most, height, 1), share(h.Dropped, most, height, minLost)
		high = min(high, height-above)
		if high > 0 {
			fmt.Fprintf(&stored, "M%d %dh%dv%dh-%dz", x, height-high, barWidth, high, barWidth)
		}
		if above > 0 {
			fmt.Fprintf(&lost, "M%d.5 %d.5h%dv%dh-%dz", x, height-high-above, barWidth-1, above-1, barWidth-1)
		}
	}
	text := fmt.Sprintf("Records by hour over %d hours: %s stored", len(u.Hours), formatNumber(u.Stored))
	if u.Dropped > 0 {
		text += ", " + formatNumber(u.Dropped) + " lost"
	}
	return bars{len(u.Hours)*(barWidth+gap) - gap, height, stored.String(), lost.String(), text}
}

// share is n's part of the height, at least the least where n is not 0.
func share(n, most uint64, height, least int) int {
	if n == 0 {
		return 0
	}
	return max(least, int(float64(n)/float64(most)*float64(height)))
}

// meter is how much of a quota is used.
type meter struct {
	Name    string
	Used    string
	Limit   string
	Percent int
	Width   int    // 0 to 100
	Class   string // empty, warn from 80, over from 100
	Resets  string
}

func newMeter(name string, n uint64, limit int64, format func(uint64) string, resets time.Duration) meter {
	percent := int(min(9999, float64(n)*100/float64(limit)))
	m := meter{Name: name, Used: format(n), Limit: format(uint64(limit)), Percent: percent, Width: min(100, percent), Resets: ahead(resets)}
	switch {
	case percent >= 100:
		m.Class = "over"
	case percent >= 80:
		m.Class = "warn"
	}
	return m
}

// meters are the project's quotas that are limits, the fullest first.
func meters(u used, quotas project.Quotas, now time.Time) []meter {
	var list []meter
	if quotas.DailyRecords > 0 {
		next := now.Truncate(24 * time.Hour).Add(24 * time.Hour)
		list = append(list, newMeter("Records today", u.Today, quotas.DailyRecords, formatCount, next.Sub(now)))
	}
	if quotas.MonthlyBytes > 0 {
		next := monthOf(now).AddDate(0, 1, 0)
		list = append(list, newMeter("Volume this month", u.Month, quotas.MonthlyBytes, formatBytes, next.Sub(now)))
	}
	slices.SortStableFunc(list, func(a, b meter) int { return b.Percent - a.Percent })
	return list
}
