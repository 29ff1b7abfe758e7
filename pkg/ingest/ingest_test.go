package ingest

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/logboom/logboom/pkg/decode"
	"github.com/logboom/logboom/pkg/embedded"
	"github.com/logboom/logboom/pkg/project"
	"github.com/logboom/logboom/pkg/quota"
	"github.com/logboom/logboom/pkg/record"
	"github.com/logboom/logboom/pkg/stream"
	"github.com/logboom/logboom/pkg/telemetry"
	"github.com/logboom/logboom/pkg/token"
)

// patience bounds what must happen, no matter how fast, because test machines can be
// busy or stand still for seconds.
const patience = time.Minute

// bench is the service with a real queue of its own. Its clock stands still, so that
// no window of a quota ends in the middle of a test.
type bench struct {
	server      *Server
	health      *telemetry.Health
	topology    *stream.Topology
	deadLetters *stream.Letters
	store       *project.Store
	tokens      *token.Store
	nats        *embedded.NATS
	token       string
}

func newBench(t testing.TB, streams stream.Config) *bench {
	t.Helper()
	ctx := t.Context()
	b := &bench{health: &telemetry.Health{}}
	var err error
	b.nats, err = embedded.StartNATS(ctx, embedded.NATSConfig{DataDir: t.TempDir(), MaxStore: 2 << 30})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.nats.Stop(context.Background()) })
	nc, _, err := stream.Connect(ctx, b.nats.URL(), stream.ConnectConfig{Name: "test", Options: []nats.Option{
		nats.Timeout(patience), nats.FlusherTimeout(patience), nats.PingInterval(time.Hour),
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc, jetstream.WithDefaultTimeout(patience))
	if err != nil {
		t.Fatal(err)
	}
	streams.Shards, streams.DeadMaxBytes = 1, 16<<20
	b.deadLetters = stream.NewLetters(js, func(context.Context, string) (uint64, error) { return 0, nil })
	if b.topology, err = stream.Open(ctx, js, streams); err != nil {
		t.Fatal(err)
	}
	if b.store, err = project.Open(ctx, js, project.Config{}); err != nil {
		t.Fatal(err)
	}
	store := b.store
	if _, err := store.CreateProject(ctx, "shop"); err != nil {
		t.Fatal(err)
	}
	if b.tokens, err = token.Open(ctx, js, store, 1); err != nil {
		t.Fatal(err)
	}
	_, secret, err := b.tokens.CreateToken(ctx, "shop", "web")
	if err != nil {
		t.Fatal(err)
	}
	b.token = secret.Reveal()
	cache := token.NewCache(b.tokens, token.NewMemoryShared(), slog.New(slog.DiscardHandler))
	publisher, err := stream.NewPublisher(b.topology, stream.PublisherConfig{AckTimeout: patience})
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	clock := func() time.Time { return began }
	limiter := quota.NewMemory(quota.Config{Now: clock})
	running(t, limiter.Run)
	running(t, cache.Run)
	running(t, publisher.Run)
	b.server = New(Config{Limits: decode.DefaultLimits(), BodyMemory: 256 << 20, MaxConnections: 100, HeaderTimeout: patience, BodyTimeout: patience, IdleTimeout: patience}, Deps{
		Logger: slog.New(slog.DiscardHandler), Registry: prometheus.NewRegistry(), Health: b.health, Auth: &steady{cache: cache}, Limiter: limiter, Publisher: publisher, DeadLetter: b.topology.PublishDeadLetter, Now: clock,
	})
	b.server.deadLetterTimeout = patience
	return b
}

// asked repeats a question to the queue until it is answered.
func asked[T any](t testing.TB, ask func() (T, error)) T {
	t.Helper()
	for began := time.Now(); ; {
		answer, err := ask()
		if err == nil {
			return answer
		}
		if time.Since(began) > patience {
			t.Fatal(err)
		}
		<-time.After(10 * time.Millisecond)
	}
}

// steady repeats a question to a cache that could not answer in time, and remembers
// the tokens that were answered. A machine that stands still must not fail these
// tests.
type steady struct {
	cache *token.Cache

	mu    sync.Mutex
	known map[string]token.Identity
}

func (s *steady) Authenticate(ctx context.Context, value string) (token.Identity, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if identity, ok := s.known[value]; ok {
		return identity, nil
	}
	for began := time.Now(); ; {
		identity, err := s.cache.Authenticate(ctx, value)
		if errors.Is(err, project.ErrUnavailable) && time.Since(began) < patience {
			<-time.After(10 * time.Millisecond)
			continue
		}
		if err == nil {
			if s.known == nil {
				s.known = map[string]token.Identity{}
			}
			s.known[value] = identity
		}
		return identity, err
	}
}

// running runs a part until the test ends.
func running(t testing.TB, part func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- part(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil && ctx.Err() == nil {
			t.Errorf("ended with %v", err)
		}
	})
}

