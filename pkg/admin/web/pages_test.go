package web

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"github.com/logboom/logboom/pkg/admin"
	"github.com/logboom/logboom/pkg/admin/admintest"
	"github.com/logboom/logboom/pkg/clickhouse"
	"github.com/logboom/logboom/pkg/people"
	"github.com/logboom/logboom/pkg/project"
	"github.com/logboom/logboom/pkg/token"
)

// strange are texts that would act as markup or script without escaping.
var strange = []string{
	`<script>alert(1)</script>`, `"><img src=x onerror=alert(1)>`, `' autofocus onfocus=alert(1) x='`, `javascript:alert(1)`, `</textarea><svg onload=alert(1)>`,
	`{{.Person}}`, `&lt;script&gt;`, `<!--`, `]]>`, `<style>*{display:none}</style>`, `</title><script>alert(1)</script>`, "\u202egnp.exe", `<a href="data:text/html,x">`,
}

// checkPage checks that a page has no script or style of its own, and no link to
// another site.
func checkPage(t *testing.T, where, page string) {
	t.Helper()
	tokens := html.NewTokenizer(strings.NewReader(page))
	for {
		kind := tokens.Next()
		if kind == html.ErrorToken {
			return
		}
		if kind != html.StartTagToken && kind != html.SelfClosingTagToken {
			continue
		}
		token := tokens.Token()
		source := ""
		for _, a := range token.Attr {
			if strings.HasPrefix(a.Key, "on") || a.Key == "style" {
				t.Errorf("%s: %s", where, token)
			}
			if a.Key == "src" {
				source = a.Val
			}
			if (a.Key == "href" || a.Key == "src" || a.Key == "action") && strings.Contains(a.Val, ":") && !strings.HasPrefix(a.Val, "/") {
				t.Errorf("%s leads to another site: %s", where, token)
			}
		}
		switch token.Data {
		case "script":
			if !strings.HasPrefix(source, assetRoot) {
				t.Errorf("%s: %s", where, token)
			}
		case "style", "img", "iframe", "base":
			t.Errorf("%s: %s", where, token)
		}
	}
}

func TestHostileTextIsShownAsText(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.Project(t, "shop")
	v := s.as(t, s.user(t, "owner@example.org", people.RoleAdmin))
	for _, text := range strange {
		for path, form := range map[string]url.Values{
			"/projects":                      {"name": {text}},
			"/projects/shop/settings":        {"stderr_as": {text}},
			"/projects/shop/settings/tokens": {"name": {text}},
			"/projects/shop/settings/quotas": {"rate": {text}, "retention_days": {text}, "unit": {text}, "on_quota": {text}},
			"/projects/shop/settings/alerts": {"webhook_url": {text}, "format": {text}, "min_severity": {text}},
			"/projects/shop/settings/delete": {"confirm": {text}},
			"/projects/shop/start":           {"name": {text}},
			"/installation/users":            {"email": {text}, "password": {text}, "projects": {text}, "role": {text}},
			"/installation/keys":             {"name": {text}, "role": {"member"}, "projects": {text}},
		} {
			checkPage(t, "POST "+path+" "+text, v.post(path, form).Body.String())
		}
		if _, _, err := s.People.CreateAPIKey(admintest.Context(t), text, people.RoleMember); err != nil {
			t.Fatal(err)
		}
		change, err := json.Marshal(admin.Change{Action: admin.Action(text), Person: text, Project: text, Target: text, Address: text})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Queue.Publish(admintest.Context(t), "audit", change); err != nil {
			t.Fatal(err)
		}
		query := url.QueryEscape(text)
		for _, path := range []string{"/projects?filter=" + query, "/projects?done=" + query, "/projects/shop/settings/tokens", "/installation/keys", "/installation/audit",
			"/installation/users/delete?email=" + query, "/" + query, "/projects/" + url.PathEscape(text)} {
			answer := v.get(path)
			checkPage(t, "GET "+path, answer.Body.String())
			if answer.Code >= http.StatusInternalServerError {
				t.Errorf("GET %s: answer %d", path, answer.Code)
			}
		}
		checkPage(t, "sign-in", s.visitor(t).post(signInPath, url.Values{"email": {text}, "next": {text}}).Body.String())
	}
	for _, path := range []string{"/projects/shop/settings/tokens", "/installation/keys", "/installation/audit"} {
		if page := v.get(path).Body.String(); !strings.Contains(page, "&lt;script&gt;alert(1)") {
			t.Errorf("%s does not show the text", path)
		}
	}
}

