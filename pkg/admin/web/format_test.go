package web

import (
	"testing"
	"time"
)

func TestNumbersAreShortAndReadable(t *testing.T) {
	t.Parallel()
	for n, want := range map[uint64]string{0: "0", 999: "999", 9999: "9,999", 10_000: "10 k", 12_345: "12.3 k", 999_960: "1 M", 4_500_000: "4.5 M", 1 << 63: "9.2 E"} {
		if got := formatCount(n); got != want {
			t.Errorf("count of %d is %s, want %s", n, got, want)
		}
	}
	for n, want := range map[uint64]string{0: "0 B", 640: "640 B", 999: "999 B", 1000: "1 kB", 1_234_567: "1.2 MB", 250_000_000_000: "250 GB"} {
		if got := formatBytes(n); got != want {
			t.Errorf("size of %d is %s, want %s", n, got, want)
		}
	}
	for n, want := range map[uint64]string{1: "1", 1000: "1,000", 1_234_567: "1,234,567"} {
		if got := formatNumber(n); got != want {
			t.Errorf("%d is %s", n, got)
		}
	}
}

func TestTimesHaveOneOrTwoUnits(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for gone, want := range map[time.Duration]string{
		0: "just now", 5 * time.Minute: "5 minutes ago", 3 * time.Hour: "3 hours ago", 49 * time.Hour: "2 days ago",
	} {
		if got := since(now.Add(-gone), now); got != want {
			t.Errorf("%s: %s", gone, got)
		}
	}
	if got := since(time.Time{}, now); got != "never" {
		t.Errorf("never: %s", got)
	}
	for left, want := range map[time.Duration]string{time.Second: "1 min", 59 * time.Minute: "59 min", 9*time.Hour + 24*time.Minute: "9 h 24 min", 72 * time.Hour: "3 days"} {
		if got := lengthOf(left); got != want {
			t.Errorf("%s: %s", left, got)
		}
	}
}
