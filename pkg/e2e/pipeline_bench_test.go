package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/logboom/logboom/pkg/embedded/engine/enginetest"
)

// BenchmarkPipeline measures the whole path, from requests until all rows can be
// read and all merges have ended. It runs separate processes, so that the CPU time
// of each is known. The sender shares the machine; its CPU time is not counted.
//
// One iteration sends a fixed number of records: run it with -benchtime 1x.
func BenchmarkPipeline(b *testing.B) {
	lines := variedLines(b)
	for _, load := range []struct {
		name        string
		perBody     int
		bodies      int
		encoding    string
		connections int
	}{
		{"log", 1, 60_000, "", 64},
		{"ndjson1000", 1000, 1000, "", 8},
		{"array1000", 1000, 1000, "", 8},
		{"ndjson1000gzip", 1000, 1000, "gzip", 8},
	} {
		b.Run(load.name, func(b *testing.B) {
			s := separate(b, "LOGBOOM_STREAM_BYTES=3GiB", "LOGBOOM_LOG_LEVEL=info")
			bodies := make([][]byte, min(load.bodies, 200_000/load.perBody))
			next := 0
			for i := range bodies {
				batch := make([]string, load.perBody)
				for j := range batch {
					batch[j] = lines[next%len(lines)]
					next++
				}
				bodies[i] = compress(b, load.encoding, form(b, "bench", batch, strings.HasPrefix(load.name, "array")))
			}
			records := load.bodies * load.perBody
			m := s.measure(b)
			for b.Loop() {
				s.pour(b, bodies, load.bodies, load.encoding, load.connections)
				m.sent = time.Now()
				s.drained(b, m, uint64(records)*uint64(m.rounds+1))
				m.rounds++
			}
			m.report(b, records*m.rounds)
		})
	}
}

// variedLines are the corpus's lines, repeated to 200,000 with their digits
// varied, so that repetition does not make compression look better than it is.
func variedLines(b *testing.B) []string {
	b.Helper()
	var originals []string
	for _, its := range corpus(b) {
		originals = append(originals, its...)
	}
	slices.Sort(originals) // maps are not ordered
	random := rand.New(rand.NewPCG(3, 4))
	lines := make([]string, 0, 200_000)
	for len(lines) < cap(lines) {
		line := []byte(originals[random.IntN(len(originals))])
		for i, c := range line {
			if c >= '0' && c <= '9' && random.IntN(3) == 0 {
				line[i] = byte('0' + random.IntN(10))
			}
		}
		lines = append(lines, string(line))
	}
	return lines
}

// pour posts a number of bodies over a number of connections.
func (s *system) pour(b *testing.B, bodies [][]byte, count int, encoding string, connections int) {
	b.Helper()
	sender := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: connections, MaxConnsPerHost: connections, DisableCompression: true}}
	defer sender.CloseIdleConnections()
	var next atomic.Int64
	var senders sync.WaitGroup
	for range connections {
		senders.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= count {
					return
				}
				if err := s.postOnce(sender, bodies[i%len(bodies)], encoding); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	senders.Wait()
}

func (s *system) postOnce(sender *http.Client, body []byte, encoding string) error {
	request, err := http.NewRequest(http.MethodPost, s.ingest+"/v1/logs/"+s.project, bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Authorization", "Bearer "+s.token)
	if encoding != "" {
		request.Header.Set("Content-Encoding", encoding)
	}
	response, err := sender.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusAccepted {
		return fmt.Errorf("answer %d: %s: %w", response.StatusCode, content, err)
	}
	return nil
}

// measurement is the CPU time of the processes since it began.
type measurement struct {
	s      *system
	pids   map[string]int
	cpu    map[string]time.Duration
	began  time.Time
	sent   time.Time
	lag    time.Duration
	rounds int
}

func (s *system) measure(b *testing.B) *measurement {
	b.Helper()
	m := &measurement{s: s, pids: map[string]int{"nats": s.nats.command.Process.Pid, "engine": enginetest.Engine(b).PID()}, cpu: map[string]time.Duration{}}
	for _, p := range s.processes {
		m.pids[p.name] = p.command.Process.Pid
	}
	if pid, found := child(b, "redis"); found {
		m.pids["redis"] = pid
	}
	for name, pid := range m.pids {
		m.cpu[name] = cpuTime(b, pid)
	}
	m.began = time.Now()
	return m
}

// child finds a child process by the beginning of its name.
func child(b *testing.B, prefix string) (pid int, found bool) {
	b.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		b.Fatal(err)
	}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended
		}
		var parent int
		var state string
		name := content[bytes.IndexByte(content, '(')+1 : bytes.LastIndexByte(content, ')')]
		if _, err := fmt.Sscan(string(content[bytes.LastIndexByte(content, ')')+1:]), &state, &parent); err != nil {
			b.Fatalf("%s: %v", file, err)
		}
		if parent == os.Getpid() && state != "Z" && strings.HasPrefix(string(name), prefix) {
			pid, err = strconv.Atoi(filepath.Base(filepath.Dir(file)))
			return pid, err == nil
		}
	}
	return 0, false
}

