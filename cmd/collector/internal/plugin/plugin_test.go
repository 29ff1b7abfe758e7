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

	"github.com/logboom/logboom/cmd/collector/internal/dockertest"
	"github.com/logboom/logboom/cmd/collector/internal/entry"
	"github.com/logboom/logboom/cmd/collector/internal/hectest"
	"github.com/logboom/logboom/cmd/collector/internal/ship"
	"github.com/logboom/logboom/pkg/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// impatient is for tests: failures are tried again soon.
var impatient = ship.Patience{Attempt: 20 * time.Second, Least: 10 * time.Millisecond, Most: 50 * time.Millisecond, Refused: 50 * time.Millisecond}

// world is a collector, its spool, and what it logs.
type world struct {
	t       *testing.T
	spool   string
	service *Service
	logged  *logged
}

// logged is what a collector has logged.
type logged struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func newWorld(t *testing.T, change ...func(*Config)) *world {
	t.Helper()
	w := &world{t: t, spool: t.TempDir(), logged: &logged{}}
	w.open(change...)
	t.Cleanup(w.close)
	return w
}

func (w *world) open(change ...func(*Config)) {
	w.t.Helper()
	cfg := Config{SpoolDir: w.spool, SpoolBytes: 64 << 20, StopWithin: 10 * time.Second, Patience: impatient}
	for _, c := range change {
		c(&cfg)
	}
	service, err := Open(cfg, slog.New(slog.NewJSONHandler(w.logged, nil)))
	if err != nil {
		w.t.Fatal(err)
	}
	w.service = service
}

func (w *world) close() {
	w.t.Helper()
	if w.service == nil {
		return
	}
	if err := w.service.Close(); err != nil {
		w.t.Error(err)
	}
	w.service = nil
}

// call speaks to the collector as dockerd does; the text is the answer's Err.
func (w *world) call(path string, request any) string {
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

func (w *world) start(l *dockertest.Log, to *hectest.Server, options ...string) {
	w.t.Helper()
	if problem := w.call("/LogDriver.StartLogging", startOf(l, to, options...)); problem != "" {
		w.t.Fatal(problem)
	}
}

func (w *world) stop(l *dockertest.Log) {
	w.t.Helper()
	if problem := w.call("/LogDriver.StopLogging", map[string]string{"File": l.Path}); problem != "" {
		w.t.Fatal(problem)
	}
	l.Close()
}

// canary is in what Docker tells and must never come out.
const canary = "canary-7f3a"

func startOf(l *dockertest.Log, to *hectest.Server, options ...string) map[string]any {
	config := map[string]string{"collector-url": to.URL, "collector-token": "lgb_" + canary, "collector-batch-interval": "20ms"}
	for i := 0; i < len(options); i += 2 {
		config[options[i]] = options[i+1]
	}
	return map[string]any{"File": l.Path, "Info": map[string]any{
		"Config": config, "ContainerID": "0123456789abcdef", "ContainerName": "/web", "ContainerImageName": "shop/web",
		"ContainerEnv": []string{"VERSION=7", "PASSWORD=" + canary}, "ContainerLabels": map[string]string{"team": "shop"}, "DaemonName": "docker",
	}}
}

// lines are n numbered lines.
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

// arrived checks that exactly these lines came, in this order.
func arrived(t *testing.T, to *hectest.Server, want []string) []hectest.Event {
	t.Helper()
	events := to.Await(fmt.Sprintf("%d lines", len(want)), func(e []hectest.Event) bool { return len(e) >= len(want) })
	if len(events) != len(want) {
		t.Fatalf("%d lines came, want %d", len(events), len(want))
	}
	for i, e := range events {
		if e.Event.Line != want[i] {
			t.Fatalf("line %d is %.80q, want %.80q", i, e.Event.Line, want[i])
		}
	}
	return events
}

// gone waits until the collector has no session any more.
func (w *world) gone() {
	w.t.Helper()
	for deadline := time.Now().Add(time.Minute); len(w.service.Status().Sessions) > 0; <-time.After(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			w.t.Fatalf("sessions are left: %+v", w.service.Status())
		}
	}
}

