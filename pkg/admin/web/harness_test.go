package web

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/logboom/logboom/pkg/admin"
	"github.com/logboom/logboom/pkg/admin/admintest"
	"github.com/logboom/logboom/pkg/embedded/engine/enginetest"
	"github.com/logboom/logboom/pkg/people"
	"github.com/logboom/logboom/pkg/project"
	"github.com/logboom/logboom/pkg/secret"
)

func TestMain(m *testing.M) { enginetest.Main(m) }

const password = "a long password"

// site is the pages over a real queue and a real ClickHouse.
type site struct {
	*admintest.Installation
	echo  *echo.Echo
	pages *Pages
	now   time.Time // the pages' clock stands still
}

func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{Installation: admintest.Start(t), now: time.Now()}
	s.mount(t, Config{IngestPort: "8080", QueryTimeout: admintest.Timeout}, nil)
	return s
}

// mount replaces the pages, with other settings.
func (s *site) mount(t *testing.T, cfg Config, issuer *people.OIDC) {
	t.Helper()
	s.Deps.OIDC = issuer
	pages, err := New(cfg, s.Logger, s.New())
	if err != nil {
		t.Fatal(err)
	}
	pages.now = func() time.Time { return s.now }
	s.echo = echo.New()
	s.echo.IPExtractor = echo.ExtractIPDirect()
	pages.Mount(s.echo)
	s.pages = pages
}

// last returns the newest change in the audit trail.
func (s *site) last(t *testing.T) admin.Change {
	t.Helper()
	list := s.Changes(t)
	if len(list) == 0 {
		return admin.Change{}
	}
	return list[len(list)-1]
}

func (s *site) user(t *testing.T, email string, role people.Role, projects ...project.Project) people.User {
	t.Helper()
	made, err := s.People.CreateUser(admintest.Context(t), email, secret.New(password), role)
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, p := range projects {
		ids = append(ids, p.ID)
	}
	if err := s.Deps.Sessions.Limit(admintest.Context(t), made, ids); err != nil {
		t.Fatal(err)
	}
	return made
}

// visitor is a browser without script: it stores cookies and sends forms.
type visitor struct {
	t       *testing.T
	site    *site
	root    string // scheme and host
	address string // of the client; "": the same for all visitors
	cookies map[string]string
	header  map[string]string // of every request
}

func (s *site) visitor(t *testing.T) *visitor {
	return &visitor{t: t, site: s, root: "http://localhost:8081", cookies: map[string]string{}, header: map[string]string{}}
}

// as returns a visitor with a session of the user.
func (s *site) as(t *testing.T, user people.User) *visitor {
	t.Helper()
	token, err := s.Deps.Sessions.Begin(admintest.Context(t), user)
	if err != nil {
		t.Fatal(err)
	}
	v := s.visitor(t)
	v.cookies[sessionCookie] = token
	return v
}

func (v *visitor) get(path string) *httptest.ResponseRecorder {
	return v.send(http.MethodGet, path, "", nil)
}

func (v *visitor) post(path string, form url.Values) *httptest.ResponseRecorder {
	return v.send(http.MethodPost, path, "application/x-www-form-urlencoded", strings.NewReader(form.Encode()))
}

func (v *visitor) send(method, path, kind string, body io.Reader) *httptest.ResponseRecorder {
	v.t.Helper()
	request := httptest.NewRequestWithContext(admintest.Context(v.t), method, v.root+path, body)
	if kind != "" {
		request.Header.Set("Content-Type", kind)
	}
	if v.address != "" {
		request.RemoteAddr = v.address + ":40000"
	}
	for name, value := range v.header {
		request.Header.Set(name, value)
	}
	for name, value := range v.cookies {
		request.AddCookie(&http.Cookie{Name: name, Value: value})
	}
	answer := httptest.NewRecorder()
	v.site.echo.ServeHTTP(answer, request)
	for _, set := range answer.Result().Cookies() {
		if set.MaxAge < 0 {
			delete(v.cookies, set.Name)
			continue
		}
		v.cookies[set.Name] = set.Value
	}
	return answer
}

// signIn sends the sign-in form.
func (v *visitor) signIn(email, password string) *httptest.ResponseRecorder {
	return v.post(signInPath, url.Values{"email": {email}, "password": {password}})
}

// isIn reports whether the visitor may see the list of projects.
func (v *visitor) isIn() bool { return v.get(projectsPath).Code == http.StatusOK }
