//go:build linux

package main

import (
	"strings"
	"testing"
	"time"
)

// life returns samples that differ only in their goroutines.
func life(since time.Duration, goroutines ...int) *usage {
	u := &usage{since: since}
	for _, n := range goroutines {
		u.all = append(u.all, sample{fds: 100, goroutines: n, rss: 50 << 20})
	}
	return u
}

func TestSoakFindsWhatGrows(t *testing.T) {
	t.Parallel()
	long := 10 * time.Minute
	for name, c := range map[string]struct {
		life *usage
		want string
	}{
		"flat":                       {life(long, 100, 100, 100, 100, 100, 100), ""},
		"grows at first":             {life(long, 10, 900, 1000, 1000, 1000, 1000), ""},
		"a burst":                    {life(long, 100, 100, 100, 100, 200, 100), ""},
		"grows all the time":         {life(long, 100, 300, 500, 700, 900, 1100), "700, then 1100 goroutines"},
		"grows in too short a life":  {life(time.Second, 100, 300, 500, 700, 900, 1100), ""},
		"grows, and nobody saw much": {life(long, 100, 5000), ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := strings.Join(c.life.grown(moreFDs), "; "); got != c.want {
				t.Errorf("%q, not %q", got, c.want)
			}
		})
	}
}

func TestSoakFindsFilesAndMemory(t *testing.T) {
	t.Parallel()
	u := &usage{since: time.Hour}
	for i := range 9 {
		u.all = append(u.all, sample{fds: 100 * i, goroutines: 10, rss: int64(i) * 100 << 20})
	}
	got := strings.Join(u.grown(moreFDs), "; ")
	if !strings.Contains(got, "file descriptors") || !strings.Contains(got, "bytes of memory") || strings.Contains(got, "goroutines") {
		t.Errorf("%q", got)
	}
}
