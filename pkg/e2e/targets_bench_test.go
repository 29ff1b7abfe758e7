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

// bodies are made ones, n records each, of lines in turn.
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

// containerForm is what Docker's splunk driver sends, but for the last event,
// which each request makes its own: a repeat of a body would be stored once.
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

// native is requests with the bodies in turn.
func (s *system) native(made [][]byte) func(dst []byte, i int) []byte {
	path := "/v1/logs/" + s.project
	return func(dst []byte, i int) []byte { return appendRequest(dst, path, s.token, made[i%len(made)]) }
}

// containers is requests with the bodies in turn, each made another: its last
// event is its own, and its events are of the time at which it is sent.
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

// timeMark stands before the time of an event that containerForm made.
const timeMark = `"time":"`

// timesOf is where the times of a body's events begin.
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

// setTimes gives the events times a microsecond apart.
func setTimes(body []byte, at []int, first time.Time) {
	var digits [20]byte
	for i, start := range at {
		now := strconv.AppendInt(digits[:0], first.UnixMicro()+int64(i), 10)
		seconds := len(now) - 6
		copy(body[start:], now[:seconds])
		copy(body[start+seconds+1:], now[seconds:])
	}
}

// host is the address of ingest without its scheme.
func (s *system) host() string { return strings.TrimPrefix(s.ingest, "http://") }

// profiled takes CPU profiles of the processes while work goes on, where that
// is asked for.
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

// profileSeconds is how long a profile is taken; shorter loads have none.
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

// perRecord is the CPU time that each process has used since m began, and all
// together, in microseconds a record.
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

// spread writes who used what.
func spread(used map[string]float64) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(used)) {
		parts = append(parts, fmt.Sprintf("%s %.2f", name, used[name]))
	}
	return strings.Join(parts, ", ")
}

// measured are the settings of the system that is measured: quotas that nobody
// reaches, so that what they cost is in the figures.
var measured = []string{
	"LOGBOOM_STREAM_BYTES=3GiB", "LOGBOOM_LOG_LEVEL=info",
	"LOGBOOM_QUOTA_RATE=100000000", "LOGBOOM_QUOTA_DAILY_RECORDS=1000000000000", "LOGBOOM_QUOTA_MONTHLY_BYTES=1024GiB",
}

// kinds of load that are compared.
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

// costs sends so many requests of a kind at full speed, and gives the CPU time
// a record until all can be read and no merge is left to do.
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

// BenchmarkCost is CPU time a record of the whole way, for a few kinds of
// load: the figure to put beside another build's, in turns.
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
