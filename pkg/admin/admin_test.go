package admin

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/logboom/logboom/pkg/clickhouse"
	"github.com/logboom/logboom/pkg/embedded"
	"github.com/logboom/logboom/pkg/embedded/engine/enginetest"
	"github.com/logboom/logboom/pkg/project"
	"github.com/logboom/logboom/pkg/record"
	"github.com/logboom/logboom/pkg/stream"
	"github.com/logboom/logboom/pkg/stream/streamtest"
	"github.com/logboom/logboom/pkg/telemetry"
)

func TestMain(m *testing.M) { enginetest.Main(m) }

// unhurried is a bound for what is over in a moment, which also a machine that
// stands still now and then keeps.
const unhurried = 2 * time.Minute

// patient is the test's context with a deadline: without one, the queue's client
// puts its own of 5 s in the place.
func patient(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), unhurried)
	t.Cleanup(cancel)
	return ctx
}

// again tries something again for which the queue was late: its bounds are of
// seconds, which a machine that stands still passes.
func again(t *testing.T, try func() error) {
	t.Helper()
	err := try()
	for deadline := time.Now().Add(unhurried); errors.Is(err, context.DeadlineExceeded) && time.Now().Before(deadline); {
		err = try()
	}
	if err != nil {
		t.Fatal(err)
	}
}

// bench is the service over a real queue and a real ClickHouse.
type bench struct {
	store  *project.Store
	client *clickhouse.Client
	nats   *embedded.NATS
	js     jetstream.JetStream
	graves Graves
	eraser *recorder
	log    lockedBuffer
	key    string // an admin's, for all projects
}

// lockedBuffer keeps what several goroutines write.
type lockedBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

func newBench(t *testing.T) *bench {
	t.Helper()
	ctx := patient(t)
	b := &bench{eraser: &recorder{told: make(chan string, 100)}}
	var err error
	if b.nats, err = embedded.StartNATS(ctx, embedded.NATSConfig{DataDir: t.TempDir(), MaxStore: 1 << 30}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.nats.Stop(context.Background()) })
	nc, js, err := stream.Connect(ctx, b.nats.URL(), streamtest.Calm("test"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	b.js = js
	if b.store, err = project.Open(ctx, js, project.StoreConfig{Key: project.NewSecret(base64.StdEncoding.EncodeToString(make([]byte, 32)))}); err != nil {
		t.Fatal(err)
	}
	if b.graves, err = OpenGraves(ctx, js, 1); err != nil {
		t.Fatal(err)
	}
	b.key = b.apiKey(t, project.RoleAdmin)
	if b.client, err = clickhouse.Open(clickhouse.Config{URL: enginetest.URL(t)}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.client.Close() })
	if err := b.client.Migrate(ctx); err != nil {
		t.Fatal(err)
	}
	return b
}

// apiKey makes an API key and gives its value.
func (b *bench) apiKey(t *testing.T, role project.Role, projects ...string) string {
	t.Helper()
	_, secret, err := b.store.CreateAPIKey(patient(t), "test", role, projects...)
	if err != nil {
		t.Fatal(err)
	}
	return secret.Reveal()
}

