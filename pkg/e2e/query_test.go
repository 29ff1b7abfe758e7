package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// neighbour is a second project. Each of the two projects has a key that sees only
// that project.
type neighbour struct {
	project, token string
}

// addNeighbour creates a project with a token.
func (s *system) addNeighbour(t *testing.T, name string) neighbour {
	t.Helper()
	token, _ := s.newProjectToken(t, name)
	return neighbour{name, token}
}

// look sends a GET request below a project.
func (s *system) look(t *testing.T, project, route string, query url.Values) answer {
	t.Helper()
	a, _ := insist(t, http.MethodGet, s.admin+"/api/v1/projects/"+project+"/"+route+"?"+query.Encode(), bearer(s.apiKey), nil)
	return a
}

// found returns the data of the logs that a query finds, sorted.
func (s *system) found(t *testing.T, q string) string {
	t.Helper()
	var lines []string
	for _, l := range s.all(t, "logs", url.Values{"q": {q}}).Logs {
		lines = append(lines, l.Data)
	}
	slices.Sort(lines)
	return strings.Join(lines, "|")
}

func TestQueriesFindWhatTheyAskFor(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *system) {
		s.send(t, "logs", `[
			{"data":"req-3810 failed: Connection refused","application":"billing","severity":"ERROR","host":"web-1","metadata":{"user":"Bob","took":12.5}},
			{"data":"req-38101 was fine","application":"billing","severity":"info","host":"web-2","metadata":{"user":"alice w","took":3}},
			{"data":"Größe 42, 100% of a_b","application":"shop","severity":"Warning","source":"stdout","metadata":{"path":"/a/b"}}]`, 3)
		s.until(t, "logs", url.Values{}, func(p page) bool { return len(p.Logs) == 3 })
		const first, second, third = "req-3810 failed: Connection refused", "req-38101 was fine", "Größe 42, 100% of a_b"
		for q, want := range map[string]string{
			"": third + "|" + first + "|" + second, "req-3810": first, "REQ-3810*": first + "|" + second, "fail": "", "fail*": first, `"ction REF"`: first, "größe": third, "/req-[0-9]{5}/": second,
			"failed OR fine": first + "|" + second, "app:billing -failed": second, "NOT app:Billing": third, "(failed OR größe) severity>=error": first, "level:warning": third, "severity<error": third + "|" + second,
			"user:bob": first, `metadata.user:"ALICE w"`: second, "user:(bob OR al*)": first + "|" + second, "user!=bob": third + "|" + second, "took>3": first, "took<=3": second, "path:*": third, "path:/a/b": third,
			"host:web* source:*": "", `"0% of a_b"`: third,
		} {
			if got := s.found(t, q); sortedParts(got) != sortedParts(want) {
				t.Errorf("q=%s finds %s, want %s", q, got, want)
			}
		}
		id := s.page(t, "logs", url.Values{"q": {"failed"}}).Logs[0].ID
		if got := s.found(t, "id:"+id); got != first {
			t.Errorf("id:%s finds %s", id, got)
		}
		s.send(t, "events", `[{"channel":"deploys","title":"v42 is live","tags":{"commit":"abc"}},{"channel":"billing","title":"refund","description":"of v42"}]`, 2)
		for q, hits := range map[string]int{"v42": 2, "channel:deploys": 1, "commit:ABC": 1, "title:refund": 1, "v42 -live": 1, "tags.commit:*": 1} {
			s.until(t, "events", url.Values{"q": {q}}, func(p page) bool { return len(p.Events) == hits })
		}
	})
}

func sortedParts(joined string) string {
	parts := strings.Split(joined, "|")
	slices.Sort(parts)
	return strings.Join(parts, "|")
}

