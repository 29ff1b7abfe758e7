package api

import (
	"bufio"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/logboom/logboom/pkg/clickhouse"
)

func TestInvalidQueryIsAnsweredWithItsPosition(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	s := b.server()
	b.Project(t, "shop")
	for _, route := range []string{"logs", "events", "histogram", "facets", "logs/export", "tail"} {
		answer := b.do(t, s, http.MethodGet, "/api/v1/projects/shop/"+route+"?q="+url.QueryEscape("failed AND (host:"), "")
		var p struct {
			Code, Field, Detail string
			Offset              int
		}
		if err := json.Unmarshal(answer.Body.Bytes(), &p); err != nil || answer.Code != http.StatusBadRequest {
			t.Fatalf("%s: answer %d: %s", route, answer.Code, answer.Body)
		}
		if p.Code != "invalid_query" || p.Field != "q" || p.Offset != 17 || !strings.Contains(p.Detail, "missing value of host (character 18)") {
			t.Errorf("%s: %+v", route, p)
		}
	}
}

func TestHistogramFacetsAndContextCoverTheProjectOnly(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	s := b.server()
	shop, other := b.Project(t, "shop"), b.Project(t, "other")
	at := time.Now().Add(-time.Hour).Truncate(time.Second)
	b.insert(t, shop, 1, at, "a one", "b", "c one")
	b.insert(t, other, 2, at, "a one")
	var h clickhouse.Histogram
	if answer := b.do(t, s, http.MethodGet, "/api/v1/projects/shop/histogram?q=one&buckets=10", ""); json.Unmarshal(answer.Body.Bytes(), &h) != nil || h.Total != 2 || h.Severities.Info != 2 || len(h.Buckets) != 10 {
		t.Errorf("histogram: answer %d: %s", answer.Code, answer.Body)
	}
	var f clickhouse.Facets
	if answer := b.do(t, s, http.MethodGet, "/api/v1/projects/shop/facets", ""); json.Unmarshal(answer.Body.Bytes(), &f) != nil || f.Total != 3 || fmt.Sprint(f.Applications) != "[{api 3}]" {
		t.Errorf("facets: answer %d: %s", answer.Code, answer.Body)
	}
	answer := b.do(t, s, http.MethodGet, "/api/v1/projects/shop/logs/0-1-1/context?before=1", "")
	var around struct{ Before, After []struct{ Data string } }
	if err := json.Unmarshal(answer.Body.Bytes(), &around); err != nil || fmt.Sprint(around) != "{[{a one}] [{c one}]}" {
		t.Errorf("context: answer %d: %s", answer.Code, answer.Body)
	}
	for _, id := range []string{"0-2-0", "0-1-9", "x", "0-1-1%20"} {
		if answer := b.do(t, s, http.MethodGet, "/api/v1/projects/shop/logs/"+id+"/context", ""); answer.Code != http.StatusNotFound {
			t.Errorf("context of %s: answer %d", id, answer.Code)
		}
	}
	for _, bad := range []string{"histogram?buckets=0", "histogram?buckets=1001", "histogram?from=5&to=5", "logs/0-1-1/context?before=501", "logs/0-1-1/context?after=x", "logs/export?format=xml"} {
		if answer := b.do(t, s, http.MethodGet, "/api/v1/projects/shop/"+bad, ""); answer.Code != http.StatusBadRequest || !strings.Contains(answer.Body.String(), `"invalid_field"`) {
			t.Errorf("%s: answer %d: %s", bad, answer.Code, answer.Body)
		}
	}
}

