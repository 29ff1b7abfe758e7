package quota

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestWindowsFollowOneAnother(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		project := rapid.StringMatching(`[a-z0-9._-]{1,40}~[0-9a-z]{8}`).Draw(t, "project")
		now := time.Unix(rapid.Int64Range(0, 4102444800).Draw(t, "now"), rapid.Int64Range(0, 999999999).Draw(t, "ns"))
		day, month := Windows(project, now)
		if !day.contains(now) || !month.contains(now) {
			t.Fatalf("%s is not in %v or %v", now, day, month)
		}
		if day.End.Sub(day.Start) != 24*time.Hour || day.Start.Before(month.Start) || day.End.After(month.End) {
			t.Fatalf("the day %v in the month %v", day, month)
		}
		nextDay, _ := Windows(project, day.End)
		_, nextMonth := Windows(project, month.End)
		_, lastMonth := Windows(project, month.Start.Add(-1))
		if !nextDay.Start.Equal(day.End) || !nextMonth.Start.Equal(month.End) || !lastMonth.End.Equal(month.Start) {
			t.Fatalf("there is a gap after %v or around %v", day, month)
		}
	})
}

func TestMonthsHaveTheirDays(t *testing.T) {
	t.Parallel()
	for now, days := range map[string]int{
		"2024-02-29T23:59:59Z": 29, "2026-02-10T00:00:00Z": 28, "2026-12-31T23:59:59Z": 31,
		"2026-04-30T23:59:59Z": 30, "2100-02-20T00:00:00Z": 28, "2000-02-20T00:00:00Z": 29,
	} {
		at, err := time.Parse(time.RFC3339, now)
		if err != nil {
			t.Fatal(err)
		}
		_, month := Windows("demo~k3x9qa7d", at)
		if month.End.Sub(month.Start) != time.Duration(days)*24*time.Hour {
			t.Errorf("%s: %v", now, month)
		}
	}
}

func TestWindowsAreTheSameInEveryZoneAndRelease(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 15, 12, 0, 0, 0, time.UTC)
	day, month := Windows("demo~k3x9qa7d", now)
	zoned, _ := Windows("demo~k3x9qa7d", now.In(time.FixedZone("east", 14*60*60)))
	if zoned != day {
		t.Errorf("%v is not %v", zoned, day)
	}
	got := day.Start.Format(time.RFC3339) + " " + month.Start.Format(time.RFC3339) + " " + month.End.Format(time.RFC3339)
	if want := "2026-11-14T17:02:32Z 2026-11-01T17:02:32Z 2026-12-01T17:02:32Z"; got != want {
		t.Errorf("the windows have moved, which would grant limits twice: %s", got)
	}
}

func TestWindowsOfProjectsBeginAtAllHours(t *testing.T) {
	t.Parallel()
	var hours [24]int
	for i := range 2400 {
		hours[offsetOf(fmt.Sprintf("project-%d~k3x9qa7d", i))/time.Hour]++
	}
	for hour, n := range hours {
		if n < 50 || n > 150 {
			t.Errorf("%d of 2400 begin in hour %d", n, hour)
		}
	}
}
