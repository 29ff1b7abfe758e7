package e2e

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"os"
	"strings"
	"syscall"
	"testing"
	"text/tabwriter"
	"time"
)

// sustainSetting is how long the system runs at full speed. Default 5m.
const sustainSetting = "LOGBOOM_BENCH_SUSTAIN"

// table lists targets beside measured values of one run.
type table struct{ rows [][4]string }

// add adds a row: the measured value, and whether it is within the target.
func (t *table) add(workload, target string, met bool, measured string, values ...any) {
	verdict := "met"
	if !met {
		verdict = "missed"
	}
	t.rows = append(t.rows, [4]string{workload, target, fmt.Sprintf(measured, values...), verdict})
}

func (t *table) String() string {
	var text strings.Builder
	out := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprintln(out, "workload\ttarget\tmeasured\t")
	for _, row := range t.rows {
		fmt.Fprintln(out, strings.Join(row[:], "\t"))
	}
	_ = out.Flush() // writing to a strings.Builder never fails
	return text.String()
}

// BenchmarkTargets prints the table of docs/performance.md. Each part starts its own
// system. Run it with -benchtime 1x.
func BenchmarkTargets(b *testing.B) {
	var t table
	for _, part := range []struct {
		name    string
		measure func(b *testing.B, t *table)
	}{
		{"bodies", bodyTargets},
		{"disk", diskTargets},
		{"single", singleTargets},
		{"sustained", sustainedTargets},
		{"lag", lagTargets},
		{"idle", idleTargets},
	} {
		b.Run(part.name, func(b *testing.B) { part.measure(b, &t) })
	}
	// Printed, because go test shows no log of a benchmark with sub-benchmarks.
	fmt.Printf("\nload average of the machine at the end: %s\n%s\n", machineLoad(b), &t)
}

// machineLoad is the load average of the machine.
func machineLoad(b *testing.B) string {
	b.Helper()
	content, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		b.Fatal(err)
	}
	return string(bytes.TrimSpace(content))
}

func bodyTargets(b *testing.B, t *table) {
	const count = 1500
	for _, kind := range []string{"hec", "native"} {
		s := separate(b, measured...)
		used, perSecond, _ := s.costs(b, kind, count)
		t.add(kind+" bodies of 1000, all processes and engine, merges settled", "<= 6 us/line", used["all"] <= 6,
			"%.2f us/line (%s) at %.0f lines/s", used["all"], spread(used), perSecond)
		if kind == "hec" {
			t.add("ingest alone, hec bodies of 1000", "<= 1.5 us/line", used["ingest"] <= 1.5, "%.2f us/line", used["ingest"])
		}
	}
}

// diskTargets stores each line once, because a second copy would compress to almost nothing.
func diskTargets(b *testing.B, t *table) {
	s := separate(b, measured...)
	const lines = 200_000
	s.costs(b, "native", lines/1000)
	run(b, s.tables, "OPTIMIZE TABLE logs FINAL")
	_, size := s.queued(b)
	queue := float64(size) / lines
	disk := func(column string) float64 {
		return float64(s.ask(b, "SELECT toUInt64(sum("+column+")) FROM system.parts_columns WHERE active AND database = currentDatabase() AND table = 'logs'")) / lines
	}
	whole := float64(s.ask(b, "SELECT sum(bytes_on_disk) FROM system.parts WHERE active AND database = currentDatabase() AND table = 'logs'")) / lines
	text := disk("if(column = 'data', column_bytes_on_disk, 0)")
	t.add("disk in ClickHouse with the search index, digits varied", "<= 40 B/line", whole <= 40,
		"%.1f B/line, of which %.1f are the text (%.1f the entropy of its varied digits)", whole, text, digitEntropy(b))
	t.add("disk on the queue", "<= 80 B/line", queue <= 80, "%.1f B/line", queue)
}

// digitEntropy is the entropy of the varied digits, a third of all digits, in bytes
// per line. No codec can compress them below it.
func digitEntropy(b *testing.B) float64 {
	b.Helper()
	digits, lines := 0, variedLines(b)
	for _, line := range lines {
		for _, c := range []byte(line) {
			if '0' <= c && c <= '9' {
				digits++
			}
		}
	}
	return float64(digits) / float64(len(lines)) / 3 * math.Log2(10) / 8
}

func singleTargets(b *testing.B, t *table) {
	s := separate(b, measured...)
	const requests = 150_000
	used, perSecond, _ := s.costs(b, "single", requests)
	both := used["ingest"] + used["nats"]
	messages, size := s.queued(b)
	answering, queueing := s.httpFloor(b), s.queueFloor(b, messages, size/messages, requests)
	t.add("one log a request, 64 connections, ingest + queue, full speed", "<= 25 us/request", both <= 25,
		"%.1f us (%s) at %.0f/s; alone: net/http and echo %.1f, the queue %.1f, %d messages", both, spread(used), perSecond, answering, queueing, messages)

	const rate, seconds = 10_000, 15
	pace := load{address: s.host(), connections: 64, rate: rate, count: seconds * rate, request: kinds["single"].requests(b, s)}
	m := s.measure(b)
	paced := pace.run(b.Context(), b)
	s.drained(b, m, requests+seconds*rate)
	alone := s.unread(b, pace)
	p99 := paced.percentile(99)
	t.add("the same at 10,000/s: due to answered", "p99 <= 20 ms", len(paced.latencies) == seconds*rate && p99 <= 20*time.Millisecond,
		"p50 %.1f ms, p99 %.1f ms; without writer and engine, which share cores and disk, p50 %.1f ms, p99 %.1f ms",
		milliseconds(paced.percentile(50)), milliseconds(p99), milliseconds(alone.percentile(50)), milliseconds(alone.percentile(99)))
}