func TestEveryPageHasSecurityHeaders(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.Project(t, "shop")
	v := s.as(t, s.user(t, "owner@example.org", people.RoleAdmin))
	for _, path := range []string{"/sign-in", "/projects", "/projects/shop/settings", "/nothing", "/projects/nothing", "/account"} {
		answer := v.get(path)
		for name, want := range map[string]string{
			"Content-Security-Policy": "default-src 'self'; object-src 'none'; base-uri 'none'; frame-ancestors 'none'; form-action 'self'",
			"X-Content-Type-Options":  "nosniff", "Cache-Control": "no-store", "Referrer-Policy": "same-origin",
		} {
			if got := answer.Header().Get(name); got != want {
				t.Errorf("%s: %s is %q", path, name, got)
			}
		}
	}
}

func TestPagesAreSmallAndCompressed(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	hour := s.now.Truncate(time.Hour)
	for i := range projectsPerPage + 1 {
		p := s.Project(t, fmt.Sprintf("project-%02d", i))
		var rows []clickhouse.UsageRow
		for h := range 24 {
			rows = append(rows, clickhouse.UsageRow{Project: p.ID, Hour: hour.Add(-time.Duration(h) * time.Hour), Measure: "logs", Records: uint64(1000 + 37*h), Bytes: 1 << 20, Stream: "LOGS_0", Seq: uint64(h)})
		}
		if err := s.Client.InsertUsage(admintest.Context(t), p.ID, rows); err != nil {
			t.Fatal(err)
		}
	}
	v := s.as(t, s.user(t, "owner@example.org", people.RoleAdmin))
	v.header["Accept-Encoding"] = "br, gzip;q=0.8"
	answer := v.get("/projects")
	if answer.Code != http.StatusOK || answer.Header().Get("Content-Encoding") != "gzip" || answer.Body.Len() > 50<<10 {
		t.Errorf("answer %d, %q, %d bytes", answer.Code, answer.Header().Get("Content-Encoding"), answer.Body.Len())
	}
	sent := 0
	for name := range s.pages.assets.files {
		address, err := s.pages.assets.path(name)
		if err != nil {
			t.Fatal(err)
		}
		answer := v.get(address)
		if answer.Code != http.StatusOK || !strings.Contains(answer.Header().Get("Cache-Control"), "immutable") {
			t.Errorf("%s: answer %d, %v", address, answer.Code, answer.Header())
		}
		sent += answer.Body.Len()
	}
	t.Logf("51 projects: %d bytes; all assets: %d bytes", answer.Body.Len(), sent)
	if answer := v.get("/assets/0123456789abcdef/logboom.css"); answer.Code != http.StatusOK || answer.Header().Get("Cache-Control") != "no-cache" {
		t.Errorf("an asset of another build: answer %d, %v", answer.Code, answer.Header())
	}
	for _, path := range []string{"/assets/x/nothing.js", "/assets/x/../web.go", "/assets/x/%2e%2e/web.go"} {
		if answer := v.get(path); answer.Code != http.StatusNotFound {
			t.Errorf("%s: answer %d", path, answer.Code)
		}
	}
}

func TestUsageAndStateOfAProjectAreShown(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	p := s.Project(t, "shop")
	limit := int64(1000)
	if _, err := s.Projects.ChangeSettings(admintest.Context(t), "shop", func(settings *project.Settings) { settings.DailyRecords = &limit }); err != nil {
		t.Fatal(err)
	}
	v := s.as(t, s.user(t, "owner@example.org", people.RoleAdmin))
	if page := v.get("/projects").Body.String(); !strings.Contains(page, "Waiting for the first record") {
		t.Error("the page of a new project does not say that it waits")
	}
	if state := v.get("/projects/shop/start/state").Body.String(); !strings.Contains(state, `"first":false`) {
		t.Errorf("the state is %s", state)
	}
	hour := s.now.Truncate(time.Hour)
	if err := s.Client.InsertUsage(admintest.Context(t), "u", []clickhouse.UsageRow{
		{Project: p.ID, Hour: hour, Measure: "logs", Records: 900, Bytes: 5000, Stream: "LOGS_0", Seq: 1},
		{Project: p.ID, Hour: hour, Measure: "dropped", Reason: "daily_records", Records: 1234, Stream: "LOGS_0", Seq: 2},
	}); err != nil {
		t.Fatal(err)
	}
	for path, wants := range map[string][]string{
		"/projects":                      {"900", "1,234 daily quota", "90 %", `dot error`, "M161 "},
		"/projects/shop/settings/quotas": {"1,234 records lost in the last 48 hours", "900 of 1,000", "90 %"},
		"/projects/shop/start/state":     {`"first":true`},
	} {
		page := v.get(path).Body.String()
		for _, want := range wants {
			if !strings.Contains(page, want) {
				t.Errorf("%s does not show %q", path, want)
			}
		}
	}
}

