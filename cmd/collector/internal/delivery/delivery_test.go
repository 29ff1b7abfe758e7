package delivery

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/logboom/logboom/cmd/collector/internal/dockertest"
	"github.com/logboom/logboom/cmd/collector/internal/entry"
	"github.com/logboom/logboom/cmd/collector/internal/hectest"
	"github.com/logboom/logboom/cmd/collector/internal/option"
	"github.com/logboom/logboom/cmd/collector/internal/spool"
	"github.com/logboom/logboom/pkg/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// fixture is a sender that delivers a stream, and the FIFO that fills it.
type fixture struct {
	t       *testing.T
	log     *dockertest.Log
	spool   *spool.Spool
	stream  *spool.Stream
	routes  *Routes
	metrics *Metrics
	fifo    *os.File
	done    chan bool
	stop    context.CancelFunc
}

func newFixture(t *testing.T, to option.Destination, batch option.Batch, timing Timing) *fixture {
	t.Helper()
	l := &fixture{t: t, log: dockertest.NewLog(t), metrics: NewMetrics(prometheus.NewRegistry()), done: make(chan bool, 1)}
	logger := slog.New(slog.DiscardHandler)
	var err error
	if l.spool, err = spool.Open(spool.Config{Dir: t.TempDir(), MaxBytes: 64 << 20, Logger: logger, OnDrop: func(int64) {}}); err != nil {
		t.Fatal(err)
	}
	if l.stream, err = l.spool.Create("s", nil, 0); err != nil {
		t.Fatal(err)
	}
	if l.fifo, err = os.OpenFile(l.log.Path, os.O_RDONLY, 0); err != nil {
		t.Fatal(err)
	}
	if to.Compression == "" {
		to.Compression = option.None
	}
	if to.Token == "" && to.TokenFile == "" {
		to.Token = "lgb_x"
	}
	l.routes = NewRoutes(timing, logger, l.metrics)
	route := l.routes.Acquire(to)
	ctx, stop := context.WithCancel(context.Background())
	l.stop = stop
	sender := NewSender(l.spool, l.stream, route, Origin{Tag: "web", Host: "h"}, batch, logger)
	var running sync.WaitGroup
	running.Go(func() { l.done <- sender.Run(ctx, nil) })
	t.Cleanup(func() {
		stop()
		running.Wait()
		l.routes.Release(route)
		l.fifo.Close()
		if err := l.spool.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

var quick = Timing{Timeout: 20 * time.Second, MinPause: time.Millisecond, MaxPause: 10 * time.Millisecond, RefusedPause: 10 * time.Millisecond}

func batchOf(lines int) option.Batch {
	return option.Batch{Lines: lines, Bytes: 1 << 20, Interval: 50 * time.Millisecond}
}

// write writes n lines to the FIFO and lets the stream receive them at once.
func (l *fixture) write(n int) {
	l.t.Helper()
	for i := range n {
		l.log.Line("stdout", fmt.Sprint("line ", i))
	}
	if _, err := l.stream.Receive(int(l.fifo.Fd())); err != nil {
		l.t.Fatal(err)
	}
}

func count(r hectest.Request) int { return bytes.Count(r.Body, []byte(`"event"`)) }

func TestBatchesRespectTheLimitsOfLinesAndBytes(t *testing.T) {
	t.Parallel()
	for name, batch := range map[string]option.Batch{
		"lines": {Lines: 10, Bytes: 1 << 20, Interval: 50 * time.Millisecond},
		"bytes": {Lines: 1000, Bytes: 600, Interval: 50 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			to := hectest.New(t)
			to.Answer(func(_ int, r hectest.Request) (int, map[string]string) {
				if count(r) > 10 || len(r.Body) > batch.Bytes+200 {
					t.Errorf("a batch of %d lines, %d bytes", count(r), len(r.Body))
				}
				return 200, nil
			})
			l := newFixture(t, option.Destination{URL: to.URL}, batch, quick)
			l.write(95)
			to.Await("95 lines", func(e []hectest.Event) bool { return len(e) == 95 })
		})
	}
}

func TestATooLargeBatchIsHalvedUntilItIsAccepted(t *testing.T) {
	t.Parallel()
	to := hectest.New(t)
	to.Answer(func(_ int, r hectest.Request) (int, map[string]string) {
		if count(r) > 10 {
			return 413, nil
		}
		return 200, nil
	})
	l := newFixture(t, option.Destination{URL: to.URL}, batchOf(1000), quick)
	l.write(300)
	events := to.Await("300 lines", func(e []hectest.Event) bool { return len(e) == 300 })
	for i, e := range events {
		if e.Event.Line != fmt.Sprint("line ", i) {
			t.Fatalf("line %d is %q", i, e.Event.Line)
		}
	}
}

func TestATooLargeLineAndABadBatchAreRefusedForGood(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answer  func(r hectest.Request) int
		refused float64
		stored  int
	}{
		"one line too large": {func(r hectest.Request) int {
			if bytes.Contains(r.Body, []byte(`"line 7"`)) {
				return 413
			}
			return 200
		}, 1, 19},
		"a bad batch": {func(r hectest.Request) int {
			if bytes.Contains(r.Body, []byte(`"line 7"`)) {
				return 400
			}
			return 200
		}, 10, 10},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			to := hectest.New(t)
			to.Answer(func(_ int, r hectest.Request) (int, map[string]string) { return c.answer(r), nil })
			l := newFixture(t, option.Destination{URL: to.URL}, batchOf(10), quick)
			l.write(20)
			to.Await("the other lines", func(e []hectest.Event) bool { return len(e) == c.stored })
			l.stream.Finish()
			if !<-l.done {
				t.Error("the stream is not delivered")
			}
			if got := testutil.ToFloat64(l.metrics.dropped.WithLabelValues(Refused)); got != c.refused {
				t.Errorf("%v lines counted as refused, want %v", got, c.refused)
			}
		})
	}
}