// hostile are lines that act on a spreadsheet, a terminal or a browser.
var hostile = []string{"=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "＝1", "red \x1b[31m\x07", "a\r\n2026 forged", "del \x7f c1 \u009b31m", "\u202egnp.exe", `quote " comma ,`}

func TestExportIsHarmlessAndComplete(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	s := b.server()
	b.insert(t, b.Project(t, "shop"), 1, time.Now().Add(-time.Hour), hostile...)
	answer := b.do(t, s, http.MethodGet, "/api/v1/projects/shop/logs/export?format=csv", "")
	rows, err := csv.NewReader(strings.NewReader(answer.Body.String())).ReadAll()
	if err != nil || len(rows) != len(hostile)+1 || answer.Header().Get("Content-Disposition") != `attachment; filename="shop-logs.csv"` {
		t.Fatalf("csv: answer %d, %d rows, %v", answer.Code, len(rows), err)
	}
	for i, row := range rows[1:] {
		text := row[5]
		if strings.ContainsAny(text, "\x1b\x07\r\n\x7f\u009b\u202e\t") || strings.ContainsAny(text[:1], "=+-@") || strings.HasPrefix(text, "＝") {
			t.Errorf("row %d is %q", i, text)
		}
	}
	answer = b.do(t, s, http.MethodGet, "/api/v1/projects/shop/logs/export", "")
	if strings.ContainsAny(answer.Body.String(), "\x1b\x07\r\x7f\u009b\u202e") {
		t.Errorf("ndjson has raw controls: %q", answer.Body)
	}
	lines := strings.Split(strings.TrimSpace(answer.Body.String()), "\n")
	for i, line := range lines {
		var l clickhouse.StoredLog
		if err := json.Unmarshal([]byte(strings.Replace(line, `"id":`, `"_":`, 1)), &l); err != nil || l.Data != hostile[len(hostile)-1-i] {
			t.Errorf("line %d: %s, %v", i, line, err)
		}
	}
	if len(lines) != len(hostile) {
		t.Errorf("%d lines", len(lines))
	}
}

func TestExportReadsAllPages(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	s := b.server()
	lines := make([]string, 2*exportPage+1)
	for i := range lines {
		lines[i] = fmt.Sprint("line ", i)
	}
	b.insert(t, b.Project(t, "shop"), 1, time.Now().Add(-time.Hour), lines...)
	body := b.do(t, s, http.MethodGet, "/api/v1/projects/shop/logs/export?q=line", "").Body.String()
	if got := strings.Count(body, "\n"); got != len(lines) {
		t.Errorf("%d lines of %d", got, len(lines))
	}
}

// half fails after the first page.
type half struct{ *clickhouse.Client }

func (h half) Logs(ctx context.Context, q clickhouse.LogQuery) (clickhouse.LogPage, error) {
	if q.Cursor != "" {
		return clickhouse.LogPage{}, errors.New("the store is gone")
	}
	return clickhouse.LogPage{Logs: make([]clickhouse.StoredLog, 10), Next: "more"}, nil
}

func TestFailedExportDoesNotLookComplete(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.Project(t, "shop")
	b.Deps.Reader = half{b.Client}
	server := httptest.NewServer(b.server())
	t.Cleanup(server.Close)
	response := b.open(t, server.URL+"/api/v1/projects/shop/logs/export", "")
	reader := bufio.NewReader(response.Body)
	for {
		if _, err := reader.ReadString('\n'); err != nil {
			if err.Error() == "EOF" {
				t.Error("the incomplete export ends like a complete one")
			}
			return
		}
	}
}

// open sends a request over the network. The body is closed when the test ends.
func (b *bench) open(t *testing.T, address, lastID string) *http.Response {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+b.key)
	if lastID != "" {
		request.Header.Set("Last-Event-ID", lastID)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { response.Body.Close() })
	return response
}

// sse is a server-sent event.
type sse struct{ id, event, data string }

// next reads one event.
func next(t *testing.T, r *bufio.Reader) sse {
	t.Helper()
	var e sse
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			t.Fatalf("the tail ended: %v", err)
		}
		line = strings.TrimSuffix(line, "\n")
		name, value, _ := strings.Cut(line, ": ")
		switch name {
		case "id":
			e.id = value
		case "event":
			e.event = value
		case "data":
			e.data = value
		case "":
			if e.event != "" {
				return e
			}
		}
	}
}

// The bounds of a tail, as the documents name them.
const maxTails, tailLimit = 32, 500

func TestTailShowsNewLogsAndContinuesAfterADisconnect(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	server := httptest.NewServer(b.server())
	t.Cleanup(server.Close)
	shop, other := b.Project(t, "shop"), b.Project(t, "other")
	b.insert(t, shop, 1, time.Now(), "before the tail, failed")
	address := server.URL + "/api/v1/projects/shop/tail?q=failed"
	response := b.open(t, address, "")
	reader := bufio.NewReader(response.Body)
	if first := next(t, reader); first.event != "open" || first.id == "" || response.Header.Get("Content-Type") != mediaEvents {
		t.Fatalf("the tail opens with %+v", first)
	}
	b.insert(t, other, 2, time.Now(), "another's failed")
	b.insert(t, shop, 3, time.Now(), "one failed", "one went well", "two failed", "three failed \x1b[31m")
	var got []sse
	for len(got) < 3 {
		got = append(got, next(t, reader))
	}
	for i, want := range []string{`"data":"one failed"`, `"data":"two failed"`, `"data":"three failed \u001b[31m"`} {
		if got[i].event != "log" || !strings.Contains(got[i].data, want) {
			t.Errorf("event %d is %+v, want %s", i, got[i], want)
		}
	}
	again := bufio.NewReader(b.open(t, address, got[0].id).Body)
	next(t, again)
	for _, want := range got[1:] {
		if e := next(t, again); e != want {
			t.Errorf("continued after the first, it shows %+v, want %+v", e, want)
		}
	}
	if bad := b.open(t, address, "nonsense"); bad.StatusCode != http.StatusBadRequest {
		t.Errorf("an invalid mark: answer %d", bad.StatusCode)
	}
}

func TestTailCountsDroppedLogs(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	server := httptest.NewServer(b.server())
	t.Cleanup(server.Close)
	shop := b.Project(t, "shop")
	reader := bufio.NewReader(b.open(t, server.URL+"/api/v1/projects/shop/tail", "").Body)
	next(t, reader)
	lines := make([]string, tailLimit+7)
	for i := range lines {
		lines[i] = fmt.Sprint(i)
	}
	b.insert(t, shop, 1, time.Now(), lines...)
	if e := next(t, reader); e.event != "dropped" || e.data != `{"count":7}` {
		t.Errorf("the first event is %+v", e)
	}
	if e := next(t, reader); e.event != "log" || !strings.Contains(e.data, `"data":"7"`) {
		t.Errorf("the second event is %+v", e)
	}
}

func TestTailsEndWithTheServerAndAreBounded(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	service := b.New()
	server := httptest.NewServer(b.serve(service))
	t.Cleanup(server.Close)
	b.Project(t, "shop")
	address := server.URL + "/api/v1/projects/shop/tail"
	reader := bufio.NewReader(b.open(t, address, "").Body)
	next(t, reader)
	for range maxTails - 1 {
		next(t, bufio.NewReader(b.open(t, address, "").Body))
	}
	if answer := b.open(t, address, ""); answer.StatusCode != http.StatusServiceUnavailable || answer.Header.Get("Retry-After") == "" {
		t.Errorf("one tail too many: answer %d", answer.StatusCode)
	}
	service.StopTails()
	if _, err := reader.ReadString(0); err == nil || err.Error() != "EOF" {
		t.Errorf("the tail ends with %v", err)
	}
}