func TestShorterRetentionMustBeConfirmed(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.Project(t, "shop")
	v := s.as(t, s.user(t, "owner@example.org", people.RoleAdmin))
	form := url.Values{"retention_days": {"14"}, "rate": {""}, "daily_records": {"2,000"}, "monthly_bytes": {"3"}, "unit": {"TB"}, "on_quota": {"refuse"}}
	answer := v.post("/projects/shop/settings/quotas", form)
	if answer.Code != http.StatusConflict || !strings.Contains(answer.Body.String(), "Save and delete after 14 days") {
		t.Fatalf("answer %d: %s", answer.Code, answer.Body)
	}
	form.Set("agree", "14")
	if answer := v.post("/projects/shop/settings/quotas", form); answer.Code != http.StatusSeeOther {
		t.Fatalf("answer %d: %s", answer.Code, answer.Body)
	}
	got, err := s.Projects.Project(admintest.Context(t), "shop")
	if set := got.Settings; err != nil || set.RetentionDays != 14 || set.Rate != nil || *set.DailyRecords != 2000 || *set.MonthlyBytes != 3e12 || set.OnQuota != project.OnQuotaRefuse {
		t.Errorf("saved %+v, %v", set, err)
	}
	page := v.get("/projects/shop/settings/quotas").Body.String()
	if !strings.Contains(page, `value="3"`) || !strings.Contains(page, `<option selected>TB</option>`) {
		t.Error("the form does not show the volume as it was typed")
	}
}

func TestTokenIsShownOnlyInTheAnswerThatCreatesIt(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.Project(t, "shop")
	v := s.as(t, s.user(t, "owner@example.org", people.RoleAdmin))
	v.header["Accept-Encoding"] = "gzip"
	answer := v.post("/projects/shop/settings/tokens", url.Values{"name": {"shop web"}})
	at := strings.Index(answer.Body.String(), "lgb_")
	if at < 0 || answer.Header().Get("Content-Encoding") != "" {
		t.Fatalf("answer %d: no token, or compressed: %v", answer.Code, answer.Header())
	}
	value := answer.Body.String()[at : at+42]
	if _, err := token.Parse(value); err != nil {
		t.Fatal(err)
	}
	delete(v.header, "Accept-Encoding")
	if strings.Contains(v.get("/projects/shop/settings/tokens").Body.String(), value) {
		t.Error("the token is shown again")
	}
	if page := v.post("/projects/shop/start", url.Values{"token": {value}}).Body.String(); strings.Count(page, value) < 8 {
		t.Error("the token is not filled in")
	}
	for _, change := range s.Changes(t) {
		if strings.Contains(fmt.Sprint(change), value) {
			t.Error("the token is in the audit log")
		}
	}
	if change := s.last(t); change.Action != "token.created" || change.Project != "shop" || change.Person != "owner@example.org" {
		t.Errorf("in the audit trail: %+v", change)
	}
}

func TestSnippetsContainNothingThatAShellExecutes(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.Project(t, "shop")
	v := s.as(t, s.user(t, "owner@example.org", people.RoleAdmin))
	if page := v.get("/projects/shop/start").Body.String(); !strings.Contains(page, "http://localhost:8080/v1/logs/shop") {
		t.Error("the address of ingest is not filled in")
	}
	r := &request{pages: s.pages}
	for host, want := range map[string]string{
		"logs.example.org:8081": "http://logs.example.org:8080", "[::1]:8081": "http://[::1]:8080", "10.1.2.3": "http://10.1.2.3:8080",
		"x'; rm -rf ~ #": "http://localhost:8080", "$(id)": "http://localhost:8080", "a`id`": "http://localhost:8080",
	} {
		r.Context = s.echo.NewContext(&http.Request{Host: host}, nil)
		if got := r.ingestURL(); got != want {
			t.Errorf("host %q gives %s", host, got)
		}
	}
	s.pages.cfg.IngestURL = "https://in.example.org/"
	list, err := snippets(r.ingestURL(), "", "shop")
	if err != nil || len(list) != 7 {
		t.Fatalf("%d snippets, %v", len(list), err)
	}
	for _, one := range list {
		if strings.Contains(one.Text, "{{") || !strings.Contains(one.Text, noToken) || !strings.Contains(one.Text, "in.example.org") {
			t.Errorf("%s: %s", one.Name, one.Text)
		}
	}
}