func TestRetryAfterIsObeyed(t *testing.T) {
	t.Parallel()
	to := hectest.New(t)
	var first, second time.Time
	to.Answer(func(n int, _ hectest.Request) (int, map[string]string) {
		if n == 0 {
			first = time.Now()
			return 429, map[string]string{"Retry-After": "1"}
		}
		second = time.Now()
		return 200, nil
	})
	l := newFixture(t, option.Destination{URL: to.URL}, batchOf(10), quick)
	l.write(1)
	to.Await("the line", func(e []hectest.Event) bool { return len(e) == 1 })
	if waited := second.Sub(first); waited < time.Second {
		t.Errorf("the retry came after %s", waited)
	}
}

func TestRetryAfterIsParsedInBothFormsAndBounded(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]time.Duration{
		"": 0, "2": 2 * time.Second, "-5": 0, "99999999": time.Minute, "99999999999999999999999": time.Minute, "soon": 0,
		"Thu, 01 Jan 2099 00:00:00 GMT": time.Minute, "Thu, 01 Jan 1998 00:00:00 GMT": 0,
	} {
		if got := retryAfter(http.Header{"Retry-After": {value}}, time.Minute); got != want {
			t.Errorf("%q: %s, want %s", value, got, want)
		}
	}
}

func TestATokenFileIsReadForEveryBatch(t *testing.T) {
	t.Parallel()
	to, file := hectest.New(t), filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("old\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	to.Answer(func(_ int, r hectest.Request) (int, map[string]string) {
		if r.Header.Get("Authorization") != "Splunk new" {
			return 401, nil
		}
		return 200, nil
	})
	l := newFixture(t, option.Destination{URL: to.URL, TokenFile: file}, batchOf(10), quick)
	l.write(1)
	to.AwaitRequests(2)
	if states := l.routes.States(); len(states) != 1 || states[0].Reason != "token_refused" {
		t.Errorf("states %+v", states)
	}
	if err := os.WriteFile(file, []byte("new\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	to.Await("the line", func(e []hectest.Event) bool { return len(e) == 1 })
}

func TestCheckNamesTheOptionOfABadFile(t *testing.T) {
	t.Parallel()
	large := filepath.Join(t.TempDir(), "large")
	if err := os.WriteFile(large, make([]byte, maxFile+1), 0o600); err != nil {
		t.Fatal(err)
	}
	routes := NewRoutes(Timing{}, slog.New(slog.DiscardHandler), NewMetrics(prometheus.NewRegistry()))
	for want, to := range map[string]option.Destination{
		option.TokenFile + ": ": {TokenFile: "/nonexistent"},
		"larger":                {TokenFile: large},
		option.CA + ": ":        {Token: "x", CA: "/nonexistent"},
		"PEM":                   {Token: "x", CA: "/dev/null"},
	} {
		if err := routes.Acquire(to).Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %s", to, err, want)
		}
	}
}

