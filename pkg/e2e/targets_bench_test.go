package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// profilesSetting names a folder for CPU profiles of the processes under load.
const profilesSetting = "LOGBOOM_BENCH_PROFILES"

// bodies generates bodies of n records each, from the lines in turn.
func bodies(b *testing.B, n, count int, form func(b *testing.B, lines []string) []byte) [][]byte {
	b.Helper()
	lines := variedLines(b)
	made := make([][]byte, count)
	for i := range made {
		batch := make([]string, n)
		for j := range batch {
			batch[j] = lines[(i*n+j)%len(lines)]
		}
		made[i] = form(b, batch)
	}
	return made
}

func nativeForm(b *testing.B, lines []string) []byte { return form(b, "bench", lines, false) }

// containerForm returns a body as Docker's splunk driver sends it, without the last
// event. Each request adds an event of its own, because equal bodies are stored once.
func containerForm(b *testing.B, lines []string) []byte {
	b.Helper()
	var body bytes.Buffer
	now := time.Now().Unix()
	for i, line := range lines[:len(lines)-1] {
		text, err := json.Marshal(line)
		if err != nil {
			b.Fatal(err)
		}
		fmt.Fprintf(&body, `{"event":{"line":%s,"source":"stdout","tag":"bench"},"time":"%d.%06d","host":"node-1"}`, text, now, i)
	}
	return body.Bytes()
}

// native returns requests with the bodies in turn.
func (s *system) native(made [][]byte) func(dst []byte, i int) []byte {
	path := "/v1/logs/" + s.project
	return func(dst []byte, i int) []byte { return appendRequest(dst, path, s.token, made[i%len(made)]) }
}

// containers returns requests with the bodies in turn. Each has a different last
// event, and its events have the time at which it is sent.
func (s *system) containers(made [][]byte) func(dst []byte, i int) []byte {
	times := make([][]int, len(made))
	for i, body := range made {
		times[i] = timesOf(body)
	}
	return func(dst []byte, i int) []byte {
		last := fmt.Appendf(nil, `{"event":"request %d"}`, i)
		body := made[i%len(made)]
		dst = appendHead(dst, "/services/collector/event/1.0", s.token, len(body)+len(last))
		start := len(dst)
		dst = append(dst, body...)
		setTimes(dst[start:], times[i%len(made)], time.Now())
		return append(dst, last...)
	}
}

// timeMark is the text before the time of an event of containerForm.
const timeMark = `"time":"`

// timesOf returns the offsets of the times of a body's events.
func timesOf(body []byte) (at []int) {
	for next := 0; ; {
		found := bytes.Index(body[next:], []byte(timeMark))
		if found < 0 {
			return at
		}
		next += found + len(timeMark)
		at = append(at, next)
	}
}

// setTimes sets the times of the events, one microsecond apart.
func setTimes(body []byte, at []int, first time.Time) {
	var digits [20]byte
	for i, start := range at {
		now := strconv.AppendInt(digits[:0], first.UnixMicro()+int64(i), 10)
		seconds := len(now) - 6
		copy(body[start:], now[:seconds])
		copy(body[start+seconds+1:], now[seconds:])
	}
}

// host returns the address of ingest without its scheme.
func (s *system) host() string { return strings.TrimPrefix(s.ingest, "http://") }

// profiled records CPU profiles of the processes during the work, if
// profilesSetting is set.
func (s *system) profiled(b *testing.B, name string, work func()) {
	b.Helper()
	folder := os.Getenv(profilesSetting)
	if folder == "" {
		work()
		return
	}
	ctx, stop := context.WithCancel(b.Context())
	var taking sync.WaitGroup
	for process, address := range s.ops {
		taking.Go(func() {
			if err := profile(ctx, address, filepath.Join(folder, name+"-"+process+".pprof")); err != nil && ctx.Err() == nil {
				b.Errorf("profile of %s: %v", process, err)
			}
		})
	}
	work()
	stop()
	taking.Wait()
}

// profileSeconds is the duration of a profile. Shorter loads have none.
const profileSeconds = 4

func profile(ctx context.Context, address, file string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("%s/debug/pprof/profile?seconds=%d", address, profileSeconds), nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	return os.WriteFile(file, content, 0o600)
}

// perRecord returns the CPU time of each process since m began, and of all
// together, in microseconds per record.
func (m *measurement) perRecord(b *testing.B, records int) map[string]float64 {
	b.Helper()
	used := map[string]float64{}
	for name, pid := range m.pids {
		us := float64((cpuTime(b, pid) - m.cpu[name]).Nanoseconds()) / 1000 / float64(records)
		used[name] = us
		used["all"] += us
	}
	return used
}

// spread writes the CPU time of each process.
func spread(used map[string]float64) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(used)) {
		parts = append(parts, fmt.Sprintf("%s %.2f", name, used[name]))
	}
	return strings.Join(parts, ", ")
}

// measured returns the settings of the measured system. Its quotas are never
// reached, but their cost is part of the figures.
var measured = []string{
	"LOGBOOM_STREAM_BYTES=3GiB", "LOGBOOM_LOG_LEVEL=info",
	"LOGBOOM_QUOTA_RATE=100000000", "LOGBOOM_QUOTA_DAILY_RECORDS=1000000000000", "LOGBOOM_QUOTA_MONTHLY_BYTES=1024GiB",
}

// kinds are the kinds of load that are compared.
var kinds = map[string]struct {
	records, connections int
	requests             func(b *testing.B, s *system) func([]byte, int) []byte
}{
	"single": {1, 64, func(b *testing.B, s *system) func([]byte, int) []byte {
		return s.native(bodies(b, 1, 200_000, nativeForm))
	}},
	"native": {1000, 8, func(b *testing.B, s *system) func([]byte, int) []byte {
		return s.native(bodies(b, 1000, 200, nativeForm))
	}},
	"hec": {1000, 8, func(b *testing.B, s *system) func([]byte, int) []byte {
		return s.containers(bodies(b, 1000, 200, containerForm))
	}},
}

// costs sends requests of a kind at full speed. It returns the CPU time per record
// until all can be read and all merges have ended.
func (s *system) costs(b *testing.B, kind string, count int) (used map[string]float64, perSecond float64, m *measurement) {
	b.Helper()
	k := kinds[kind]
	requests := k.requests(b, s)
	stored := s.ask(b, "SELECT count() FROM logs")
	m = s.measure(b)
	s.profiled(b, kind, func() {
		load{address: s.host(), connections: k.connections, count: count, request: requests}.run(b.Context(), b)
	})
	m.sent = time.Now()
	s.drained(b, m, stored+uint64(count*k.records))
	records := count * k.records
	return m.perRecord(b, records), float64(records) / m.sent.Sub(m.began).Seconds(), m
}

// BenchmarkCost measures CPU time per record of the whole path for several kinds of
// load. To compare two builds, run them in turns.
func BenchmarkCost(b *testing.B) {
	counts := map[string]int{"single": 100_000, "native": 1500, "hec": 1500}
	for _, kind := range slices.Sorted(maps.Keys(counts)) {
		b.Run(kind, func(b *testing.B) {
			s := separate(b, measured...)
			for b.Loop() {
				used, perSecond, m := s.costs(b, kind, counts[kind])
				for name, us := range used {
					b.ReportMetric(us, name+"-us/rec")
				}
				b.ReportMetric(perSecond, "rec/s")
				b.ReportMetric(m.lag.Seconds(), "lag-s")
			}
		})
	}
}
