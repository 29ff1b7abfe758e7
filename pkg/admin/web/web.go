package web

import (
	"context"
	"log/slog"
	"net/http"
	"net/url"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/logboom/logboom/pkg/admin/session"
	"github.com/logboom/logboom/pkg/clickhouse"
	"github.com/logboom/logboom/pkg/project"
)

// Directory is the record of projects, tokens, alerts, API keys and users;
// project.Store is.
type Directory interface {
	CreateProject(ctx context.Context, name string) (project.Project, error)
	Project(ctx context.Context, name string) (project.Project, error)
	Projects(ctx context.Context, after string, limit int) ([]project.Project, error)
	ChangeSettings(ctx context.Context, name string, change func(*project.Settings)) (project.Project, error)

	CreateToken(ctx context.Context, project, name string) (project.Token, project.Secret, error)
	Tokens(ctx context.Context, project string) ([]project.Token, error)
	DeleteToken(ctx context.Context, project, id string) error

	Alerts(ctx context.Context, name string) (project.Alerts, error)
	ChangeAlerts(ctx context.Context, name string, change func(*project.Alerts)) (project.Alerts, error)
	ClearAlerts(ctx context.Context, name string) error

	CreateAPIKey(ctx context.Context, name string, role project.Role, projects ...string) (project.APIKey, project.Secret, error)
	APIKeys(ctx context.Context) ([]project.APIKey, error)
	DeleteAPIKey(ctx context.Context, id string) error

	CreateUser(ctx context.Context, email string, password project.Secret, role project.Role) (project.User, error)
	User(ctx context.Context, email string) (project.User, error)
	Users(ctx context.Context, after string, limit int) ([]project.User, error)
	ChangeRole(ctx context.Context, email string, role project.Role) (project.User, error)
	SetPassword(ctx context.Context, email string, password project.Secret) (project.User, error)
	DeleteUser(ctx context.Context, email string) error
	FirstAdminOpen(ctx context.Context) (bool, error)
	CreateFirstAdmin(ctx context.Context, email string, password project.Secret) (project.User, error)
}

// Reader counts what was stored and sent; clickhouse.Client does.
type Reader interface {
	Deliveries(ctx context.Context, q clickhouse.DeliveryQuery) (clickhouse.DeliveryPage, error)
	Usage(ctx context.Context, project string, from, to time.Time) ([]clickhouse.UsageHour, error)
}

// Service is what the JSON API's service does beyond the record when something
// changes, so that a page's change and a script's are the same.
type Service interface {
	// DeleteProject deletes the project and has its rows erased in the background.
	DeleteProject(ctx context.Context, found project.Project) error
	// SettingsChanged is told of a project whose settings were changed.
	SettingsChanged(ctx context.Context, changed project.Project)
	// Changed writes a change down.
	Changed(ctx context.Context, change Change)
	// Changes lists what was written down, the newest first, before the place
	// given (0: all), and the place where the next page begins (0: the end).
	Changes(ctx context.Context, before uint64, limit int) ([]Change, uint64, error)
}

// Change is one change that somebody made.
type Change struct {
	Time    time.Time
	Action  string // such as token.created
	By      string // the person's address, or "API key" and its ID
	Project string // its name; "" for what concerns no single one
	Target  string // of what in it: an ID, a name
	Address string // of the connection's other end

	ProjectID string
	RequestID string
}

// Config is for operators.
type Config struct {
	Public    *url.URL // where people reach the pages; nil: by the request
	IngestURL string   // where senders reach ingest; empty: by the request and IngestPort
	// IngestPort is where ingest listens, as seen by whoever reads the pages.
	IngestPort   string
	QueryTimeout time.Duration // of all questions of one page to ClickHouse together
}

// Deps is what the pages work with.
type Deps struct {
	Logger    *slog.Logger
	Directory Directory
	Reader    Reader
	Service   Service
	Sessions  *session.Sessions
	Gate      *session.Gate
	OIDC      *session.OIDC // nil: there are no company accounts
	Defaults  project.Quotas

	Explorer Explorer
	Views    Views // nil: nothing can be saved
	Queue    Queue
	Letters  Letters
	Engine   Engine
	History  History
}

// Pages answers the routes of the pages.
type Pages struct {
	cfg       Config
	deps      Deps
	cookies   session.Cookies
	templates templates
	assets    *assets
	origin    *http.CrossOriginProtection
	now       func() time.Time
	allowed   time.Duration // for a change: changeTimeout, except in tests
}

// New reads the templates and assets; it starts nothing.
func New(cfg Config, deps Deps) (*Pages, error) {
	p := &Pages{
		cfg: cfg, deps: deps, cookies: session.Cookies{Public: cfg.Public}, origin: http.NewCrossOriginProtection(),
		now: time.Now, allowed: changeTimeout,
	}
	if cfg.Public != nil {
		if err := p.origin.AddTrustedOrigin(cfg.Public.Scheme + "://" + cfg.Public.Host); err != nil {
			return nil, err
		}
	}
	var err error
	if p.assets, err = readAssets(); err != nil {
		return nil, err
	}
	p.templates, err = parseTemplates(p.assets)
	return p, err
}

// Mount lays the routes. What is no route is answered with a page too, except
// below /api.
func (p *Pages) Mount(e *echo.Echo) {
	for _, r := range p.routes() {
		e.Add(r.method, r.path, p.guarded(r))
	}
	e.GET(assetRoot+":hash/*", p.serveAsset)
	e.RouteNotFound("/*", p.notFound)
}

// Person is who sent the request, by its session; session.ErrNone where it is
// nobody. Requests that change something and come from another site's page are
// nobody's.
func (p *Pages) Person(r *http.Request) (session.Person, error) {
	if p.origin.Check(r) != nil {
		return session.Person{}, session.ErrNone
	}
	return p.deps.Sessions.Person(r.Context(), p.cookies.Read(r, sessionCookie))
}
