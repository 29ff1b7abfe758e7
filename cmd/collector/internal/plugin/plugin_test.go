package plugin

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/klauspost/compress/gzip"

	"github.com/logboom/logboom/cmd/collector/internal/delivery"
	"github.com/logboom/logboom/cmd/collector/internal/dockertest"
	"github.com/logboom/logboom/cmd/collector/internal/entry"
	"github.com/logboom/logboom/cmd/collector/internal/hectest"
	"github.com/logboom/logboom/pkg/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// fast makes a route retry soon.
var fast = delivery.Timing{Timeout: 20 * time.Second, MinPause: 10 * time.Millisecond, MaxPause: 50 * time.Millisecond, RefusedPause: 50 * time.Millisecond}

// fixture is a collector with its spool and its log.
type fixture struct {
	t       *testing.T
	spool   string
	service *Service
	logged  *lockedBuffer
}

// lockedBuffer is a buffer for several goroutines.
type lockedBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func newFixture(t *testing.T, change ...func(*Config)) *fixture {
	t.Helper()
	w := &fixture{t: t, spool: t.TempDir(), logged: &lockedBuffer{}}
	w.open(change...)
	t.Cleanup(w.close)
	return w
}

func (w *fixture) open(change ...func(*Config)) {
	w.t.Helper()
	cfg := Config{SpoolDir: w.spool, SpoolBytes: 64 << 20, StopTimeout: 10 * time.Second, Timing: fast}
	for _, c := range change {
		c(&cfg)
	}
	service, err := Open(cfg, slog.New(slog.NewJSONHandler(w.logged, nil)))
	if err != nil {
		w.t.Fatal(err)
	}
	w.service = service
}

func (w *fixture) close() {
	w.t.Helper()
	if w.service == nil {
		return
	}
	if err := w.service.Close(); err != nil {
		w.t.Error(err)
	}
	w.service = nil
}

// call sends a request as dockerd does and returns the Err of the answer.
func (w *fixture) call(path string, request any) string {
	w.t.Helper()
	body, err := json.Marshal(request)
	if err != nil {
		w.t.Fatal(err)
	}
	recorder := httptest.NewRecorder()
	w.service.Handler().ServeHTTP(recorder, httptest.NewRequest(http.MethodPost, path, bytes.NewReader(body)))
	var answer struct{ Err string }
	if err := json.Unmarshal(recorder.Body.Bytes(), &answer); err != nil || recorder.Code != http.StatusOK {
		w.t.Fatalf("%s: answer %d: %s", path, recorder.Code, recorder.Body)
	}
	return answer.Err
}

func (w *fixture) start(l *dockertest.Log, to *hectest.Server, options ...string) {
	w.t.Helper()
	if problem := w.call("/LogDriver.StartLogging", startRequest(l, to, options...)); problem != "" {
		w.t.Fatal(problem)
	}
}

func (w *fixture) stop(l *dockertest.Log) {
	w.t.Helper()
	if problem := w.call("/LogDriver.StopLogging", map[string]string{"File": l.Path}); problem != "" {
		w.t.Fatal(problem)
	}
	l.Close()
}

// canary is a secret in what Docker sends. It must never be shown.
const canary = "canary-7f3a"

func startRequest(l *dockertest.Log, to *hectest.Server, options ...string) map[string]any {
	config := map[string]string{"collector-url": to.URL, "collector-token": "lgb_" + canary, "collector-batch-interval": "20ms"}
	for i := 0; i < len(options); i += 2 {
		config[options[i]] = options[i+1]
	}
	return map[string]any{"File": l.Path, "Info": map[string]any{
		"Config": config, "ContainerID": "0123456789abcdef", "ContainerName": "/web", "ContainerImageName": "shop/web",
		"ContainerEnv": []string{"VERSION=7", "PASSWORD=" + canary}, "ContainerLabels": map[string]string{"team": "shop"}, "DaemonName": "docker",
	}}
}

// lines returns n numbered lines.
func lines(from, n int) (all []string) {
	for i := range n {
		all = append(all, fmt.Sprintf("line %06d", from+i))
	}
	return all
}

func write(l *dockertest.Log, all []string) {
	for _, text := range all {
		l.Line("stdout", text)
	}
}