// unread runs a load while the writer is paused, so that the engine is idle.
func (s *system) unread(b *testing.B, l load) *flow {
	b.Helper()
	writer := s.measure(b).pids["writer"]
	if err := syscall.Kill(writer, syscall.SIGSTOP); err != nil {
		b.Fatal(err)
	}
	defer func() {
		if err := syscall.Kill(writer, syscall.SIGCONT); err != nil {
			b.Error(err)
		}
	}()
	return l.run(b.Context(), b)
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// memory is the memory of processes, measured every second.
type memory struct {
	most         map[string]int // the largest of the whole time, in bytes
	early, late  map[string]int // the largest of the second fifth and of the last fifth
	costs, lines []float64      // at the end of each fifth: CPU time and lines so far
}

func sustainedTargets(b *testing.B, t *table) {
	length := 5 * time.Minute
	if text := os.Getenv(sustainSetting); text != "" {
		var err error
		if length, err = time.ParseDuration(text); err != nil || length < time.Minute {
			b.Fatalf("%s is %q: give a duration of a minute or more, such as 5m (%v)", sustainSetting, text, err)
		}
	}
	s := separate(b, measured...)
	requests := kinds["hec"].requests(b, s)
	ctx, cancel := context.WithTimeout(b.Context(), length)
	defer cancel()
	m := s.measure(b)
	f, wait := load{address: s.host(), connections: 8, request: requests}.start(ctx, b)
	watched := s.watch(ctx, b, m, f, length)
	wait()
	elapsed := time.Since(m.began).Seconds()
	m.sent = time.Now()
	lines := float64(f.done.Load()) * 1000
	t.add(fmt.Sprintf("hec bodies of 1000, held for %s", length), ">= 200,000 lines/s", lines/elapsed >= 200_000, "%.0f lines/s, %.0f million lines", lines/elapsed, lines/1e6)
	t.addMemory("ingest", 150, watched)
	t.addMemory("writer", 400, watched)
	fifth := func(i int) float64 {
		return (watched.costs[i+1] - watched.costs[i]) / (watched.lines[i+1] - watched.lines[i])
	}
	t.add("cost with stored rows: second fifth of it, last fifth", "no growth", fifth(4) <= fifth(1)*1.25, "%.2f, then %.2f us/line", fifth(1), fifth(4))
	s.drained(b, m, uint64(lines))
}

// watch measures the processes until ctx ends.
func (s *system) watch(ctx context.Context, b *testing.B, m *measurement, f *flow, length time.Duration) memory {
	b.Helper()
	w := memory{most: map[string]int{}, early: map[string]int{}, late: map[string]int{}}
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	mark := func() {
		w.costs = append(w.costs, m.perRecord(b, 1)["all"])
		w.lines = append(w.lines, float64(f.done.Load())*1000)
	}
	mark()
	for {
		select {
		case <-ctx.Done():
			mark()
			return w
		case <-tick.C:
		}
		fifth := int(5 * time.Since(m.began) / length)
		if len(w.costs) <= min(fifth, 4) {
			mark()
		}
		for name, pid := range m.pids {
			bytes := resident(b, pid)
			w.most[name] = max(w.most[name], bytes)
			switch fifth {
			case 1:
				w.early[name] = max(w.early[name], bytes)
			case 4:
				w.late[name] = max(w.late[name], bytes)
			}
		}
	}
}

// addMemory adds a row of a process's memory. It must be bounded, and may grow by a
// tenth and a few MiB.
func (t *table) addMemory(name string, limit int, w memory) {
	early, late := w.early[name]>>20, w.late[name]>>20
	flat := late <= early+early/10+16
	t.add(name+"'s memory at full speed", fmt.Sprintf("<= %d MiB, flat", limit), w.most[name]>>20 <= limit && flat,
		"%d MiB at most; second fifth %d, last fifth %d", w.most[name]>>20, early, late)
}

// resident returns the resident memory of a process, in bytes.
func resident(b *testing.B, pid int) int {
	b.Helper()
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		b.Fatal(err)
	}
	var size, pages int
	if _, err := fmt.Sscan(string(content), &size, &pages); err != nil {
		b.Fatal(err)
	}
	return pages * os.Getpagesize()
}

// lagTargets measures the time from an answer until the log can be read, at half of the full speed.
func lagTargets(b *testing.B, t *table) {
	s := separate(b, measured...)
	const count = 1000
	_, perSecond, _ := s.costs(b, "hec", count)
	half := perSecond / 2 / 1000
	offset := s.ask(b, "SELECT count() FROM logs")
	ctx, cancel := context.WithTimeout(b.Context(), 20*time.Second)
	defer cancel()
	requests := kinds["hec"].requests(b, s)
	f, wait := load{address: s.host(), connections: 8, rate: half, request: func(dst []byte, i int) []byte { return requests(dst, count+i) }}.start(ctx, b)
	most := time.Duration(0)
	for ctx.Err() == nil {
		answered, at := offset+uint64(f.done.Load())*1000, time.Now()
		for s.ask(b, "SELECT count() FROM logs") < answered {
			<-time.After(10 * time.Millisecond)
		}
		most = max(most, time.Since(at))
	}
	wait()
	t.add("answer to readable at half of the full speed", "<= 2 s", most <= 2*time.Second, "%.2f s at most, at %.0f lines/s", most.Seconds(), half*1000)
}
