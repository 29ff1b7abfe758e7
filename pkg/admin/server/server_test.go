package server

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/logboom/logboom/pkg/admin/admintest"
	"github.com/logboom/logboom/pkg/config"
	"github.com/logboom/logboom/pkg/embedded/engine/enginetest"
	"github.com/logboom/logboom/pkg/people"
	"github.com/logboom/logboom/pkg/secret"
	"github.com/logboom/logboom/pkg/telemetry"
)

func TestMain(m *testing.M) { enginetest.Main(m) }

// serve returns the API and the pages over the installation, as a process with
// the settings has them.
func serve(t *testing.T, i *admintest.Installation, settings config.Admin) *server {
	t.Helper()
	p := &telemetry.Process{Logger: i.Logger, Registry: prometheus.NewRegistry(), Health: &telemetry.Health{}}
	s, err := compose(i.New(), p, settings, "")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.service.OfferSetup(admintest.Context(t)); err != nil {
		t.Fatal(err)
	}
	return s
}

const pagePassword = "a long password"

// signedIn signs a user in by the form and returns the cookie.
func signedIn(t *testing.T, s *server, email string) *http.Cookie {
	t.Helper()
	answer := submit(s, "/sign-in", nil, url.Values{"email": {email}, "password": {pagePassword}})
	cookies := answer.Result().Cookies()
	if answer.Code != http.StatusSeeOther || len(cookies) != 1 {
		t.Fatalf("sign-in: answer %d, %v", answer.Code, cookies)
	}
	return cookies[0]
}

// submit sends a form, as a browser on the same machine does.
func submit(s *server, path string, cookie *http.Cookie, form url.Values) *httptest.ResponseRecorder {
	request := httptest.NewRequest(http.MethodPost, "http://localhost:8081"+path, strings.NewReader(form.Encode()))
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return ask(s, request, cookie)
}

func ask(s *server, request *http.Request, cookie *http.Cookie) *httptest.ResponseRecorder {
	if cookie != nil {
		request.AddCookie(cookie)
	}
	answer := httptest.NewRecorder()
	s.echo.ServeHTTP(answer, request)
	return answer
}