func TestLinesArriveOnceInOrderWithWhatTheyAre(t *testing.T) {
	t.Parallel()
	for _, compression := range []string{"gzip", "zstd", "none"} {
		t.Run(compression, func(t *testing.T) {
			t.Parallel()
			w, to, l := newWorld(t), hectest.New(t), dockertest.NewLog(t)
			w.start(l, to, "collector-compression", compression, "tag", "{{.Name}}/{{.ImageName}}", "labels", "team", "env-regex", "^VER")
			want := lines(0, 5000)
			write(l, want)
			w.stop(l)
			events := arrived(t, to, want)
			host, _ := os.Hostname()
			for _, e := range events[:3] {
				if e.Event.Source != "stdout" || e.Event.Tag != "web/shop/web" || e.Host != host || e.Event.Attrs["team"] != "shop" || e.Event.Attrs["VERSION"] != "7" || len(e.Event.Attrs) != 2 {
					t.Fatalf("event %+v", e)
				}
				if _, fraction, ok := strings.Cut(e.Time, "."); !ok || len(fraction) != 9 {
					t.Fatalf("time %q has no nanoseconds", e.Time)
				}
			}
			w.gone()
			if left, err := os.ReadDir(w.spool); err != nil || len(left) != 1 {
				t.Errorf("left in the spool: %v, %v", left, err)
			}
		})
	}
}

func TestLongLinesArriveWholeAndLastLinesWithoutNewlineToo(t *testing.T) {
	t.Parallel()
	w, to, l := newWorld(t), hectest.New(t), dockertest.NewLog(t)
	w.start(l, to)
	long := strings.Repeat("0123456789abcdef", 40<<10/16)
	l.Line("stdout", long)
	l.Line("stderr", "\x00\x1b[31m \"quoted\" \\ \xff\xfe grüße 🚀 \t end\r")
	l.Entry(&entry.Entry{Source: "stdout", Time: 1, Line: []byte("no newline"), Partial: true, ID: "x", Ordinal: 1})
	to.Await("the first two", func(e []hectest.Event) bool { return len(e) == 2 })
	w.stop(l)
	events := arrived(t, to, []string{long, "\x00\x1b[31m \"quoted\" \\ \ufffd\ufffd grüße 🚀 \t end\r", "no newline"})
	if events[1].Event.Source != "stderr" || len(events[2].Event.Attrs) != 0 {
		t.Errorf("events %+v", events[1:])
	}
}

func TestWhatNobodyTakesWaitsAndTheContainerGoesOn(t *testing.T) {
	t.Parallel()
	w, to, l := newWorld(t), hectest.New(t), dockertest.NewLog(t)
	to.Answer(func(n int, _ hectest.Request) (int, map[string]string) {
		return []int{503, 429, 500, 401, 403, 404, 0}[min(n, 6)], map[string]string{"Retry-After": "0"}
	})
	w.start(l, to)
	want := lines(0, 20_000)
	write(l, want) // no write blocks for a minute, or this fails
	to.AwaitRequests(8)
	if waiting := w.service.Status().Sessions[0]; waiting.Waiting == 0 || len(w.service.Status().Routes) != 1 {
		t.Errorf("status %+v", waiting)
	}
	to.Answer(nil)
	arrived(t, to, want)
}

func TestARestartGoesOnWhereItWas(t *testing.T) {
	t.Parallel()
	w, to, l := newWorld(t), hectest.New(t), dockertest.NewLog(t)
	down := func(int, hectest.Request) (int, map[string]string) { return 503, nil }
	to.Answer(down)
	w.start(l, to)
	write(l, lines(0, 1000))
	l.Raw(entry.Append(nil, &entry.Entry{Source: "stdout", Time: 9, Line: []byte("line 001000")})[:9]) // half a frame
	to.AwaitRequests(1)
	w.service.cfg.StopWithin = 0
	w.service.end() // no time to deliver
	w.close()
	l.Raw(entry.Append(nil, &entry.Entry{Source: "stdout", Time: 9, Line: []byte("line 001000")})[9:])
	write(l, lines(1001, 99)) // while nobody reads
	w.open()
	write(l, lines(1100, 100))
	to.AwaitRequests(2)
	to.Answer(nil)
	arrived(t, to, lines(0, 1200))
	w.stop(l)
	w.gone()
}

func TestASpoolIsDeliveredWhoseContainerHasEnded(t *testing.T) {
	t.Parallel()
	w, to, l := newWorld(t), hectest.New(t), dockertest.NewLog(t)
	to.Answer(func(int, hectest.Request) (int, map[string]string) { return 503, nil })
	w.start(l, to)
	write(l, lines(0, 100))
	to.AwaitRequests(1)
	w.service.end()
	w.close()
	l.Close()
	to.Answer(nil)
	w.open()
	arrived(t, to, lines(0, 100))
	w.gone()
}