func TestUsersGetOnlyTheRightsInTheForm(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	shop := s.Project(t, "shop")
	boss := s.as(t, s.user(t, "boss@example.org", people.RoleAdmin))
	add := func(email, role, projects string) int {
		return boss.post(usersPath, url.Values{"email": {email}, "password": {password}, "role": {role}, "projects": {projects}}).Code
	}
	if code := add("few@example.org", "admin", "shop"); code != http.StatusSeeOther {
		t.Fatalf("answer %d", code)
	}
	if code := add("typo@example.org", "admin", "shpo"); code != http.StatusBadRequest {
		t.Errorf("an unknown project: answer %d", code)
	}
	if code := add("root@example.org", "root", ""); code != http.StatusBadRequest {
		t.Errorf("an unknown role: answer %d", code)
	}
	for _, email := range []string{"typo@example.org", "root@example.org"} {
		if _, err := s.People.User(admintest.Context(t), email); err == nil {
			t.Errorf("%s was created anyway", email)
		}
	}
	few, err := s.People.User(admintest.Context(t), "few@example.org")
	if err != nil || few.Role != people.RoleAdmin {
		t.Fatalf("%+v, %v", few, err)
	}
	v := s.as(t, few)
	if v.get("/projects/shop/settings/delete").Code != http.StatusOK || v.get(usersPath).Code != http.StatusForbidden {
		t.Error("an admin of one project is not just that")
	}
	boss.post(usersPath+"/role", url.Values{"email": {"few@example.org"}, "role": {"member"}, "projects": {"shop"}})
	if v.get("/projects/shop/settings").Code != http.StatusOK || v.get("/projects/shop/settings/delete").Code != http.StatusForbidden {
		t.Error("the new role does not apply at once")
	}
	for path, form := range map[string]url.Values{
		usersPath + "/role":   {"email": {"boss@example.org"}, "role": {"member"}},
		usersPath + "/delete": {"email": {"boss@example.org"}, "confirm": {"boss@example.org"}},
	} {
		if code := boss.post(path, form).Code; code != http.StatusBadRequest {
			t.Errorf("%s of the person themselves: answer %d", path, code)
		}
	}
	boss.post(usersPath+"/delete", url.Values{"email": {"few@example.org"}, "confirm": {"few@example.org"}})
	if v.isIn() || v.get("/projects/"+shop.Name).Code != http.StatusSeeOther {
		t.Error("a deleted user is still signed in")
	}
}

func TestAddressOfAlertsIsNeverShown(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.Project(t, "shop")
	v := s.as(t, s.user(t, "owner@example.org", people.RoleAdmin))
	const path, secret = "/projects/shop/settings/alerts", "https://discord.com/api/webhooks/1234/the-secret-part-4f1c"
	if answer := v.post(path, url.Values{"webhook_url": {secret}, "format": {"auto"}, "min_severity": {"error"}}); answer.Code != http.StatusSeeOther {
		t.Fatalf("answer %d: %s", answer.Code, answer.Body)
	}
	page := v.get(path).Body.String()
	if strings.Contains(page, "the-secret") || !strings.Contains(page, "4f1c") || !strings.Contains(page, "<b>Discord</b>") {
		t.Error("the page shows the address, or does not recognise it")
	}
	v.post(path, url.Values{"format": {"slack"}, "min_severity": {""}})
	saved, err := s.Projects.Alerts(admintest.Context(t), "shop")
	if err != nil || saved.WebhookURL.Reveal() != secret || saved.Format != "slack" || saved.MinSeverity != "" {
		t.Errorf("saved %+v, %v", saved, err)
	}
	answer := v.post(path, url.Values{"webhook_url": {"ftp://" + secret}, "format": {"auto"}})
	if answer.Code != http.StatusBadRequest || strings.Contains(answer.Body.String(), "the-secret") {
		t.Errorf("a wrong address: answer %d, or repeated", answer.Code)
	}
	v.post(path+"/off", nil)
	if saved, err := s.Projects.Alerts(admintest.Context(t), "shop"); err != nil || saved.WebhookURL.IsSet() {
		t.Errorf("after turning alerts off: %v", err)
	}
}

func TestFormsAreBounded(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	v := s.as(t, s.user(t, "owner@example.org", people.RoleAdmin))
	if answer := v.post("/projects", url.Values{"name": {strings.Repeat("a", maxFormBytes)}}); answer.Code != http.StatusRequestEntityTooLarge {
		t.Errorf("answer %d", answer.Code)
	}
	if answer := v.send(http.MethodPost, "/projects", "application/x-www-form-urlencoded", strings.NewReader("name=%zz")); answer.Code != http.StatusBadRequest {
		t.Errorf("a malformed form: answer %d", answer.Code)
	}
}