// drained waits until all rows can be read and all merges have ended.
func (s *system) drained(b *testing.B, m *measurement, rows uint64) {
	b.Helper()
	for s.ask(b, "SELECT count() FROM logs") < rows {
		<-time.After(20 * time.Millisecond)
	}
	m.lag = time.Since(m.sent)
	for quiet := 0; quiet < 4; {
		<-time.After(500 * time.Millisecond)
		quiet++
		if s.ask(b, "SELECT count() FROM system.merges") > 0 {
			quiet = 0
		}
	}
}

// ask returns the number that a query in ClickHouse returns.
func (s *system) ask(b *testing.B, query string) uint64 {
	b.Helper()
	address, err := url.Parse(s.tables)
	if err != nil {
		b.Fatal(err)
	}
	address.RawQuery = url.Values{"database": {strings.Trim(address.Path, "/")}}.Encode()
	address.Path = "/"
	response, err := http.Post(address.String(), "text/plain", strings.NewReader(query))
	if err != nil {
		b.Fatal(err)
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	if err != nil {
		b.Fatal(err)
	}
	number, err := strconv.ParseUint(strings.TrimSpace(string(content)), 10, 64)
	if err != nil {
		b.Fatalf("%s: %s", query, content)
	}
	return number
}

func (m *measurement) report(b *testing.B, records int) {
	b.Helper()
	per := func(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1000 / float64(records) }
	total := time.Duration(0)
	for name, pid := range m.pids {
		used := cpuTime(b, pid) - m.cpu[name]
		total += used
		b.ReportMetric(per(used), name+"-us/rec")
		b.ReportMetric(float64(peakMemory(b, pid))/(1<<20), name+"-peak-MiB")
	}
	b.ReportMetric(per(total), "all-us/rec")
	b.ReportMetric(float64(records)/m.sent.Sub(m.began).Seconds(), "rec/s")
	b.ReportMetric(m.lag.Seconds(), "lag-s")
	_, size := m.s.queued(b)
	b.ReportMetric(float64(size)/float64(records), "queue-B/rec")
	b.ReportMetric(float64(m.s.ask(b, "SELECT sum(bytes_on_disk) FROM system.parts WHERE active AND database = currentDatabase() AND table = 'logs'"))/float64(records), "disk-B/rec")
}

// ticksPerSecond is the unit of CPU time in /proc, the same on every Linux.
const ticksPerSecond = 100

// cpuTime returns the user and system time of a process.
func cpuTime(b *testing.B, pid int) time.Duration {
	b.Helper()
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		b.Fatal(err)
	}
	// The second field is the name in parentheses, which may hold anything.
	fields := bytes.Fields(content[bytes.LastIndexByte(content, ')')+1:])
	ticks := 0
	for _, field := range fields[11:13] {
		n, err := strconv.Atoi(string(field))
		if err != nil {
			b.Fatal(err)
		}
		ticks += n
	}
	return time.Duration(ticks) * time.Second / ticksPerSecond
}

// peakMemory returns the largest resident memory that a process has had, in bytes.
func peakMemory(b *testing.B, pid int) int {
	b.Helper()
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		b.Fatal(err)
	}
	_, rest, found := strings.Cut(string(content), "VmHWM:")
	if !found {
		b.Fatal("no VmHWM in /proc")
	}
	var kib int
	if _, err := fmt.Sscan(rest, &kib); err != nil {
		b.Fatal(err)
	}
	return kib << 10
}

// BenchmarkAnswerToReadable measures the time from an answer until the log can be
// read, on an idle system.
func BenchmarkAnswerToReadable(b *testing.B) {
	s := standalone(b)
	var times []time.Duration
	for i := 0; b.Loop(); i++ {
		line := fmt.Sprintf("line %d", i)
		body, err := json.Marshal(map[string]string{"data": line})
		if err != nil {
			b.Fatal(err)
		}
		if err := s.postOnce(client, body, ""); err != nil {
			b.Fatal(err)
		}
		began := time.Now()
		for {
			a, err := try(http.MethodGet, s.admin+"/api/v1/projects/"+s.project+"/logs?limit=1&q="+url.QueryEscape(line), bearer(s.apiKey), nil)
			if err != nil {
				b.Fatal(err)
			}
			if bytes.Contains(a.body, []byte(`"`+line+`"`)) {
				break
			}
		}
		times = append(times, time.Since(began))
	}
	slices.Sort(times)
	b.ReportMetric(float64(times[len(times)/2].Microseconds())/1000, "p50-ms")
	b.ReportMetric(float64(times[len(times)*99/100].Microseconds())/1000, "p99-ms")
}