// wantLines waits for lines and checks that exactly these arrived, in this order.
func wantLines(t *testing.T, to *hectest.Server, want []string) []hectest.Event {
	t.Helper()
	events := to.Await(fmt.Sprintf("%d lines", len(want)), func(e []hectest.Event) bool { return len(e) >= len(want) })
	if len(events) != len(want) {
		t.Fatalf("%d lines arrived, want %d", len(events), len(want))
	}
	for i, e := range events {
		if e.Event.Line != want[i] {
			t.Fatalf("line %d is %.80q, want %.80q", i, e.Event.Line, want[i])
		}
	}
	return events
}

// waitForNoSession waits until the collector has no session any more.
func (w *fixture) waitForNoSession() {
	w.t.Helper()
	for deadline := time.Now().Add(time.Minute); len(w.service.Status().Sessions) > 0; <-time.After(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			w.t.Fatalf("sessions are left: %+v", w.service.Status())
		}
	}
}

func TestLinesArriveOnceInOrderWithTheirAttributes(t *testing.T) {
	t.Parallel()
	for _, compression := range []string{"gzip", "zstd", "none"} {
		t.Run(compression, func(t *testing.T) {
			t.Parallel()
			w, to, l := newFixture(t), hectest.New(t), dockertest.NewLog(t)
			w.start(l, to, "collector-compression", compression, "tag", "{{.Name}}/{{.ImageName}}", "labels", "team", "env-regex", "^VER")
			want := lines(0, 5000)
			write(l, want)
			w.stop(l)
			events := wantLines(t, to, want)
			host, _ := os.Hostname()
			for _, e := range events[:3] {
				if e.Event.Source != "stdout" || e.Event.Tag != "web/shop/web" || e.Host != host || e.Event.Attrs["team"] != "shop" || e.Event.Attrs["VERSION"] != "7" || len(e.Event.Attrs) != 2 {
					t.Fatalf("event %+v", e)
				}
				if _, fraction, ok := strings.Cut(e.Time, "."); !ok || len(fraction) != 9 {
					t.Fatalf("time %q has no nanoseconds", e.Time)
				}
			}
			w.waitForNoSession()
			if left, err := os.ReadDir(w.spool); err != nil || len(left) != 1 {
				t.Errorf("left in the spool: %v, %v", left, err)
			}
		})
	}
}

func TestLongLinesAndALastLineWithoutNewlineArriveWhole(t *testing.T) {
	t.Parallel()
	w, to, l := newFixture(t), hectest.New(t), dockertest.NewLog(t)
	w.start(l, to)
	long := strings.Repeat("0123456789abcdef", 40<<10/16)
	l.Line("stdout", long)
	l.Line("stderr", "\x00\x1b[31m \"quoted\" \\ \xff\xfe grüße 🚀 \t end\r")
	l.Entry(&entry.Entry{Source: "stdout", Time: 1, Line: []byte("no newline"), Partial: true, ID: "x", Ordinal: 1})
	to.Await("the first two", func(e []hectest.Event) bool { return len(e) == 2 })
	w.stop(l)
	events := wantLines(t, to, []string{long, "\x00\x1b[31m \"quoted\" \\ \ufffd\ufffd grüße 🚀 \t end\r", "no newline"})
	if events[1].Event.Source != "stderr" || len(events[2].Event.Attrs) != 0 {
		t.Errorf("events %+v", events[1:])
	}
}

func TestLinesArePendingWhileTheServerFailsAndTheContainerGoesOn(t *testing.T) {
	t.Parallel()
	w, to, l := newFixture(t), hectest.New(t), dockertest.NewLog(t)
	to.Answer(func(n int, _ hectest.Request) (int, map[string]string) {
		return []int{503, 429, 500, 401, 403, 404, 0}[min(n, 6)], map[string]string{"Retry-After": "0"}
	})
	w.start(l, to)
	want := lines(0, 20_000)
	write(l, want) // it fails if a write blocks for a minute
	to.AwaitRequests(8)
	if session := w.service.Status().Sessions[0]; session.Pending == 0 || len(w.service.Status().Routes) != 1 {
		t.Errorf("status %+v", session)
	}
	to.Answer(nil)
	wantLines(t, to, want)
}