func (b *bench) server(reader Reader, queryTimeout time.Duration) *Server {
	logger := slog.New(slog.NewJSONHandler(&b.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	return New(Config{MaxConnections: 10, QueryTimeout: queryTimeout, DrainTimeout: unhurried}, Deps{
		Logger: logger, Registry: prometheus.NewRegistry(), Health: &telemetry.Health{}, Reader: reader, Directory: b.store,
		Audit: NewLogAudit(logger), Sweeper: b.store, Graves: b.graves, Eraser: b.eraser,
		Letters: stream.NewLetters(b.js),
	})
}

// send asks the server. An empty key goes without, an empty body too.
func send(s *Server, method, path, key, body string) *httptest.ResponseRecorder {
	return sendWithin(unhurried, s, method, path, key, body)
}

// sendWithin is send by somebody who leaves when that time is over.
func sendWithin(timeout time.Duration, s *Server, method, path, key, body string) *httptest.ResponseRecorder {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	request := httptest.NewRequestWithContext(ctx, method, path, strings.NewReader(body))
	if key != "" {
		request.Header.Set("Authorization", "Bearer "+key)
	}
	answer := httptest.NewRecorder()
	s.ServeHTTP(answer, request)
	return answer
}

// do is send for answers that openapi.json must describe.
func (b *bench) do(t *testing.T, s *Server, method, path, body string) *httptest.ResponseRecorder {
	t.Helper()
	answer := send(s, method, path, b.key, body)
	checkDescribed(t, s, method, path, answer)
	return answer
}

func (b *bench) get(s *Server, path string) *httptest.ResponseRecorder {
	return send(s, http.MethodGet, path, b.key, "")
}

func (b *bench) project(t *testing.T, name string) project.Project {
	t.Helper()
	p, err := b.store.CreateProject(patient(t), name)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func (b *bench) insert(t *testing.T, p project.Project, seq uint64, at time.Time, lines ...string) {
	t.Helper()
	var block clickhouse.LogBlock
	for i, line := range lines {
		block.Append(
			clickhouse.Row{Seq: seq, Idx: uint32(i), Received: at.UnixNano(), Project: p.ID, RetentionDays: 30},
			&record.Log{Timestamp: at.Add(time.Duration(i) * time.Second).UnixNano(), Application: "api", Severity: "INFO", SeverityNumber: 9, Data: line},
		)
	}
	if err := b.client.InsertLogs(patient(t), fmt.Sprint(p.ID, seq), &block); err != nil {
		t.Fatal(err)
	}
}

func data(t *testing.T, answer *httptest.ResponseRecorder) (lines []string, next string) {
	t.Helper()
	var page struct {
		Logs []struct{ Data string }
		Next string
	}
	if err := json.Unmarshal(answer.Body.Bytes(), &page); err != nil || answer.Code != http.StatusOK {
		t.Fatalf("answer %d: %s", answer.Code, answer.Body)
	}
	for _, l := range page.Logs {
		lines = append(lines, l.Data)
	}
	return lines, page.Next
}

func TestLogsAreReadNewestFirstPageByPageWithinATime(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	s := b.server(b.client, unhurried)
	shop := b.project(t, "shop")
	at := time.Now().Add(-time.Hour).Truncate(time.Second)
	b.insert(t, shop, 1, at, "a", "b", "c", "d", "e")
	var all []string
	query := url.Values{"limit": {"2"}}
	for {
		lines, next := data(t, b.get(s, "/api/v1/projects/shop/logs?"+query.Encode()))
		all = append(all, lines...)
		if next == "" {
			break
		}
		query.Set("cursor", next)
	}
	if fmt.Sprint(all) != "[e d c b a]" {
		t.Errorf("pages give %v", all)
	}
	for _, bounds := range []url.Values{
		{"from": {at.Add(time.Second).UTC().Format(time.RFC3339)}, "to": {at.Add(3 * time.Second).UTC().Format(time.RFC3339)}},
		{"from": {fmt.Sprint(at.Unix() + 1)}, "to": {fmt.Sprint((at.Unix() + 3) * 1000)}},
	} {
		if lines, _ := data(t, b.get(s, "/api/v1/projects/shop/logs?"+bounds.Encode())); fmt.Sprint(lines) != "[c b]" {
			t.Errorf("%v gives %v", bounds, lines)
		}
	}
}

func TestNoQuestionReachesAnotherProject(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	s := b.server(b.client, unhurried)
	mine, theirs := b.project(t, "mine"), b.project(t, "theirs")
	at := time.Now().Add(-time.Hour)
	b.insert(t, mine, 1, at, "my line", "my other line")
	b.insert(t, theirs, 2, at, "their line", "their other line")
	_, cursor := data(t, b.get(s, "/api/v1/projects/theirs/logs?limit=1"))
	for _, query := range []url.Values{
		{}, {"q": {"line"}}, {"q": {"' OR 1=1 --"}}, {"q": {"x') UNION ALL SELECT * FROM logs --"}}, {"q": {"/* */"}}, {"q": {"%"}}, {"q": {"{project:String}"}},
		{"cursor": {cursor}}, {"project": {theirs.ID}}, {"project": {"theirs"}},
	} {
		answer := b.get(s, "/api/v1/projects/mine/logs?"+query.Encode())
		if strings.Contains(answer.Body.String(), "their") {
			t.Errorf("%v shows another project's rows: %s", query, answer.Body)
		}
	}
	for _, name := range []string{theirs.ID, "nobody", url.PathEscape("mine/../theirs"), url.PathEscape("' OR 1=1"), "*", ">", "project.theirs"} {
		if answer := b.get(s, "/api/v1/projects/"+name+"/logs"); answer.Code != http.StatusNotFound {
			t.Errorf("project %s: answer %d: %s", name, answer.Code, answer.Body)
		}
	}
}

// failing is a Reader that fails on purpose.
type failing struct{ err error }

func (f failing) Logs(ctx context.Context, _ clickhouse.LogQuery) (clickhouse.LogPage, error) {
	if f.err == nil {
		<-ctx.Done()
		return clickhouse.LogPage{}, fmt.Errorf("read: %w", ctx.Err())
	}
	return clickhouse.LogPage{}, f.err
}

func (f failing) Events(ctx context.Context, q clickhouse.EventQuery) (clickhouse.EventPage, error) {
	_, err := f.Logs(ctx, q)
	return clickhouse.EventPage{}, err
}

func (f failing) Usage(ctx context.Context, _ string, _, _ time.Time) ([]clickhouse.UsageHour, error) {
	_, err := f.Logs(ctx, clickhouse.LogQuery{})
	return nil, err
}

func TestFailuresOfTheStoreAreAnsweredWithoutItsWords(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.project(t, "shop")
	for code, tc := range map[string]struct {
		err    error
		status int
	}{
		"store_unavailable":   {errors.New("dial tcp 10.1.2.3:8123: secret-host refused"), http.StatusServiceUnavailable},
		"query_timeout":       {nil, http.StatusServiceUnavailable},
		"query_too_expensive": {fmt.Errorf("code 307: %w", clickhouse.ErrTooExpensive), http.StatusBadRequest},
	} {
		for _, kind := range []string{"logs", "events", "usage", "histogram", "facets", "logs/0-1-0/context", "logs/export", "tail"} {
			answer := b.get(b.server(failing{tc.err}, 20*time.Millisecond), "/api/v1/projects/shop/"+kind)
			var p struct{ Code string }
			if err := json.Unmarshal(answer.Body.Bytes(), &p); err != nil || answer.Code != tc.status || p.Code != code {
				t.Errorf("%s: answer %d: %s", code, answer.Code, answer.Body)
			}
			if strings.Contains(answer.Body.String(), "secret-host") {
				t.Errorf("the answer shows the engine's words: %s", answer.Body)
			}
		}
	}
}

func TestLostRecordIsUnavailableAndNotUnknown(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	s := b.server(b.client, unhurried)
	if err := b.nats.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	answer := sendWithin(time.Second, s, http.MethodGet, "/api/v1/projects/shop/logs", b.key, "")
	if answer.Code != http.StatusServiceUnavailable || answer.Header().Get("Retry-After") == "" {
		t.Errorf("answer %d: %s", answer.Code, answer.Body)
	}
}
