//go:build linux

package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"
)

const (
	sampleEvery = 5 * time.Second
	// warmUp is how old a process must be for its first sample.
	warmUp = 20 * time.Second
)

// sample is what a process holds at one moment. Only our own processes report
// their goroutines.
type sample struct {
	fds, goroutines int
	rss             int64 // bytes
}

// or returns the larger of each.
func (s sample) or(other sample) sample {
	return sample{max(s.fds, other.fds), max(s.goroutines, other.goroutines), max(s.rss, other.rss)}
}

// usage is what one life of a process held: at its beginning, at its end, and at
// most.
type usage struct {
	service           *service
	life              int
	since             time.Duration // from the first sample to the last
	first, last, most sample
	begun             time.Time
	all               []sample // each one, in order
}

// sampler samples all processes regularly. A leak shows as a last sample far above
// the first one, in the longest life of a process.
type sampler struct {
	services []*service
	client   *http.Client
	longest  map[string]usage // by service
	present  map[string]*usage
}

func newSampler(services []*service) *sampler {
	return &sampler{
		services: services,
		client:   &http.Client{Timeout: 2 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}},
		longest:  map[string]usage{},
		present:  map[string]*usage{},
	}
}

// run samples until ctx ends.
func (s *sampler) run(ctx context.Context) {
	for pause(ctx, sampleEvery) == nil {
		for _, service := range s.services {
			s.observe(ctx, service)
		}
	}
}

func (s *sampler) observe(ctx context.Context, from *service) {
	pid, life := from.pid(), from.startNumber()
	u := s.present[from.name]
	if u == nil || u.life != life {
		u = &usage{service: from, life: life, begun: time.Now()}
		s.present[from.name] = u
	}
	now, err := s.sample(ctx, pid, from.ops)
	if err != nil || time.Since(u.begun) < warmUp {
		return // it is stopped, or starting
	}
	if u.first == (sample{}) {
		u.first, u.begun = now, time.Now().Add(-warmUp)
	}
	u.last, u.since = now, time.Since(u.begun)-warmUp
	u.all = append(u.all, now)
	u.most = u.most.or(now)
	if u.since >= s.longest[from.name].since {
		s.longest[from.name] = *u
	}
}

func (s *sampler) sample(ctx context.Context, pid int, ops string) (sample, error) {
	var now sample
	for _, one := range append(children(pid), pid) {
		entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", one))
		if err != nil {
			return now, err
		}
		now.fds += len(entries)
	}
	var err error
	if now.rss, err = resident(pid); err != nil || ops == "" {
		return now, err
	}
	values, err := scrape(ctx, s.client, ops)
	now.goroutines = int(values["go_goroutines"])
	return now, err
}

// resident returns the memory of a process and of its children, in bytes.
func resident(pid int) (int64, error) {
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0, err
	}
	var size, pages int64
	if _, err := fmt.Sscan(string(content), &size, &pages); err != nil {
		return 0, err
	}
	bytes := pages * int64(os.Getpagesize())
	for _, child := range children(pid) {
		if more, err := resident(child); err == nil {
			bytes += more
		}
	}
	return bytes, nil
}

// scrape reads the metrics of a process and returns the values by name and labels.
func scrape(ctx context.Context, client *http.Client, ops string) (map[string]float64, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+ops+"/metrics", nil)
	if err != nil {
		return nil, err
	}
	answer, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	values := map[string]float64{}
	lines := bufio.NewScanner(io.LimitReader(answer.Body, 4<<20))
	for lines.Scan() {
		name, text, _ := strings.Cut(lines.Text(), " ")
		if value, err := strconv.ParseFloat(text, 64); err == nil { // a comment has no value
			values[name] = value
		}
	}
	return values, lines.Err()
}

// write prints the longest life of each process.
func (s *sampler) write(out io.Writer) {
	fmt.Fprintf(out, "\nlongest life\tseconds\tfds\tmost\tgoroutines\tmost\tMiB\tmost\t\n")
	for _, service := range s.services {
		u := s.longest[service.name]
		fmt.Fprintf(out, "%s\t%.0f\t%d to %d\t%d\t%d to %d\t%d\t%d to %d\t%d\t\n", service.name, u.since.Seconds(),
			u.first.fds, u.last.fds, u.most.fds, u.first.goroutines, u.last.goroutines, u.most.goroutines,
			u.first.rss>>20, u.last.rss>>20, u.most.rss>>20)
	}
}
