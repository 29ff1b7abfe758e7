package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/logboom/logboom/pkg/admin"
	"github.com/logboom/logboom/pkg/admin/admintest"
	"github.com/logboom/logboom/pkg/clickhouse"
	"github.com/logboom/logboom/pkg/embedded/engine/enginetest"
	"github.com/logboom/logboom/pkg/people"
	"github.com/logboom/logboom/pkg/project"
	"github.com/logboom/logboom/pkg/record"
)

func TestMain(m *testing.M) { enginetest.Main(m) }

// bench is what the tests send requests to.
type bench struct {
	*admintest.Installation
	key string // an admin's, for all projects
}

func newBench(t *testing.T) *bench {
	t.Helper()
	b := &bench{Installation: admintest.Start(t)}
	b.key = b.apiKey(t, people.RoleAdmin)
	return b
}

// apiKey creates an API key and returns its value.
func (b *bench) apiKey(t *testing.T, role people.Role, projects ...string) string {
	t.Helper()
	_, secret, err := b.People.CreateAPIKey(admintest.Context(t), "test", role, projects...)
	if err != nil {
		t.Fatal(err)
	}
	return secret.Reveal()
}

// testServer is the API behind an HTTP server.
type testServer struct {
	*API
	echo *echo.Echo
}

func (s *testServer) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.echo.ServeHTTP(w, r) }

// server returns the API over the engines, without people's sessions.
func (b *bench) server() *testServer { return b.serve(b.New()) }

func (b *bench) serve(service *admin.Service) *testServer {
	nobody := func(*http.Request) (admin.Caller, error) { return admin.Caller{}, errors.New("no session") }
	s := &testServer{New(b.Logger, service, nobody), echo.New()}
	s.echo.HTTPErrorHandler = s.AnswerError
	s.Mount(s.echo)
	return s
}

// send sends a request. Without a key or a body, they are left out.
func send(s *testServer, method, path, key, body string) *httptest.ResponseRecorder {
	return sendWithin(admintest.Timeout, s, method, path, key, body)
}

// sendWithin is send by a client that disconnects after the timeout.
func sendWithin(timeout time.Duration, s *testServer, method, path, key, body string) *httptest.ResponseRecorder {
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

// do is send, and checks that openapi.json describes the answer.
func (b *bench) do(t *testing.T, s *testServer, method, path, body string) *httptest.ResponseRecorder {
	t.Helper()
	answer := send(s, method, path, b.key, body)
	checkDescribed(t, s, method, path, answer)
	return answer
}

func (b *bench) get(s *testServer, path string) *httptest.ResponseRecorder {
	return send(s, http.MethodGet, path, b.key, "")
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
	if err := b.Client.InsertLogs(admintest.Context(t), fmt.Sprint(p.ID, seq), &block); err != nil {
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

func TestLogsAreReadNewestFirstByPageAndTime(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	s := b.server()
	shop := b.Project(t, "shop")
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
		t.Errorf("pages contain %v", all)
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

func TestNoQueryReachesAnotherProject(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	s := b.server()
	mine, theirs := b.Project(t, "mine"), b.Project(t, "theirs")
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

// failing is a Reader that fails with the error or, without one, waits for the
// end of the context.
type failing struct {
	admin.Reader
	err error
}

func (f failing) fail(ctx context.Context) error {
	if f.err == nil {
		<-ctx.Done()
		return fmt.Errorf("read: %w", ctx.Err())
	}
	return f.err
}

func (f failing) Logs(ctx context.Context, _ clickhouse.LogQuery) (clickhouse.LogPage, error) {
	return clickhouse.LogPage{}, f.fail(ctx)
}

func (f failing) Events(ctx context.Context, _ clickhouse.EventQuery) (clickhouse.EventPage, error) {
	return clickhouse.EventPage{}, f.fail(ctx)
}

func (f failing) Usage(ctx context.Context, _ string, _, _ time.Time) ([]clickhouse.UsageHour, error) {
	return nil, f.fail(ctx)
}

func (f failing) Histogram(ctx context.Context, _ clickhouse.HistogramQuery) (clickhouse.Histogram, error) {
	return clickhouse.Histogram{}, f.fail(ctx)
}

func (f failing) Facets(ctx context.Context, _ clickhouse.FacetQuery) (clickhouse.Facets, error) {
	return clickhouse.Facets{}, f.fail(ctx)
}

func (f failing) Context(ctx context.Context, _ clickhouse.ContextQuery) (clickhouse.LogContext, error) {
	return clickhouse.LogContext{}, f.fail(ctx)
}

func (f failing) Tail(ctx context.Context, _ string, _ time.Time) (clickhouse.TailMark, error) {
	return clickhouse.TailMark{}, f.fail(ctx)
}

func TestErrorsOfTheStoreAreNotShownToClients(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.Project(t, "shop")
	for code, tc := range map[string]struct {
		err    error
		status int
	}{
		"store_unavailable":   {errors.New("dial tcp 10.1.2.3:8123: secret-host refused"), http.StatusServiceUnavailable},
		"query_timeout":       {nil, http.StatusServiceUnavailable},
		"query_too_expensive": {fmt.Errorf("code 307: %w", clickhouse.ErrTooExpensive), http.StatusBadRequest},
	} {
		for _, kind := range []string{"logs", "events", "usage", "histogram", "facets", "logs/0-1-0/context", "logs/export", "tail"} {
			b.Deps.Reader = failing{b.Client, tc.err}
			answer := b.get(b.serve(b.NewWithin(20*time.Millisecond)), "/api/v1/projects/shop/"+kind)
			var p struct{ Code string }
			if err := json.Unmarshal(answer.Body.Bytes(), &p); err != nil || answer.Code != tc.status || p.Code != code {
				t.Errorf("%s: answer %d: %s", code, answer.Code, answer.Body)
			}
			if strings.Contains(answer.Body.String(), "secret-host") {
				t.Errorf("the answer shows the error of the engine: %s", answer.Body)
			}
		}
	}
}

func TestProjectIsUnavailableAndNotMissingWhenTheQueueIsDown(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	s := b.server()
	if err := b.NATS.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	answer := sendWithin(time.Second, s, http.MethodGet, "/api/v1/projects/shop/logs", b.key, "")
	if answer.Code != http.StatusServiceUnavailable || answer.Header().Get("Retry-After") == "" {
		t.Errorf("answer %d: %s", answer.Code, answer.Body)
	}
}
