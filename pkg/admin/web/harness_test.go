package web

import (
	"context"
	"encoding/base64"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/logboom/logboom/pkg/admin/saved"
	"github.com/logboom/logboom/pkg/admin/session"
	"github.com/logboom/logboom/pkg/clickhouse"
	"github.com/logboom/logboom/pkg/embedded"
	"github.com/logboom/logboom/pkg/embedded/engine/enginetest"
	"github.com/logboom/logboom/pkg/project"
	"github.com/logboom/logboom/pkg/stream"
	"github.com/logboom/logboom/pkg/stream/streamtest"
)

func TestMain(m *testing.M) { enginetest.Main(m) }

const password = "a long password"

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

// site is the pages over a real queue and a real ClickHouse.
type site struct {
	echo     *echo.Echo
	pages    *Pages
	store    *project.Store
	client   *clickhouse.Client
	sessions *session.Sessions
	service  *fakeService
	queue    jetstream.JetStream
	views    *saved.Views
	now      time.Time // which the pages' clock shows all the time
}

// fakeService is the service behind the pages: it deletes, and remembers what it
// was told.
type fakeService struct {
	store *project.Store

	mu      sync.Mutex
	changes []Change
}

func (r *fakeService) DeleteProject(ctx context.Context, found project.Project) error {
	_, err := r.store.DeleteProject(ctx, found.Name)
	return err
}

func (r *fakeService) SettingsChanged(context.Context, project.Project) {}

func (r *fakeService) Changed(_ context.Context, change Change) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.changes = append(r.changes, change)
}

func (r *fakeService) Changes(context.Context, uint64, int) ([]Change, uint64, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]Change(nil), r.changes...), 0, nil
}

func (r *fakeService) last() Change {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.changes) == 0 {
		return Change{}
	}
	return r.changes[len(r.changes)-1]
}

func newSite(t *testing.T) *site {
	t.Helper()
	ctx := patient(t)
	server, err := embedded.StartNATS(ctx, embedded.NATSConfig{DataDir: t.TempDir(), MaxStore: 1 << 30})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Stop(context.Background()) })
	nc, js, err := stream.Connect(ctx, server.URL(), streamtest.Calm("test"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	s := &site{echo: echo.New(), queue: js, now: time.Now()}
	if s.store, err = project.Open(ctx, js, project.StoreConfig{Key: project.NewSecret(base64.StdEncoding.EncodeToString(make([]byte, 32)))}); err != nil {
		t.Fatal(err)
	}
	if s.sessions, err = session.Open(ctx, js, s.store, 1); err != nil {
		t.Fatal(err)
	}
	if s.client, err = clickhouse.Open(clickhouse.Config{URL: enginetest.URL(t)}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.client.Close() })
	if err := s.client.Migrate(ctx); err != nil {
		t.Fatal(err)
	}
	s.service = &fakeService{store: s.store}
	if s.views, err = saved.Open(ctx, js, 1); err != nil {
		t.Fatal(err)
	}
	s.mount(t, Config{IngestPort: "8080", QueryTimeout: unhurried}, nil)
	return s
}

// mount lays the pages anew, with other settings.
func (s *site) mount(t *testing.T, cfg Config, issuer *session.OIDC) {
	t.Helper()
	pages, err := New(cfg, Deps{
		Logger: slog.New(slog.NewTextHandler(io.Discard, nil)), Directory: s.store, Reader: s.client, Service: s.service,
		Sessions: s.sessions, Gate: session.NewGate(s.store), OIDC: issuer,
		Explorer: s.client, Views: s.views, Engine: s.client, History: s.client, Queue: stream.NewOverview(s.queue), Letters: stream.NewLetters(s.queue),
	})
	if err != nil {
		t.Fatal(err)
	}
	pages.now, pages.allowed = func() time.Time { return s.now }, unhurried
	s.echo = echo.New()
	s.echo.IPExtractor = echo.ExtractIPDirect()
	pages.Mount(s.echo)
	s.pages = pages
}

func (s *site) project(t *testing.T, name string) project.Project {
	t.Helper()
	made, err := s.store.CreateProject(patient(t), name)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

func (s *site) user(t *testing.T, email string, role project.Role, projects ...project.Project) project.User {
	t.Helper()
	made, err := s.store.CreateUser(patient(t), email, project.NewSecret(password), role)
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, p := range projects {
		ids = append(ids, p.ID)
	}
	if err := s.sessions.Members().Limit(patient(t), made, ids); err != nil {
		t.Fatal(err)
	}
	return made
}

// visitor is a browser without script: it keeps cookies and sends forms.
type visitor struct {
	t       *testing.T
	site    *site
	root    string // scheme and host
	address string // from where; "": as every other visitor
	cookies map[string]string
	header  map[string]string // of every request
}

func (s *site) visitor(t *testing.T) *visitor {
	return &visitor{t: t, site: s, root: "http://localhost:8081", cookies: map[string]string{}, header: map[string]string{}}
}

// as is a visitor with a session of the user.
func (s *site) as(t *testing.T, user project.User) *visitor {
	t.Helper()
	token, err := s.sessions.Begin(patient(t), user)
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
	request := httptest.NewRequestWithContext(patient(v.t), method, v.root+path, body)
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

// signIn sends the form of the sign-in.
func (v *visitor) signIn(email, password string) *httptest.ResponseRecorder {
	return v.post(signInPath, url.Values{"email": {email}, "password": {password}})
}

// isIn tells whether the visitor is let into the projects.
func (v *visitor) isIn() bool { return v.get(projectsPath).Code == http.StatusOK }
