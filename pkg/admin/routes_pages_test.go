package admin

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/logboom/logboom/pkg/config"
	"github.com/logboom/logboom/pkg/project"
)

// withPages gives a server whose pages are open, and its trail.
func (b *bench) withPages(t *testing.T, settings config.Admin) (*Server, Trail) {
	t.Helper()
	s := b.server(b.client, unhurried)
	trail, err := OpenTrail(patient(t), b.js, slog.New(slog.NewJSONHandler(&b.log, nil)), 1)
	if err != nil {
		t.Fatal(err)
	}
	s.deps.Audit = trail
	if err := s.openPages(patient(t), settings, Connections{Store: b.store, Client: b.client, Queue: b.js, Replicas: 1}, trail); err != nil {
		t.Fatal(err)
	}
	return s, trail
}

const pagePassword = "a long password"

// signedIn is the cookie of a user who signed in by the form.
func signedIn(t *testing.T, s *Server, email string) *http.Cookie {
	t.Helper()
	answer := submit(s, "/sign-in", nil, url.Values{"email": {email}, "password": {pagePassword}})
	cookies := answer.Result().Cookies()
	if answer.Code != http.StatusSeeOther || len(cookies) != 1 {
		t.Fatalf("sign-in: answer %d, %v", answer.Code, cookies)
	}
	return cookies[0]
}

// submit sends a form as a browser does that looks at this machine's pages.
func submit(s *Server, path string, cookie *http.Cookie, form url.Values) *httptest.ResponseRecorder {
	request := httptest.NewRequest(http.MethodPost, "http://localhost:8081"+path, strings.NewReader(form.Encode()))
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return ask(s, request, cookie)
}

func ask(s *Server, request *http.Request, cookie *http.Cookie) *httptest.ResponseRecorder {
	if cookie != nil {
		request.AddCookie(cookie)
	}
	answer := httptest.NewRecorder()
	s.ServeHTTP(answer, request)
	return answer
}

func TestPagesAskTheAPIByTheirSession(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	s, _ := b.withPages(t, config.Admin{})
	b.project(t, "shop")
	if _, err := b.store.CreateFirstAdmin(patient(t), "one@example.org", project.NewSecret(pagePassword)); err != nil {
		t.Fatal(err)
	}
	if _, err := b.store.CreateUser(patient(t), "two@example.org", project.NewSecret(pagePassword), project.RoleMember); err != nil {
		t.Fatal(err)
	}
	admin, member := signedIn(t, s, "one@example.org"), signedIn(t, s, "two@example.org")
	get := func(path string, cookie *http.Cookie) *httptest.ResponseRecorder {
		return ask(s, httptest.NewRequest(http.MethodGet, "http://localhost:8081"+path, nil), cookie)
	}
	for path, want := range map[string][3]int{ // nobody, a member of no project, an admin
		"/api/v1/projects":              {401, 200, 200},
		"/api/v1/projects/shop":         {401, 404, 200},
		"/api/v1/projects/shop/logs":    {401, 404, 200},
		"/api/v1/dead-letters":          {401, 403, 200},
		"/api/v1/nothing":               {401, 404, 404},
		"/projects/shop/settings":       {303, 404, 200},
		"/installation/audit":           {303, 403, 200},
		"/nothing":                      {404, 404, 404},
		"/api/v1/projects?limit=nonono": {401, 400, 400},
	} {
		for i, cookie := range []*http.Cookie{nil, member, admin} {
			if answer := get(path, cookie); answer.Code != want[i] {
				t.Errorf("%s as %d: answer %d, want %d: %s", path, i, answer.Code, want[i], answer.Body)
			}
		}
	}
	if list := get("/api/v1/projects", member); strings.Contains(list.Body.String(), "shop") {
		t.Errorf("a member of no project lists %s", list.Body)
	}
	change := httptest.NewRequest(http.MethodPost, "http://localhost:8081/api/v1/projects", strings.NewReader(`{"name":"planted"}`))
	change.Header.Set("Sec-Fetch-Site", "cross-site")
	if answer := ask(s, change, admin); answer.Code != http.StatusUnauthorized {
		t.Errorf("another site's request with the session: answer %d", answer.Code)
	}
}