// No request to one project's routes returns data of the other project, also not
// with ids and cursors of the other.
func TestNoQueryTextReachesAnotherProject(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *system) {
		other := s.addNeighbour(t, "neighbour")
		s.send(t, "logs", `[{"data":"mine one"},{"data":"mine two"}]`, 2)
		s.send(t, "events", `[{"channel":"c","title":"mine"}]`, 1)
		theirs := &system{ingest: s.ingest, admin: s.admin, project: other.project, token: other.token, apiKey: s.apiKey}
		theirs.send(t, "logs", `[{"data":"theirs one","application":"theirs","metadata":{"theirs":"theirs"}},{"data":"theirs two"}]`, 2)
		theirs.send(t, "events", `[{"channel":"theirs","title":"theirs"}]`, 1)
		s.until(t, "logs", url.Values{}, func(p page) bool { return len(p.Logs) == 2 })
		there := theirs.until(t, "logs", url.Values{"limit": {"1"}}, func(p page) bool { return p.Next != "" })
		for _, q := range []string{
			"", "*", "mine OR one", "OR 1=1", "' OR 1=1 --", `x" OR 1=1 --`, "1) OR (1=1", "/* */", "-- x", "x') UNION ALL SELECT * FROM logs --", "mine UNION SELECT data FROM logs",
			"{project:String}", "project:" + other.project, "NOT nothing", "/.*/", `application:"' OR project != '"`, "id:" + there.Logs[0].ID, "severity>=0", "\\", "%", "';SELECT 1",
		} {
			for _, route := range []string{"logs", "events", "histogram", "facets", "logs/export"} {
				a := s.look(t, s.project, route, url.Values{"q": {q}})
				if a.status != http.StatusOK && a.status != http.StatusBadRequest {
					t.Errorf("%s?q=%s: answer %d: %s", route, q, a.status, a.body)
				}
				if strings.Contains(string(a.body), "theirs") {
					t.Errorf("%s?q=%s shows another project's rows: %s", route, q, a.body)
				}
			}
		}
		if a := s.look(t, s.project, "logs", url.Values{"cursor": {there.Next}}); a.status != http.StatusBadRequest {
			t.Errorf("another project's cursor: answer %d: %s", a.status, a.body)
		}
		if a := s.look(t, s.project, "logs/"+there.Logs[0].ID+"/context", nil); strings.Contains(string(a.body), "theirs") {
			t.Errorf("another project's log in context: answer %d: %s", a.status, a.body)
		}
		for _, route := range []string{"logs", "events", "histogram", "facets", "logs/export", "logs/" + there.Logs[0].ID + "/context", "tail"} {
			if a := s.look(t, "nobody-s", route, nil); a.status != http.StatusNotFound {
				t.Errorf("%s of a project that is not there: answer %d: %s", route, a.status, a.body)
			}
			if a := do(t, http.MethodGet, s.admin+"/api/v1/projects/"+other.project+"/"+route, nil, nil); a.status != http.StatusUnauthorized {
				t.Errorf("%s without a key: answer %d", route, a.status)
			}
		}
	})
}

func TestBadQueryIsRefusedWithItsPlaceAndReason(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *system) {
		for q, offset := range map[string]int{"a AND": 5, "(a OR b": 0, `a "b`: 2, "ä host:": 8, "/a(/": 1, "took>many": 5, "severity>=loud": 10} {
			a := s.look(t, s.project, "logs", url.Values{"q": {q}})
			var p struct {
				Code, Detail, Field string
				Offset              *int
			}
			a.decode(t, &p)
			if a.status != http.StatusBadRequest || p.Code != "invalid_query" || p.Offset == nil || *p.Offset != offset || p.Field != "q" || !strings.Contains(p.Detail, fmt.Sprintf("(character %d)", utf8.RuneCountInString(q[:offset])+1)) {
				t.Errorf("q=%s: answer %d: %s", q, a.status, a.body)
			}
		}
	})
}