func TestARestartResumesTheSessions(t *testing.T) {
	t.Parallel()
	w, to, l := newFixture(t), hectest.New(t), dockertest.NewLog(t)
	down := func(int, hectest.Request) (int, map[string]string) { return 503, nil }
	to.Answer(down)
	w.start(l, to)
	write(l, lines(0, 1000))
	l.Raw(dockertest.AppendFrame(nil, &entry.Entry{Source: "stdout", Time: 9, Line: []byte("line 001000")})[:9]) // an incomplete frame
	to.AwaitRequests(1)
	w.service.cfg.StopTimeout = 0
	w.service.cancel() // no time to deliver
	w.close()
	l.Raw(dockertest.AppendFrame(nil, &entry.Entry{Source: "stdout", Time: 9, Line: []byte("line 001000")})[9:])
	write(l, lines(1001, 99)) // no process reads the FIFO
	w.open()
	write(l, lines(1100, 100))
	to.AwaitRequests(2)
	to.Answer(nil)
	wantLines(t, to, lines(0, 1200))
	w.stop(l)
	w.waitForNoSession()
}

func TestTheStreamOfAnEndedContainerIsDeliveredAfterARestart(t *testing.T) {
	t.Parallel()
	w, to, l := newFixture(t), hectest.New(t), dockertest.NewLog(t)
	to.Answer(func(int, hectest.Request) (int, map[string]string) { return 503, nil })
	w.start(l, to)
	write(l, lines(0, 100))
	to.AwaitRequests(1)
	w.service.cancel()
	w.close()
	l.Close()
	to.Answer(nil)
	w.open()
	wantLines(t, to, lines(0, 100))
	w.waitForNoSession()
}

func TestAFullSpoolDropsTheOldestLinesAndReportsIt(t *testing.T) {
	t.Parallel()
	w, to, l := newFixture(t, func(c *Config) { c.SpoolBytes = 1 << 20 }), hectest.New(t), dockertest.NewLog(t)
	to.Answer(func(int, hectest.Request) (int, map[string]string) { return 503, nil })
	w.start(l, to)
	const n = 60_000
	write(l, lines(0, n))
	if status := w.service.Status().Spool; status.Bytes > status.MaxBytes+256<<10 {
		t.Errorf("the spool holds %d bytes, its bound is %d", status.Bytes, status.MaxBytes)
	}
	to.Answer(nil)
	last := fmt.Sprintf("line %06d", n-1)
	events := to.Await("the last line", func(e []hectest.Event) bool { return len(e) > 0 && e[len(e)-1].Event.Line == last })
	reported, next := 0, 0
	for _, e := range events {
		if e.Event.Source == "collector" {
			var lost int
			if _, err := fmt.Sscanf(e.Event.Line, "warning: the collector dropped %d lines of this container, written from", &lost); err != nil {
				t.Fatalf("%v: %s", err, e.Event.Line)
			}
			reported += lost
			continue
		}
		var number int
		if _, err := fmt.Sscanf(e.Event.Line, "line %d", &number); err != nil || number < next {
			t.Fatalf("%q after line %d", e.Event.Line, next-1)
		}
		next = number + 1
	}
	arrived := 0
	for _, e := range events {
		if e.Event.Source == "stdout" {
			arrived++
		}
	}
	if reported == 0 || reported+arrived != n {
		t.Errorf("%d lines arrived and %d were reported as lost, of %d", arrived, reported, n)
	}
}

func TestReadingTheLogOfAStoppedContainerSendsNothing(t *testing.T) {
	t.Parallel()
	w, to := newFixture(t), hectest.New(t)
	for range 3 {
		l := dockertest.NewLog(t)
		w.start(l, to)
		w.start(l, to) // dockerd repeats a call whose answer it has missed
		w.stop(l)
		w.stop(l)
	}
	w.waitForNoSession()
	if events := to.Events(); len(events) != 0 {
		t.Errorf("events %+v", events)
	}
}

func TestAWrongOptionIsNamedAndRefused(t *testing.T) {
	t.Parallel()
	w, to, l := newFixture(t), hectest.New(t), dockertest.NewLog(t)
	for option, value := range map[string]string{
		"collector-urll": "x", "collector-url": "ftp://x", "collector-token-file": "/nonexistent/" + canary[:3], "collector-ca": "/dev/null", "tag": "{{.Nope}}",
	} {
		options := []string{option, value}
		request := startRequest(l, to, options...)
		if option == "collector-token-file" {
			delete(request["Info"].(map[string]any)["Config"].(map[string]string), "collector-token")
		}
		if problem := w.call("/LogDriver.StartLogging", request); !strings.Contains(problem, option) {
			t.Errorf("%s: %q", option, problem)
		}
	}
	if sessions := w.service.Status().Sessions; len(sessions) != 0 {
		t.Errorf("sessions %+v", sessions)
	}
}

