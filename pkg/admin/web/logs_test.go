package web

import (
	"encoding/json"
	"fmt"
	"html"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/logboom/logboom/pkg/admin/admintest"
	"github.com/logboom/logboom/pkg/clickhouse"
	"github.com/logboom/logboom/pkg/people"
	"github.com/logboom/logboom/pkg/project"
	"github.com/logboom/logboom/pkg/query"
	wire "github.com/logboom/logboom/pkg/record"
)

// insert stores logs of a project, one second apart, the newest from a minute ago.
func (s *site) insert(t *testing.T, p project.Project, seq uint64, logs ...wire.Log) {
	t.Helper()
	var block clickhouse.LogBlock
	newest := s.now.Add(-time.Minute)
	for i := range logs {
		at := newest.Add(-time.Duration(i) * time.Second)
		if logs[i].Timestamp == 0 {
			logs[i].Timestamp = at.UnixNano()
		}
		block.Append(clickhouse.Row{Seq: seq, Idx: uint32(i), Received: at.UnixNano(), Project: p.ID, RetentionDays: 30}, &logs[i])
	}
	if err := s.Client.InsertLogs(admintest.Context(t), fmt.Sprint(p.ID, seq), &block); err != nil {
		t.Fatal(err)
	}
}

// body returns the page, which must have the status.
func (v *visitor) body(path string, status int) string {
	v.t.Helper()
	answer := v.get(path)
	if answer.Code != status {
		v.t.Fatalf("%s: answer %d: %s", path, answer.Code, answer.Body)
	}
	return answer.Body.String()
}

func TestExplorerShowsOnlyLinesOfItsProject(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	shop, other := s.Project(t, "shop"), s.Project(t, "other")
	s.insert(t, shop, 1, wire.Log{Application: "api", Severity: "ERROR", SeverityNumber: 17, Data: "the shop's own line", Host: "web-1"})
	s.insert(t, other, 2, wire.Log{Application: "api", Severity: "INFO", SeverityNumber: 9, Data: "a line of others"})
	member := s.as(t, s.user(t, "member@example.org", people.RoleMember, shop))
	for _, q := range []string{"", "line", `app:api OR "others"`, `") OR 1=1 --`, "id:0-2-0"} {
		page := member.get("/projects/shop/logs?q=" + url.QueryEscape(q)).Body.String()
		if strings.Contains(page, "a line of others") {
			t.Errorf("%s: shows a line of another project", q)
		}
	}
	if page := member.body("/projects/shop/logs?q=own", http.StatusOK); !strings.Contains(page, "shop&#39;s <mark>own</mark> line") || !strings.Contains(page, "web-1") {
		t.Errorf("the line is not shown, with what was found:\n%s", page)
	}
	for _, path := range []string{"/logs", "/logs/edit?do=in&field=host&value=x", "/logs/complete", "/logs/rows?cursor=x", "/logs/tail", "/logs/0-2-0/fields", "/logs/0-2-0/context", "/events"} {
		if answer := member.get("/projects/other" + path); answer.Code != http.StatusNotFound {
			t.Errorf("%s of another project: answer %d", path, answer.Code)
		}
	}
	for _, id := range []string{"0-2-0", "0-9-9", "x"} {
		if answer := member.get("/projects/shop/logs/" + id + "/context"); answer.Code != http.StatusNotFound {
			t.Errorf("context of %s: answer %d", id, answer.Code)
		}
	}
	if page := member.body("/projects/shop/logs/0-1-0/context", http.StatusOK); !strings.Contains(page, "Context of one line") {
		t.Error("there is no context")
	}
}

// hostileTexts must not do anything when a page shows them.
var hostileTexts = []string{
	`<script>alert(1)</script>`, `"><img src=x onerror=alert(1)>`, `' onmouseover='alert(1)`, `javascript:alert(1)`, `</title><svg/onload=alert(1)>`,
	`{{.Secret}}`, "${alert(1)}", "\x1b]0;owned\x07", "\x1b[2Jcleared", "a\u202egnp.exe", "\u2066x\u2069", "\x9b31m", "nul\x01\x7f", "a\r\nforged", "`+alert(1)+`",
}

// raw finds what a browser or terminal would act on.
var raw = regexp.MustCompile("<script>alert|<img src=x|onerror=alert\\(1\\)>|<svg/onload|[\\x00-\\x08\\x0b-\\x1f\\x7f\u202a-\u202e\u2066-\u2069]")