func TestTheExplorerSeesWhatWasSent(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *system) {
		var bodies []string
		for i := range 30 {
			bodies = append(bodies, fmt.Sprintf(`{"data":"line %d","application":"app-%d","severity":%q,"host":"h","metadata":{"n":%d}}`, i, i%2, []string{"INFO", "ERROR", "WARN"}[i%3], i%5))
		}
		began := time.Now().Add(-time.Minute).UTC()
		s.send(t, "logs", "["+strings.Join(bodies, ",")+"]", len(bodies))
		s.until(t, "logs", url.Values{}, func(p page) bool { return len(p.Logs) == len(bodies) })
		times := url.Values{"from": {began.Format(time.RFC3339Nano)}, "to": {time.Now().Add(time.Minute).UTC().Format(time.RFC3339Nano)}, "buckets": {"7"}}
		var h struct {
			Total      uint64
			Severities map[string]uint64
			Buckets    []struct{ Count uint64 }
		}
		s.look(t, s.project, "histogram", times).decode(t, &h)
		sum := uint64(0)
		for _, b := range h.Buckets {
			sum += b.Count
		}
		if h.Total != 30 || sum != 30 || len(h.Buckets) != 7 || h.Severities["error"] != 10 || h.Severities["info"] != 10 || h.Severities["warn"] != 10 {
			t.Errorf("histogram: %+v", h)
		}
		type count struct {
			Value string
			Count int
		}
		var f struct {
			Applications, Severities, Hosts []count
			Metadata                        []struct {
				Key    string
				Count  int
				Values []count
			}
		}
		s.look(t, s.project, "facets", url.Values{"q": {"app:app-0"}}).decode(t, &f)
		if fmt.Sprint(f.Applications, f.Severities, f.Hosts) != "[{app-0 15}] [{ERROR 5} {INFO 5} {WARN 5}] [{h 15}]" || len(f.Metadata) != 1 || f.Metadata[0].Key != "n" || f.Metadata[0].Count != 15 || len(f.Metadata[0].Values) != 5 {
			t.Errorf("facets: %+v", f)
		}
		middle := s.page(t, "logs", url.Values{"q": {`"line 15"`}}).Logs[0]
		var around struct{ Before, After []log }
		s.look(t, s.project, "logs/"+middle.ID+"/context", url.Values{"before": {"5"}, "after": {"5"}}).decode(t, &around)
		for _, l := range append(around.Before, around.After...) {
			if l.Application != middle.Application || l.ID == middle.ID {
				t.Errorf("in the context of %s: %+v", middle.ID, l)
			}
		}
		if len(around.Before) != 5 || len(around.After) != 5 {
			t.Errorf("context: %d before, %d after", len(around.Before), len(around.After))
		}
		for format, rows := range map[string]int{"ndjson": 30, "csv": 31} {
			if a := s.look(t, s.project, "logs/export", url.Values{"format": {format}}); strings.Count(string(a.body), "\n") != rows {
				t.Errorf("export as %s: answer %d: %s", format, a.status, a.body)
			}
		}
	})
}

func TestTailShowsWhatIsSentNow(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *system) {
		ctx, cancel := context.WithTimeout(t.Context(), readableWithin)
		defer cancel()
		tail, at := s.tail(ctx, t, "")
		s.send(t, "logs", `[{"data":"one failed"},{"data":"went well"},{"data":"two failed"}]`, 3)
		var got []string
		reached := at
		for len(got) < 2 && ctx.Err() == nil {
			switch line, more := tail(); {
			case !more: // a tail ends after a while and is continued
				tail, reached = s.tail(ctx, t, at)
			case line == "": // the event is complete
				at = reached
			case strings.HasPrefix(line, "id: "):
				reached = strings.TrimPrefix(line, "id: ")
			case strings.HasPrefix(line, "data: "):
				var l log
				if json.Unmarshal([]byte(strings.TrimPrefix(line, "data: ")), &l) == nil && l.Data != "" {
					got = append(got, l.Data)
				}
			}
		}
		if fmt.Sprint(got) != "[one failed two failed]" {
			t.Errorf("the tail shows %v", got)
		}
		for _, p := range s.processes {
			p.stop() // an open tail delays no stop
		}
	})
}

// tail follows the logs that contain "failed", from now on or from the position of
// an earlier tail. It returns a function that reads the next line, and the
// position at which the tail begins.
func (s *system) tail(ctx context.Context, t *testing.T, from string) (next func() (line string, more bool), at string) {
	t.Helper()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.admin+"/api/v1/projects/"+s.project+"/tail?q=failed", nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+s.apiKey)
	request.Header.Set("Last-Event-ID", from)
	var response *http.Response
	eventually(t, "a tail is not answered by 503", func() bool {
		if response, err = http.DefaultClient.Do(request); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { response.Body.Close() })
		return response.StatusCode != http.StatusServiceUnavailable
	})
	if response.StatusCode != http.StatusOK || response.Header.Get("Content-Type") != "text/event-stream" {
		t.Fatalf("answer %d, %s", response.StatusCode, response.Header.Get("Content-Type"))
	}
	lines := bufio.NewScanner(response.Body)
	next = func() (string, bool) { more := lines.Scan(); return lines.Text(), more }
	for at == "" {
		line, more := next()
		if !more {
			t.Fatal("the tail does not say where it begins")
		}
		at, _ = strings.CutPrefix(line, "id: ")
		if at == line {
			at = ""
		}
	}
	return next, at
}