func (b *bench) post(path, body string, header ...string) *httptest.ResponseRecorder {
	request := httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
	request.Header.Set("Authorization", "Bearer "+b.token)
	for i := 0; i+1 < len(header); i += 2 {
		request.Header.Set(header[i], header[i+1])
	}
	answer := httptest.NewRecorder()
	b.server.ServeHTTP(answer, request)
	return answer
}

func checkProblem(t *testing.T, answer *httptest.ResponseRecorder, status int, code string) {
	t.Helper()
	var p struct{ Code string }
	if err := json.Unmarshal(answer.Body.Bytes(), &p); err != nil {
		t.Fatalf("answer %d: %s", answer.Code, answer.Body)
	}
	if answer.Code != status || p.Code != code || answer.Header().Get("X-Request-Id") == "" {
		t.Fatalf("answer %d, not %d %s: %v %s", answer.Code, status, code, answer.Header(), answer.Body)
	}
	if seconds, err := strconv.Atoi(answer.Header().Get("Retry-After")); status == http.StatusServiceUnavailable && (err != nil || seconds < 1) {
		t.Errorf("Retry-After is %q", answer.Header().Get("Retry-After"))
	}
}

// queued returns every record on the stream, in order.
func (b *bench) queued(t *testing.T, name string) []stream.Delivery {
	t.Helper()
	info := asked(t, func() (stream.Info, error) { return b.topology.Info(t.Context(), name) })
	if info.Messages == 0 {
		return nil
	}
	return asked(t, func() ([]stream.Delivery, error) {
		return b.topology.ReadRange(t.Context(), name, info.FirstSeq, info.LastSeq)
	})
}

// letters returns the first dead letters.
func (b *bench) letters(t *testing.T) []stream.Letter {
	t.Helper()
	return asked(t, func() (stream.LetterPage, error) { return b.deadLetters.List(t.Context(), 0, 1000) }).Letters
}

func lines(t *testing.T, deliveries []stream.Delivery) []string {
	t.Helper()
	var all []string
	var reader record.Reader
	for _, d := range deliveries {
		reader.Reset(d.Data)
		for {
			section, err := reader.NextSection()
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			var l record.Log
			for {
				ok, err := section.NextLog(&l)
				if err != nil {
					t.Fatal(err)
				}
				if !ok {
					break
				}
				all = append(all, strings.Clone(l.Data))
			}
		}
	}
	return all
}

func TestAnswerIsSentAfterTheQueueHasTheRecords(t *testing.T) {
	t.Parallel()
	b := newBench(t, stream.Config{MaxBytes: 64 << 20})
	answer := b.post("/v1/logs/shop", `[{"data":"a"},{"data":"b"},{"no":"data"}]`)
	if answer.Code != http.StatusAccepted {
		t.Fatalf("answer %d: %s", answer.Code, answer.Body)
	}
	if got := lines(t, b.queued(t, "LOGS_0")); fmt.Sprint(got) != "[a b]" {
		t.Fatalf("on the queue: %q", got)
	}
	var body struct {
		Accepted int
		Rejected []struct {
			Index        int
			Code, Detail string
		}
	}
	if err := json.Unmarshal(answer.Body.Bytes(), &body); err != nil || body.Accepted != 2 || len(body.Rejected) != 1 || body.Rejected[0].Index != 2 || body.Rejected[0].Code != "missing_field" {
		t.Fatalf("answer %s", answer.Body)
	}
}

func TestNotifyChoosesTheSubject(t *testing.T) {
	t.Parallel()
	b := newBench(t, stream.Config{MaxBytes: 64 << 20})
	for _, body := range []string{`{"channel":"c","title":"quiet"}`, `[{"channel":"c","title":"quiet"},{"channel":"c","title":"loud","notify":true}]`} {
		if answer := b.post("/v1/events/shop", body); answer.Code != http.StatusAccepted {
			t.Fatalf("answer %d: %s", answer.Code, answer.Body)
		}
	}
	deliveries := b.queued(t, "EVENTS_0")
	if len(deliveries) != 2 || deliveries[0].Subject != "events.0.quiet" || deliveries[1].Subject != "events.0.notify" {
		t.Fatalf("on the queue: %+v", deliveries)
	}
}