func TestATokenIsSentOnlyToATrustedServer(t *testing.T) {
	t.Parallel()
	var tokens sync.Map
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { tokens.Store(r.Header.Get("Authorization"), true) }))
	defer server.Close()
	server.Config.ErrorLog = nil
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	routes := NewRoutes(quick, slog.New(slog.DiscardHandler), NewMetrics(prometheus.NewRegistry()))
	for name, c := range map[string]struct {
		to   option.Destination
		want verdict
	}{
		"unknown authority": {option.Destination{Token: "unknown"}, retry},
		"named authority":   {option.Destination{Token: "named", CA: ca}, delivered},
		"not verified":      {option.Destination{Token: "insecure", Insecure: true}, delivered},
	} {
		c.to.URL, c.to.Compression = server.URL, option.None
		route := routes.Acquire(c.to)
		b, err := route.acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if got := route.send(t.Context(), b); got != c.want {
			t.Errorf("%s: verdict %d, want %d", name, got, c.want)
		}
		if _, sent := tokens.Load("Splunk " + c.to.Token); sent != (c.want == delivered) {
			t.Errorf("%s: the token was sent: %t", name, sent)
		}
		route.release(b)
		routes.Release(route)
	}
}

func TestRedirectsAreNotFollowed(t *testing.T) {
	t.Parallel()
	to := hectest.New(t)
	to.Answer(func(n int, r hectest.Request) (int, map[string]string) {
		if n < 2 {
			return 307, map[string]string{"Location": "http://127.0.0.1:1/"}
		}
		return 200, nil
	})
	l := newFixture(t, option.Destination{URL: to.URL}, batchOf(10), quick)
	l.write(1)
	to.Await("the line", func(e []hectest.Event) bool { return len(e) == 1 })
}

func TestAPartOfALineIsMarked(t *testing.T) {
	t.Parallel()
	f := newEventEncoder(Origin{Tag: "t", Attributes: map[string]string{"a": "b"}})
	var e hectest.Event
	text := f.append(nil, entry.Line{Source: "stdout", Time: 1_700_000_000_000_000_001, Text: []byte("x"), Part: &entry.Part{ID: "i", Ordinal: 64}})
	if err := json.Unmarshal(text, &e); err != nil {
		t.Fatal(err)
	}
	if a := e.Event.Attrs; a["a"] != "b" || a[partID] != "i" || a[partOrdinal] != "64" || a[partLast] != "false" || e.Time != "1700000000.000000001" {
		t.Errorf("event %+v", e)
	}
}

func FuzzText(f *testing.F) {
	for _, text := range []string{"", "plain", "\"\\\x00\x1f\n\r\t", "\xff\xfe", "grüße 🚀", "\xf0\x9f\x9a", "\u2028"} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var got string
		if err := json.Unmarshal(appendText(nil, text), &got); err != nil {
			t.Fatal(err)
		}
		if want := string([]rune(string(text))); got != want || !utf8.ValidString(got) {
			t.Fatalf("%q was decoded as %q", want, got)
		}
	})
}

func BenchmarkAppendEvent(b *testing.B) {
	f := newEventEncoder(Origin{Tag: "web", Host: "host", Attributes: map[string]string{"team": "shop"}})
	for _, size := range []int{100, 1000, 16 << 10} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			l := entry.Line{Source: "stdout", Time: time.Now().UnixNano(), Text: bytes.Repeat([]byte("x"), size)}
			b.SetBytes(int64(size))
			b.ReportAllocs()
			var dst []byte
			for b.Loop() {
				dst = f.append(dst[:0], l)
			}
		})
	}
}