func TestSecretsAreNeverLoggedOrShown(t *testing.T) {
	t.Parallel()
	w, to, l := newFixture(t), hectest.New(t), dockertest.NewLog(t)
	to.Answer(func(n int, _ hectest.Request) (int, map[string]string) {
		return []int{401, 500, 400, 200}[min(3, n)], nil
	})
	w.start(l, to)
	write(l, lines(0, 10))
	to.AwaitRequests(3)
	answers := w.call("/LogDriver.StartLogging", startRequest(dockertest.NewLog(t), to, "tag", "{{.Nope}}")) + w.call("/LogDriver.StartLogging", "{{")
	for _, path := range []string{"/status", "/metrics"} {
		recorder := httptest.NewRecorder()
		w.service.Handler().ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, path, nil))
		text, err := io.ReadAll(recorder.Body)
		if err != nil || recorder.Code != http.StatusOK {
			t.Fatalf("%s: %d, %v", path, recorder.Code, err)
		}
		answers += string(text)
	}
	w.stop(l)
	w.waitForNoSession()
	for where, text := range map[string]string{"log": w.logged.String(), "answers": answers} {
		if text == "" || strings.Contains(text, canary) {
			t.Errorf("%s: %s", where, text)
		}
	}
}

func TestABrokenFrameDoesNotStopTheLog(t *testing.T) {
	t.Parallel()
	w, to, l := newFixture(t), hectest.New(t), dockertest.NewLog(t)
	w.start(l, to)
	l.Line("stdout", "before")
	l.Raw([]byte("\x00\x00\x00\x02\xff\xff")) // a frame without an entry
	l.Line("stdout", "between")
	to.Await("two lines", func(e []hectest.Event) bool { return len(e) == 2 })
	l.Raw([]byte("\xff\xff\xff\xff what is this"))
	to.Await("the report of the loss", func(e []hectest.Event) bool { return len(e) == 3 && e[2].Event.Source == "collector" })
	for i := 0; len(to.Events()) < 4; i++ { // the first lines may be discarded with the rest
		l.Line("stdout", "after")
		<-time.After(20 * time.Millisecond)
		if i > 3000 {
			t.Fatal("no line arrived after it")
		}
	}
}

func TestManyContainersShareFewConnections(t *testing.T) {
	t.Parallel()
	w, to := newFixture(t), hectest.New(t)
	const containers, each = 200, 20
	logs := make([]*dockertest.Log, containers)
	for i := range logs {
		logs[i] = dockertest.NewLog(t)
		w.start(logs[i], to, "tag", fmt.Sprint(i))
		write(logs[i], lines(0, each))
	}
	for _, l := range logs {
		w.stop(l)
	}
	events := to.Await("all lines", func(e []hectest.Event) bool { return len(e) >= containers*each })
	next := map[string]int{}
	for _, e := range events {
		if want := fmt.Sprintf("line %06d", next[e.Event.Tag]); e.Event.Line != want {
			t.Fatalf("container %s: %s, want %s", e.Event.Tag, e.Event.Line, want)
		}
		next[e.Event.Tag]++
	}
	w.waitForNoSession()
}

// BenchmarkLine measures a line from the FIFO to a server on the same machine,
// compressed.
func BenchmarkLine(b *testing.B) {
	for _, size := range []int{100, 1000} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			var received atomic.Int64
			done := make(chan struct{})
			want := int64(0)
			server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				reader, err := gzip.NewReader(r.Body)
				if err != nil {
					b.Error(err)
					return
				}
				body, err := io.ReadAll(reader)
				if err != nil {
					b.Error(err)
				}
				if received.Add(int64(bytes.Count(body, []byte(`{"event"`)))) == want {
					close(done)
				}
			}))
			defer server.Close()
			service, err := Open(Config{SpoolDir: b.TempDir(), SpoolBytes: 1 << 30, Timing: fast}, slog.New(slog.DiscardHandler))
			if err != nil {
				b.Fatal(err)
			}
			l := dockertest.NewLog(b)
			if err := service.Start(l.Path, Info{Config: map[string]string{"collector-url": server.URL, "collector-token": "x"}}); err != nil {
				b.Fatal(err)
			}
			text := strings.Repeat("0123456789", size/10)
			b.SetBytes(int64(size))
			b.ReportAllocs()
			b.ResetTimer()
			want = int64(b.N)
			for range b.N {
				l.Line("stdout", text)
			}
			service.Stop(l.Path)
			<-done
			b.StopTimer()
			if err := service.Close(); err != nil {
				b.Error(err)
			}
		})
	}
}