func TestLargeBodyBecomesSeveralSections(t *testing.T) {
	t.Parallel()
	b := newBench(t, stream.Config{MaxBytes: 256 << 20})
	var body strings.Builder
	for i := range 9000 {
		fmt.Fprintf(&body, "{\"data\":\"%d %s\"}\n", i, strings.Repeat("x", 1000))
	}
	answer := b.post("/v1/logs/shop", body.String())
	if answer.Code != http.StatusAccepted || !strings.HasPrefix(answer.Body.String(), `{"accepted":9000,`) {
		t.Fatalf("answer %d: %.300s", answer.Code, answer.Body)
	}
	got := lines(t, b.queued(t, "LOGS_0"))
	if len(got) != 9000 {
		t.Fatalf("%d records are on the queue", len(got))
	}
	for i, line := range got {
		if !strings.HasPrefix(line, strconv.Itoa(i)+" ") {
			t.Fatalf("record %d is %.20q", i, line)
		}
	}
}

func TestFullQueueIsAnsweredAndAcceptsNothing(t *testing.T) {
	t.Parallel()
	b := newBench(t, stream.Config{MaxBytes: 1 << 20})
	accepted := 0
	for range 200 {
		var data strings.Builder
		for range 1000 {
			data.WriteString(rand.Text()) // so that compression does not help
		}
		answer := b.post("/v1/logs/shop", `{"data":"`+data.String()+`"}`)
		if answer.Code == http.StatusAccepted {
			accepted++
			continue
		}
		checkProblem(t, answer, http.StatusServiceUnavailable, "queue_full")
		if got := len(lines(t, b.queued(t, "LOGS_0"))); got != accepted {
			t.Fatalf("%d accepted, %d on the queue", accepted, got)
		}
		return
	}
	t.Fatal("the queue took everything")
}

func TestUnreachableQueueIsAnsweredAtOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t, stream.Config{MaxBytes: 64 << 20})
	if answer := b.post("/v1/logs/shop", `{"data":"a"}`); answer.Code != http.StatusAccepted {
		t.Fatalf("answer %d: %s", answer.Code, answer.Body)
	}
	if err := b.nats.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	checkProblem(t, b.post("/v1/logs/shop", `{"data":"b"}`), http.StatusServiceUnavailable, "queue_unavailable")
}

func TestDrainingServerAcceptsNothing(t *testing.T) {
	t.Parallel()
	b := newBench(t, stream.Config{MaxBytes: 64 << 20})
	b.health.Drain()
	checkProblem(t, b.post("/v1/logs/shop", `{"data":"a"}`), http.StatusServiceUnavailable, "draining")
	if got := b.queued(t, "LOGS_0"); len(got) != 0 {
		t.Fatalf("%d messages are on the queue", len(got))
	}
}

func TestRecordLargerThanAMessageIsRefusedAndTheNextAccepted(t *testing.T) {
	t.Parallel()
	b := newBench(t, stream.Config{MaxBytes: 64 << 20})
	checkProblem(t, b.post("/v1/logs/shop", `{"data":"`+strings.Repeat("x", 1<<20+1)+`"}`), http.StatusRequestEntityTooLarge, "body_too_large")
	answer := b.post("/v1/logs/shop", `{"data":"`+strings.Repeat("x", 1<<20-100)+`"}`)
	if answer.Code != http.StatusAccepted {
		t.Fatalf("a record of the largest size: answer %d: %s", answer.Code, answer.Body)
	}
}

func TestSlowClientsAreDisconnected(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		sent, answer string
		bound        func(*Config) // of the one time that is to run out
	}{
		"head": {"POST /v1/logs/shop HTTP/1.1\r\nHost: x\r\n", "", func(cfg *Config) { cfg.HeaderTimeout = time.Second }},
		"body": {
			"POST /v1/logs/shop HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Length: 1000\r\n\r\n{",
			"408 ", func(cfg *Config) { cfg.BodyTimeout = time.Second },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, stream.Config{MaxBytes: 64 << 20})
			c.bound(&b.server.cfg)
			conn := b.dial(t)
			_, _ = io.WriteString(conn, strings.ReplaceAll(c.sent, "%s", b.token)) // fails where the time ran out before
			answer, err := io.ReadAll(conn)                                        // ends when the server hangs up
			if errors.Is(err, os.ErrDeadlineExceeded) {
				t.Error("the server did not hang up")
			}
			if !strings.Contains(string(answer), c.answer) {
				t.Errorf("answered %q", answer)
			}
		})
	}
}

// listen runs the service on a port until the test ends, and returns its address.
func (b *bench) listen(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	running(t, func(ctx context.Context) error { return b.server.Run(ctx, listener) })
	return listener.Addr().String()
}