func TestTextOfALineDoesNothing(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	shop := s.Project(t, "shop")
	for i, text := range hostileTexts {
		s.insert(t, shop, uint64(i+1), wire.Log{Application: text, Severity: text, SeverityNumber: 17, Data: text, Host: text, Source: text, Metadata: []wire.Pair{{Key: text, Value: text}, {Key: "trace_id", Value: text}}})
	}
	admin := s.as(t, s.user(t, "admin@example.org", people.RoleAdmin))
	paths := []string{"/projects/shop/logs"}
	for i, text := range hostileTexts {
		id := fmt.Sprintf("0-%d-0", i+1)
		address := url.Values{"q": {text}, "col": {text}, "last": {text}, "sel": {text}, "from": {text}, "cursor": {text}, "line": {id}}
		paths = append(paths, "/projects/shop/logs?line="+id, "/projects/shop/logs/"+id+"/context", "/projects/shop/logs?"+address.Encode(),
			"/projects/shop/logs?q="+url.QueryEscape(query.PrintValue(text+" ")), "/projects/shop/events?"+address.Encode()+"&event="+url.QueryEscape(text)+"&channel="+url.QueryEscape(text))
	}
	for _, path := range paths {
		answer := admin.get(path)
		if answer.Code >= http.StatusInternalServerError {
			t.Errorf("%s: answer %d", path, answer.Code)
		}
		if found := raw.FindString(strings.ReplaceAll(answer.Body.String(), "value=\"", "")); found != "" && !inQuery(answer.Body.String(), found) {
			t.Errorf("%s: the page has %q", path, found)
		}
	}
}

// inQuery reports whether a control character is only in the query's input, where
// a person typed it.
func inQuery(page, found string) bool {
	at := strings.Index(page, found)
	return len([]rune(found)) == 1 && strings.LastIndex(page[:at], "<form") > strings.LastIndex(page[:at], "</form")
}

func TestClicksOnValuesEditTheQuery(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.Project(t, "shop")
	admin := s.as(t, s.user(t, "admin@example.org", people.RoleAdmin))
	for _, c := range []struct{ text, do, field, value, want string }{
		{"x", "in", "application", "checkout", "x app:checkout"},
		{"x", "out", "metadata.k", "a b", `x -k:"a b"`},
		{"x", "text", "", "two words", `x "two words"`},
		{"(bad", "in", "host", "a", "host:a"},
		{"x", "none", "host", "a", "x"},
	} {
		address := url.Values{"q": {c.text}, "do": {c.do}, "field": {c.field}, "value": {c.value}}
		answer := admin.get("/projects/shop/logs/edit?" + address.Encode())
		to, err := url.Parse(answer.Header().Get("Location"))
		if err != nil || to.Query().Get("q") != c.want {
			t.Errorf("%v leads to %s, want the query %s: %v", c, to, c.want, err)
		}
	}
	if answer := admin.get("/projects/shop/logs/edit?do=in&field=host&value=%00"); answer.Code != http.StatusNotFound {
		t.Errorf("a NUL byte is answered %d", answer.Code)
	}
}