func TestEveryChangeIsKeptWithWhoMadeIt(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	s, trail := b.withPages(t, config.Admin{})
	if _, err := b.store.CreateFirstAdmin(patient(t), "one@example.org", project.NewSecret(pagePassword)); err != nil {
		t.Fatal(err)
	}
	cookie := signedIn(t, s, "one@example.org")
	submit(s, "/projects", cookie, url.Values{"name": {"shop"}})
	submit(s, "/projects/shop/settings/tokens", cookie, url.Values{"name": {"web"}})
	send(s, http.MethodPut, "/api/v1/projects/shop/settings", b.key, `{"retention_days":7}`)
	ask(s, httptest.NewRequest(http.MethodDelete, "http://localhost:8081/api/v1/projects/shop", nil), cookie)
	var got []string
	for before, more := uint64(0), true; more; {
		list, next, err := trail.Changes(patient(t), before, 2)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range list {
			by := c.Person
			if by == "" && c.KeyID != "" {
				by = "key"
			}
			got = append(got, fmt.Sprintf("%s %s %s", by, c.Action, c.Project))
			if time.Since(c.Time) > time.Hour || c.RequestID == "" || c.Address == "" {
				t.Errorf("kept %+v", c)
			}
		}
		before, more = next, next != 0
	}
	want := "[one@example.org project.deleted shop key settings.changed shop one@example.org token.created shop one@example.org project.created shop one@example.org person.signed_in ]"
	if fmt.Sprint(got) != want {
		t.Errorf("kept %v", got)
	}
	if page := ask(s, httptest.NewRequest(http.MethodGet, "http://localhost:8081/installation/audit", nil), cookie); !strings.Contains(page.Body.String(), "API key ") || !strings.Contains(page.Body.String(), "made a token") {
		t.Errorf("the page: %d %s", page.Code, page.Body)
	}
}

func TestSetUpCodeIsWrittenToTheLogWhileNobodyIsAdmin(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	s, _ := b.withPages(t, config.Admin{})
	_, after, found := strings.Cut(b.log.String(), `"set-up code":"`)
	code, _, _ := strings.Cut(after, `"`)
	if !found || len(code) < 20 {
		t.Fatalf("the log has no code:\n%s", b.log.String())
	}
	answer := submit(s, "/set-up", nil, url.Values{"code": {code}, "email": {"one@example.org"}, "password": {pagePassword}})
	if answer.Code != http.StatusSeeOther {
		t.Fatalf("answer %d: %s", answer.Code, answer.Body)
	}
	logged := len(b.log.String())
	b.withPages(t, config.Admin{})
	if strings.Contains(b.log.String()[logged:], "set-up code") {
		t.Error("the way is open again after a restart")
	}
}

func TestPagesNameTheAddressesOfTheSettings(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		settings config.Admin
		listens  string
		public   string
		ingest   string
		port     string
	}{
		"nothing said":  {config.Admin{}, "", "", "", "8080"},
		"other port":    {config.Admin{}, "127.0.0.1:9999", "", "", "9999"},
		"any port":      {config.Admin{}, "127.0.0.1:0", "", "", "8080"},
		"all addresses": {config.Admin{PublicURL: "https://logs.example.org", IngestURL: "https://in.example.org"}, ":8080", "https://logs.example.org", "https://in.example.org", "8080"},
	} {
		cfg, err := pagesConfig(tc.settings, tc.listens)
		public := ""
		if cfg.Public != nil {
			public = cfg.Public.String()
		}
		if err != nil || public != tc.public || cfg.IngestURL != tc.ingest || cfg.IngestPort != tc.port {
			t.Errorf("%s: %+v, %v", name, cfg, err)
		}
	}
}