func TestConnectionsBeyondTheLimitWait(t *testing.T) {
	t.Parallel()
	b := newBench(t, stream.Config{MaxBytes: 64 << 20})
	b.server.cfg.MaxConnections = 1
	first := b.dial(t)
	if _, err := first.Write([]byte("GET /livez HTTP/1.1\r\nHost: x\r\n\r\n")); err != nil {
		t.Fatal(err)
	}
	answer := make([]byte, 4096)
	if _, err := first.Read(answer); err != nil {
		t.Fatal(err)
	}
	second, err := net.Dial("tcp", first.RemoteAddr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	if _, err := second.Write([]byte("GET /livez HTTP/1.1\r\nHost: x\r\n\r\n")); err != nil {
		t.Fatal(err)
	}
	if err := second.SetReadDeadline(time.Now().Add(50 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if n, err := second.Read(answer); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("second connection was answered while the first was open: %d bytes, %v", n, err)
	}
	first.Close()
	if err := second.SetReadDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	if _, err := second.Read(answer); err != nil {
		t.Fatalf("second connection was not answered after the first had closed: %v", err)
	}
}

// dial connects to the service's port.
func (b *bench) dial(t *testing.T) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", b.listen(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	return conn
}

func TestLongHeaderIsRefused(t *testing.T) {
	t.Parallel()
	b := newBench(t, stream.Config{MaxBytes: 64 << 20})
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+b.listen(t)+"/v1/logs/shop", strings.NewReader(`{"data":"a"}`))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("X-Long", strings.Repeat("x", 64<<10))
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	if response.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
		t.Fatalf("answer %d", response.StatusCode)
	}
}

func TestArrayWithASyntaxErrorIsRefusedWhole(t *testing.T) {
	t.Parallel()
	b := newBench(t, stream.Config{MaxBytes: 64 << 20})
	answer := b.post("/v1/logs/shop", `[{"data":"a"},{"data":"b",},{"data":"c"}]`)
	checkProblem(t, answer, http.StatusBadRequest, "invalid_json")
	var p struct{ Index, Offset int }
	if err := json.Unmarshal(answer.Body.Bytes(), &p); err != nil || p.Index != 1 || p.Offset != 26 {
		t.Errorf("problem %s", answer.Body)
	}
	if got := b.queued(t, "LOGS_0"); len(got) != 0 {
		t.Errorf("%d messages are on the queue", len(got))
	}
	answer = b.post("/v1/logs/shop", `{"data":"after"}`)
	if got := b.queued(t, "LOGS_0"); answer.Code != http.StatusAccepted || len(got) != 1 {
		t.Errorf("answer %d, %d messages are on the queue", answer.Code, len(got))
	}
}

func TestIdempotencyKeysOfDifferentProjectsAndKindsDiffer(t *testing.T) {
	t.Parallel()
	header := http.Header{"Idempotency-Key": {"k"}}
	seen := map[string]bool{}
	for _, id := range []string{"a~1", "b~1"} {
		for _, kind := range []record.Kind{record.KindLog, record.KindEvent} {
			got, err := messageID(header, &protocol{kind: kind}, token.Identity{ProjectID: id}, nil, decode.Result{})
			if err != nil || got == "" {
				t.Fatalf("%q, %v", got, err)
			}
			seen[got] = true
		}
	}
	if len(seen) != 4 {
		t.Fatalf("%d different ids of 4", len(seen))
	}
}

func TestBearerSchemeIsCaseInsensitive(t *testing.T) {
	t.Parallel()
	for header, want := range map[string]string{
		"Bearer abc": "abc", "bearer abc": "abc", " BEARER  abc ": "abc", "Bearer": "", "Basic abc": "", "": "", "abc": "", "Bearer ": "",
	} {
		if got, err := bearerToken(http.Header{"Authorization": {header}}); got != want || (err == nil) != (want != "") {
			t.Errorf("%q gives %q, %v", header, got, err)
		}
	}
}

func TestFullDiskIsAnsweredBeforeTheBodyIsRead(t *testing.T) {
	t.Parallel()
	b := newBench(t, stream.Config{MaxBytes: 64 << 20})
	b.server.deps.DiskFull = func() error { return errors.New("the volume is 90 % full") }
	checkProblem(t, b.post("/v1/logs/shop", "no gzip at all", "Content-Encoding", "gzip"), http.StatusServiceUnavailable, "queue_full")
	if got := b.queued(t, "LOGS_0"); len(got) != 0 {
		t.Fatalf("%d messages are on the queue", len(got))
	}
}