func TestEveryRowIsRenderedByTheSameTemplate(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	shop := s.Project(t, "shop")
	logs := make([]wire.Log, rowsPerPage+2)
	for i := range logs {
		logs[i] = wire.Log{Application: "api", Severity: "INFO", SeverityNumber: 9, Data: fmt.Sprintf("line %d\nof <b>many</b>\x1b[31m", i), Metadata: []wire.Pair{{Key: "k\u202e", Value: "v"}}}
	}
	s.insert(t, shop, 1, logs...)
	admin := s.as(t, s.user(t, "admin@example.org", people.RoleAdmin))
	row := regexp.MustCompile(`(?s)<details class="l info.*?</details>`)
	byID := func(page string) map[string]string {
		rows := map[string]string{}
		for _, html := range row.FindAllString(page, -1) {
			id, _, _ := strings.Cut(html[strings.Index(html, `data-id="`)+9:], `"`)
			rows[id] = html
		}
		return rows
	}
	page := admin.body("/projects/shop/logs?q=many&col=other", http.StatusOK)
	if n := len(byID(page)); n != rowsPerPage {
		t.Fatalf("the page has %d rows", n)
	}
	link := regexp.MustCompile(`data-rows="([^"]*)"`).FindStringSubmatch(page)
	if link == nil {
		t.Fatal("the page has no link to older rows")
	}
	older := admin.body(html.UnescapeString(link[1]), http.StatusOK)
	if n := len(byID(older)); n != 2 || strings.Contains(older, "<html") || !strings.Contains(older, "No older lines") {
		t.Errorf("%d older rows:\n%s", n, older)
	}
	s.pages.service.StopTails() // a tail ends after its first read
	admin.header["Last-Event-ID"] = fmt.Sprint(s.now.Add(-time.Hour).UnixNano())
	tailed := map[string]string{}
	for line := range strings.Lines(admin.body("/projects/shop/logs/tail?q=many&col=other", http.StatusOK)) {
		if data, ok := strings.CutPrefix(line, `data: "`); ok {
			var html string
			if err := json.Unmarshal([]byte(`"`+data), &html); err != nil {
				t.Fatal(err)
			}
			maps.Copy(tailed, byID(html))
		}
	}
	listed := byID(page)
	maps.Copy(listed, byID(older))
	if len(listed) != len(logs) || !maps.Equal(listed, tailed) {
		t.Errorf("the list has %d rows and the tail %d; the first are\n%s\n%s", len(listed), len(tailed), listed["0-1-0"], tailed["0-1-0"])
	}
	delete(admin.header, "Last-Event-ID")
	fields := admin.body("/projects/shop/logs/0-1-0/fields?q=many", http.StatusOK)
	for _, want := range []string{`data-field="&#34;application&#34;"`, `data-field="&#34;metadata.k\u202e&#34;"`, "<mark>many</mark>", "do=out", "col=k"} {
		if !strings.Contains(fields, want) {
			t.Errorf("the fields have no %s:\n%s", want, fields)
		}
	}
	if raw.MatchString(fields) {
		t.Errorf("the fields contain what a browser acts on:\n%s", fields)
	}
	for _, path := range []string{"/0-9-9/fields", "/x/fields", "/rows?cursor=x", "/tail?q=(", "/rows?q=("} {
		admin.body("/projects/shop/logs"+path, http.StatusNotFound)
	}
}

func TestColoursBecomeClassesAndControlsPictures(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"plain":                       "[{plain  false false}]",
		"a \x1b[1;31mred\x1b[0m b":    "[{a   false false} {red ansi-b fg1 false false} { b  false false}]",
		"\x1b[38;5;9mx":               "[{x fg1 false false}]",
		"\x1b[38;2;1;2;3mx":           "[{x  false false}]",
		"\x1b]0;t\x07":                "[{␛  false true} {]0;t  false false} {␇  false true}]",
		"a\u202eb":                    "[{a  false false} {U+202E  false true} {b  false false}]",
		"Timeout and \x1b[4mtimeout1": "[{Timeout  true false} { and   false false} {timeout ansi-u true false} {1 ansi-u false false}]",
	} {
		if got := fmt.Sprint(safeText(text, query.All(wire.KindLog).AndText("timeout").Marker())); got != want {
			t.Errorf("%q is %s, want %s", text, got, want)
		}
	}
}

func TestAddressOfTheExplorerContainsItsWholeState(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 20, 14, 35, 20, 0, time.UTC)
	for _, address := range []string{
		"q=a&last=6h&sel=1763640000000-1763643600000&col=k&col=l&wrap=1", "from=2026-11-20T13:00:00Z&to=2026-11-20T14:00:00Z&line=0-1-2", "live=1", "",
	} {
		values, _ := url.ParseQuery(address)
		s, fault := readLogState(values, now)
		again, _ := readLogState(s.values(), now)
		if fault != nil || fmt.Sprint(s) != fmt.Sprint(again) {
			t.Errorf("%s: %v, and then %v; %v", address, s, again, fault)
		}
	}
	if s, _ := readLogState(nil, now); s.To.Sub(s.From) != time.Hour || !s.To.After(now) || s.To.Sub(now) > time.Minute {
		t.Errorf("the default range is %s to %s", s.From, s.To)
	}
	for _, bad := range []string{"last=1y", "last=-1h", "last=99999999d", "from=x&to=y", "from=2026-01-02&to=2026-01-01", "from=2020-01-01&to=2026-01-01", "sel=5", "sel=7-3", "q=" + strings.Repeat("x", 2000), "cursor=" + strings.Repeat("x", 2000)} {
		values, _ := url.ParseQuery(bad)
		if s, fault := readLogState(values, now); fault == nil || s.From.IsZero() {
			t.Errorf("%.40s is accepted", bad)
		}
	}
}