func TestABoundedSpoolDropsTheOldestAndSaysSo(t *testing.T) {
	t.Parallel()
	w, to, l := newWorld(t, func(c *Config) { c.SpoolBytes = 1 << 20 }), hectest.New(t), dockertest.NewLog(t)
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
	told, next := 0, 0
	for _, e := range events {
		if e.Event.Source == "collector" {
			var lost int
			if _, err := fmt.Sscanf(e.Event.Line, "warning: the collector dropped %d lines of this container, written from", &lost); err != nil {
				t.Fatalf("%v: %s", err, e.Event.Line)
			}
			told += lost
			continue
		}
		var number int
		if _, err := fmt.Sscanf(e.Event.Line, "line %d", &number); err != nil || number < next {
			t.Fatalf("%q after line %d", e.Event.Line, next-1)
		}
		next = number + 1
	}
	came := 0
	for _, e := range events {
		if e.Event.Source == "stdout" {
			came++
		}
	}
	if told == 0 || told+came != n {
		t.Errorf("%d lines came and %d were told to be lost, of %d", came, told, n)
	}
}

func TestReadingAStoppedContainersLogSendsNothing(t *testing.T) {
	t.Parallel()
	w, to := newWorld(t), hectest.New(t)
	for range 3 {
		l := dockertest.NewLog(t)
		w.start(l, to)
		w.start(l, to) // dockerd repeats a call whose answer it missed
		w.stop(l)
		w.stop(l)
	}
	w.gone()
	if events := to.Events(); len(events) != 0 {
		t.Errorf("events %+v", events)
	}
}

func TestWrongOptionsRefuseTheContainerByName(t *testing.T) {
	t.Parallel()
	w, to, l := newWorld(t), hectest.New(t), dockertest.NewLog(t)
	for option, value := range map[string]string{
		"collector-urll": "x", "collector-url": "ftp://x", "collector-token-file": "/nonexistent/" + canary[:3], "collector-ca": "/dev/null", "tag": "{{.Nope}}",
	} {
		options := []string{option, value}
		request := startOf(l, to, options...)
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

func TestNothingSecretIsLoggedShownOrAnswered(t *testing.T) {
	t.Parallel()
	w, to, l := newWorld(t), hectest.New(t), dockertest.NewLog(t)
	to.Answer(func(n int, _ hectest.Request) (int, map[string]string) {
		return []int{401, 500, 400, 200}[min(3, n)], nil
	})
	w.start(l, to)
	write(l, lines(0, 10))
	to.AwaitRequests(3)
	answers := w.call("/LogDriver.StartLogging", startOf(dockertest.NewLog(t), to, "tag", "{{.Nope}}")) + w.call("/LogDriver.StartLogging", "{{")
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
	w.gone()
	for where, text := range map[string]string{"log": w.logged.String(), "answers": answers} {
		if text == "" || strings.Contains(text, canary) {
			t.Errorf("%s: %s", where, text)
		}
	}
}

func TestAManglingFrameDoesNotStopTheLog(t *testing.T) {
	t.Parallel()
	w, to, l := newWorld(t), hectest.New(t), dockertest.NewLog(t)
	w.start(l, to)
	l.Line("stdout", "before")
	l.Raw([]byte("\x00\x00\x00\x02\xff\xff")) // a frame without an entry
	l.Line("stdout", "between")
	to.Await("two lines", func(e []hectest.Event) bool { return len(e) == 2 })
	l.Raw([]byte("\xff\xff\xff\xff what is this"))
	to.Await("what it says of it", func(e []hectest.Event) bool { return len(e) == 3 && e[2].Event.Source == "collector" })
	for i := 0; len(to.Events()) < 4; i++ { // the first lines may be thrown away with the rest
		l.Line("stdout", "after")
		<-time.After(20 * time.Millisecond)
		if i > 3000 {
			t.Fatal("nothing came after it")
		}
	}
}

func TestManyContainersShareFewConnections(t *testing.T) {
	t.Parallel()
	w, to := newWorld(t), hectest.New(t)
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
	w.gone()
}

// The way of a line from the FIFO to a server on the same machine, compressed.
func BenchmarkLine(b *testing.B) {
	for _, size := range []int{100, 1000} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			var taken atomic.Int64
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
				if taken.Add(int64(bytes.Count(body, []byte(`{"event"`)))) == want {
					close(done)
				}
			}))
			defer server.Close()
			service, err := Open(Config{SpoolDir: b.TempDir(), SpoolBytes: 1 << 30, Patience: impatient}, slog.New(slog.DiscardHandler))
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
