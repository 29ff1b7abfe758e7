package quota

import (
	"hash/fnv"
	"time"
)

// Window is a span of time in which a quota is counted: Start is in it, End is
// the Start of the next window.
type Window struct {
	Start, End time.Time
}

func (w Window) contains(now time.Time) bool {
	return !now.Before(w.Start) && now.Before(w.End)
}

// Windows returns the day and the month in which a project's records are
// counted now. They are the day and month of UTC, shifted by up to a day: each
// project has its own offset, so that not all quotas reset at once.
func Windows(project string, now time.Time) (day, month Window) {
	return windowOf(DailyRecords, project, now), windowOf(MonthlyBytes, project, now)
}

// windowOf returns the quota's window that contains now.
func windowOf(name Name, project string, now time.Time) Window {
	offset := offsetOf(project)
	shifted := now.UTC().Add(-offset)
	year, month, date := shifted.Date()
	start := time.Date(year, month, date, 0, 0, 0, 0, time.UTC)
	end := start.AddDate(0, 0, 1)
	if name == MonthlyBytes {
		start = time.Date(year, month, 1, 0, 0, 0, 0, time.UTC)
		end = start.AddDate(0, 1, 0)
	}
	return Window{start.Add(offset), end.Add(offset)}
}

// offsetOf returns how long after midnight a project's windows begin. It must
// never change: counters would be split, and limits granted twice.
func offsetOf(project string) time.Duration {
	const secondsOfDay = 24 * 60 * 60
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(project)) // never fails
	return time.Duration(hash.Sum64()%secondsOfDay) * time.Second
}