func TestPagesUseTheAPIWithTheirSession(t *testing.T) {
	t.Parallel()
	i := admintest.Start(t)
	s := serve(t, i, config.Admin{})
	i.Project(t, "shop")
	if _, err := i.People.CreateFirstAdmin(admintest.Context(t), "one@example.org", secret.New(pagePassword)); err != nil {
		t.Fatal(err)
	}
	if _, err := i.People.CreateUser(admintest.Context(t), "two@example.org", secret.New(pagePassword), people.RoleMember); err != nil {
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
		for n, cookie := range []*http.Cookie{nil, member, admin} {
			if answer := get(path, cookie); answer.Code != want[n] {
				t.Errorf("%s as %d: answer %d, want %d: %s", path, n, answer.Code, want[n], answer.Body)
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

func TestEveryChangeIsRecordedWithItsAuthor(t *testing.T) {
	t.Parallel()
	i := admintest.Start(t)
	s := serve(t, i, config.Admin{})
	if _, err := i.People.CreateFirstAdmin(admintest.Context(t), "one@example.org", secret.New(pagePassword)); err != nil {
		t.Fatal(err)
	}
	cookie := signedIn(t, s, "one@example.org")
	submit(s, "/projects", cookie, url.Values{"name": {"shop"}})
	submit(s, "/projects/shop/settings/tokens", cookie, url.Values{"name": {"web"}})
	_, key, err := i.People.CreateAPIKey(admintest.Context(t), "test", people.RoleAdmin)
	if err != nil {
		t.Fatal(err)
	}
	change := httptest.NewRequest(http.MethodPut, "http://localhost:8081/api/v1/projects/shop/settings", strings.NewReader(`{"retention_days":7}`))
	change.Header.Set("Authorization", "Bearer "+key.Reveal())
	ask(s, change, nil)
	ask(s, httptest.NewRequest(http.MethodDelete, "http://localhost:8081/api/v1/projects/shop", nil), cookie)
	var got []string
	for before, more := uint64(0), true; more; {
		list, next, err := s.service.Changes(admintest.Context(t), before, 2)
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
				t.Errorf("recorded %+v", c)
			}
		}
		before, more = next, next != 0
	}
	want := "[one@example.org project.deleted shop key settings.changed shop one@example.org token.created shop one@example.org project.created shop one@example.org person.signed_in ]"
	if fmt.Sprint(got) != want {
		t.Errorf("recorded %v", got)
	}
	if page := ask(s, httptest.NewRequest(http.MethodGet, "http://localhost:8081/installation/audit", nil), cookie); !strings.Contains(page.Body.String(), "API key ") || !strings.Contains(page.Body.String(), "created a token") {
		t.Errorf("the page: %d %s", page.Code, page.Body)
	}
}

func TestSetUpCodeIsLoggedUntilThereIsAnAdmin(t *testing.T) {
	t.Parallel()
	i := admintest.Start(t)
	s := serve(t, i, config.Admin{})
	_, after, found := strings.Cut(i.Log.String(), `"set-up code":"`)
	code, _, _ := strings.Cut(after, `"`)
	if !found || len(code) < 20 {
		t.Fatalf("the log has no code:\n%s", i.Log.String())
	}
	answer := submit(s, "/set-up", nil, url.Values{"code": {code}, "email": {"one@example.org"}, "password": {pagePassword}})
	if answer.Code != http.StatusSeeOther {
		t.Fatalf("answer %d: %s", answer.Code, answer.Body)
	}
	logged := len(i.Log.String())
	serve(t, i, config.Admin{})
	if strings.Contains(i.Log.String()[logged:], "set-up code") {
		t.Error("the set-up is open again after a restart")
	}
}

func TestPagesUseTheAddressesInTheSettings(t *testing.T) {
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

func TestForwardedAddressIsBelievedOnlyFromTrustedProxies(t *testing.T) {
	t.Parallel()
	proxies := []netip.Prefix{netip.MustParsePrefix("10.20.0.0/16"), netip.MustParsePrefix("2001:db8:1::/48")}
	for name, tc := range map[string]struct {
		trusted   []netip.Prefix
		from      string
		forwarded []string
		want      string
	}{
		"no proxies, no header":    {nil, "203.0.113.7:1", nil, "203.0.113.7"},
		"no proxies, forged":       {nil, "203.0.113.7:1", []string{"198.51.100.1"}, "203.0.113.7"},
		"no proxies, on loopback":  {nil, "127.0.0.1:1", []string{"198.51.100.1"}, "127.0.0.1"},
		"past the proxies, forged": {proxies, "203.0.113.7:1", []string{"198.51.100.1"}, "203.0.113.7"},
		"private, not a proxy":     {proxies, "10.99.0.1:1", []string{"198.51.100.1"}, "10.99.0.1"},
		"loopback, not a proxy":    {proxies, "127.0.0.1:1", []string{"198.51.100.1"}, "127.0.0.1"},
		"link-local, not a proxy":  {proxies, "169.254.1.1:1", []string{"198.51.100.1"}, "169.254.1.1"},
		"proxy without the header": {proxies, "10.20.0.1:1", nil, "10.20.0.1"},
		"proxy":                    {proxies, "10.20.0.1:1", []string{"203.0.113.7"}, "203.0.113.7"},
		"proxy, IPv6":              {proxies, "[2001:db8:1::1]:1", []string{"2001:db8:2::7"}, "2001:db8:2::7"},
		"proxy, mapped":            {proxies, "[::ffff:10.20.0.1]:1", []string{"203.0.113.7"}, "203.0.113.7"},
		"proxy, forged before it":  {proxies, "10.20.0.1:1", []string{"198.51.100.1, 203.0.113.7"}, "203.0.113.7"},
		"proxy, forged line":       {proxies, "10.20.0.1:1", []string{"198.51.100.1", "203.0.113.7"}, "203.0.113.7"},
		"proxy, forged as a proxy": {proxies, "10.20.0.1:1", []string{"198.51.100.1, 10.20.0.9, 203.0.113.7"}, "203.0.113.7"},
		"two proxies":              {proxies, "10.20.0.1:1", []string{"198.51.100.1, 203.0.113.7, 10.20.0.2"}, "203.0.113.7"},
		"proxy, nonsense":          {proxies, "10.20.0.1:1", []string{"a\"><script>"}, "10.20.0.1"},
		"proxy, nonsense before":   {proxies, "10.20.0.1:1", []string{"a\"><script>, 203.0.113.7"}, "203.0.113.7"},
	} {
		request := httptest.NewRequest(http.MethodGet, "/", nil)
		request.RemoteAddr = tc.from
		request.Header["X-Forwarded-For"] = tc.forwarded
		request.Header.Set("X-Real-Ip", "198.51.100.2")
		request.Header.Set("Forwarded", "for=198.51.100.3")
		if got := clientAddress(tc.trusted)(request); got != tc.want {
			t.Errorf("%s: %s, want %s", name, got, tc.want)
		}
	}
}

// enter tries to sign in from 192.0.2.1, the address of httptest.
func enter(s *server, email, password, forwarded string) (code int) {
	form := url.Values{"email": {email}, "password": {password}}.Encode()
	request := httptest.NewRequest(http.MethodPost, "http://localhost:8081/sign-in", strings.NewReader(form))
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	request.Header.Set("X-Forwarded-For", forwarded)
	return ask(s, request, nil).Code
}

func TestForgedAddressNeitherEvadesLimitsNorIsRecorded(t *testing.T) {
	t.Parallel()
	i := admintest.Start(t)
	if _, err := i.People.CreateFirstAdmin(admintest.Context(t), "one@example.org", secret.New(pagePassword)); err != nil {
		t.Fatal(err)
	}
	direct := serve(t, i, config.Admin{})
	behind := serve(t, i, config.Admin{})
	behind.echo.IPExtractor = clientAddress([]netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")})
	for s, want := range map[*server]string{direct: "192.0.2.1", behind: "203.0.113.7"} {
		code := enter(s, "one@example.org", pagePassword, "198.51.100.99, 203.0.113.7")
		list, _, err := s.service.Changes(admintest.Context(t), 0, 1)
		if code != http.StatusSeeOther || err != nil || len(list) != 1 || list[0].Address != want {
			t.Errorf("answer %d; the trail says %+v, %v; want %s", code, list, err, want)
		}
	}
	// No password is so long, so that nothing is hashed: all tries are within the
	// minute in which they count.
	wrong := strings.Repeat("x", 2000)
	for s, want := range map[*server]int{direct: 20, behind: 22} {
		checked := 0
		for i := range 22 {
			if enter(s, fmt.Sprintf("user%d@example.org", i), wrong, fmt.Sprintf("198.51.100.%d", i)) == http.StatusUnauthorized {
				checked++
			}
		}
		if checked != want {
			t.Errorf("%d of 22 with as many addresses in the header were checked, want %d", checked, want)
		}
	}
}