func TestCompletionSuggestsFieldsAndTheirValues(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	shop := s.Project(t, "shop")
	s.insert(t, shop, 1, wire.Log{Application: "checkout", Host: "web-1", Severity: "info", SeverityNumber: 9, Data: "x", Metadata: []wire.Pair{{Key: "region", Value: "eu west"}}},
		wire.Log{Application: "cart", Host: "web-2", Severity: "info", SeverityNumber: 9, Data: "y"})
	admin := s.as(t, s.user(t, "admin@example.org", people.RoleAdmin))
	ask := func(q string) string {
		t.Helper()
		var answer completions
		if err := json.Unmarshal([]byte(admin.body("/projects/shop/logs/complete?at="+fmt.Sprint(len(q))+"&q="+url.QueryEscape(q), http.StatusOK)), &answer); err != nil {
			t.Fatal(err)
		}
		var list []string
		for _, item := range answer.Items {
			list = append(list, item.Insert)
		}
		return fmt.Sprint(answer.From, list)
	}
	for q, want := range map[string]string{
		"ho": "0 [host:]", "x re": "2 [region:]", "host:": "5 [web-1 web-2]", "app:cart host:w": "14 [web-2]", "region:eu": `7 ["eu west"]`, `"quoted te`: "10 []",
	} {
		if got := ask(q); got != want {
			t.Errorf("%s: %s, want %s", q, got, want)
		}
	}
}

func TestBadQueryIsShownWithItsPlace(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.Project(t, "shop")
	admin := s.as(t, s.user(t, "admin@example.org", people.RoleAdmin))
	page := admin.body("/projects/shop/logs?q="+url.QueryEscape("failed AND (host:"), http.StatusBadRequest)
	for _, want := range []string{`data-bad="17"`, `class="q-operator"`, "Missing value of host (character 18)."} {
		if !strings.Contains(page, want) {
			t.Errorf("the page has no %s", want)
		}
	}
	if text := html.UnescapeString(admin.body("/projects/shop/logs", http.StatusOK)); !strings.Contains(text, "No lines yet") {
		t.Error("an empty project does not say what to do")
	}
}

// TestPagesStaySmall bounds the size of the explorer with a full list, and of what
// it loads, for slow connections.
func TestPagesStaySmall(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	shop := s.Project(t, "shop")
	logs := make([]wire.Log, rowsPerPage)
	for i := range logs {
		logs[i] = wire.Log{Application: "checkout", Severity: "info", SeverityNumber: 9, Host: fmt.Sprint("web-", i%5), Data: fmt.Sprintf("request %d was answered in %d ms after %x", i*7919, i%250, i*104729)}
		for k := range 8 {
			logs[i].Metadata = append(logs[i].Metadata, wire.Pair{Key: fmt.Sprint("key_", k), Value: fmt.Sprintf("%x", (i+1)*(k+3)*7919)})
		}
	}
	s.insert(t, shop, 1, logs...)
	admin := s.as(t, s.user(t, "admin@example.org", people.RoleAdmin))
	admin.header["Accept-Encoding"] = "gzip"
	answer := admin.get("/projects/shop/logs")
	if answer.Code != http.StatusOK || answer.Header().Get("Content-Encoding") != "gzip" || answer.Body.Len() > 60_000 {
		t.Errorf("the page: answer %d, %q, %d bytes", answer.Code, answer.Header().Get("Content-Encoding"), answer.Body.Len())
	}
	t.Logf("the explorer with %d rows is %d bytes, compressed", rowsPerPage, answer.Body.Len())
	scripts, styles := 0, 0
	for name, file := range s.pages.assets.files {
		switch {
		case strings.HasSuffix(name, ".js"):
			scripts += len(file.gzip)
		case name == "logboom.css" || name == "explorer.css":
			styles += len(file.gzip)
		}
	}
	if scripts > 25_000 || styles > 10_000 {
		t.Errorf("compressed, the scripts are %d bytes and the styles %d", scripts, styles)
	}
	t.Logf("compressed, all scripts are %d bytes and the explorer's styles %d", scripts, styles)
}
