// Package admin is the HTTP side for operators and scripts: it looks after
// projects and looks into what they stored, as JSON under /api/v1.
//
// It sits between people and ClickHouse. What a newcomer would get wrong: the
// project of every query comes from authorize, never from a parameter alone,
// so that no query text, cursor or id reaches another project's rows.
package admin

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/net/netutil"
	"golang.org/x/sync/errgroup"

	"github.com/logboom/logboom/pkg/admin/web"
	"github.com/logboom/logboom/pkg/clickhouse"
	"github.com/logboom/logboom/pkg/project"
	"github.com/logboom/logboom/pkg/telemetry"
)

// Reader finds stored records and counts them; clickhouse.Client does.
type Reader interface {
	Logs(ctx context.Context, q clickhouse.LogQuery) (clickhouse.LogPage, error)
	Events(ctx context.Context, q clickhouse.EventQuery) (clickhouse.EventPage, error)
	Usage(ctx context.Context, project string, from, to time.Time) ([]clickhouse.UsageHour, error)
	Explorer
}

// Directory is the record of projects, their tokens and alerts, and of API keys;
// project.Store is.
type Directory interface {
	APIKey(ctx context.Context, value string) (project.APIKey, error)

	CreateProject(ctx context.Context, name string) (project.Project, error)
	Project(ctx context.Context, name string) (project.Project, error)
	Projects(ctx context.Context, after string, limit int) ([]project.Project, error)
	ChangeSettings(ctx context.Context, name string, change func(*project.Settings)) (project.Project, error)
	DeleteProject(ctx context.Context, name string) (project.Project, error)

	CreateToken(ctx context.Context, project, name string) (project.Token, project.Secret, error)
	Tokens(ctx context.Context, project string) ([]project.Token, error)
	DeleteToken(ctx context.Context, project, id string) error

	Alerts(ctx context.Context, name string) (project.Alerts, error)
	ChangeAlerts(ctx context.Context, name string, change func(*project.Alerts)) (project.Alerts, error)
	ClearAlerts(ctx context.Context, name string) error
}

// Config is for operators.
type Config struct {
	MaxConnections int           // open connections; further ones wait to be accepted
	QueryTimeout   time.Duration // of one question to ClickHouse
	DrainTimeout   time.Duration // for requests under way when the process stops

	// TrustedProxies may say with X-Forwarded-For whom a request is from; none:
	// it is from the connection's other end.
	TrustedProxies []netip.Prefix
}

// DefaultConfig suits people and scripts; nothing of high volume comes here.
func DefaultConfig() Config {
	return Config{MaxConnections: 2000, QueryTimeout: 30 * time.Second, DrainTimeout: 10 * time.Second}
}

// Deps is what the server works with.
type Deps struct {
	Logger    *slog.Logger
	Registry  prometheus.Registerer
	Health    *telemetry.Health
	Reader    Reader
	Directory Directory
	Audit     Audit

	// What is left of deleted projects is cleared away through these. Without
	// Graves or Eraser (nil) their rows stay until their retention ends.
	Sweeper Sweeper
	Graves  Graves
	Eraser  Eraser

	// Counters are looked after where there are any; Defaults are the quotas of
	// projects that name none.
	Counters Counters
	Defaults project.Quotas

	// Letters are the dead letters. Without them (nil) their routes answer 503.
	Letters Letters

	// Deliveries are the notifications; Webhooks send test messages, and
	// Signatures know what generic ones are signed with. Each may be nil.
	Deliveries Deliveries
	Webhooks   Webhooks
	Signatures Signatures
}

// Server answers the admin routes.
type Server struct {
	cfg         Config
	deps        Deps
	echo        *echo.Echo
	cleanup     *cleanup
	restoration *restoration
	description openAPI
	tails       *tails

	pages *web.Pages // nil: there are none
	trail Trail      // nil: changes are not kept
}

// maxHeaderBytes bounds a request's head.
const maxHeaderBytes = 16 << 10

// New lays the routes; it starts nothing.
func New(cfg Config, deps Deps) *Server {
	if deps.Letters == nil {
		deps.Letters = noLetters{}
	}
	if deps.Deliveries == nil {
		deps.Deliveries = noDeliveries{}
	}
	if deps.Webhooks == nil {
		deps.Webhooks = noWebhooks{}
	}
	s := &Server{cfg: cfg, deps: deps, echo: echo.New(), cleanup: newCleanup(deps), restoration: newRestoration(deps), tails: newTails()}
	s.echo.HTTPErrorHandler = s.answerError
	s.echo.IPExtractor = clientAddress(cfg.TrustedProxies)
	s.echo.Pre(telemetry.NewRequests("admin", deps.Logger, deps.Registry).Observe)
	s.echo.GET("/livez", echo.WrapHandler(http.HandlerFunc(deps.Health.Livez)))
	s.echo.GET("/readyz", echo.WrapHandler(http.HandlerFunc(deps.Health.Readyz)))
	routes := s.routes()
	s.description = describe(routes)
	s.lay(routes)
	return s
}

// ServeHTTP answers one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.echo.ServeHTTP(w, r) }

// Run serves the listener and clears away what is left of deleted projects,
// until ctx ends; then it lets the requests under way finish.
func (s *Server) Run(ctx context.Context, listener net.Listener) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return s.cleanup.run(ctx) })
	group.Go(func() error { return s.restoration.run(ctx) })
	group.Go(func() error { return s.serve(ctx, listener) })
	return group.Wait()
}

func (s *Server) serve(ctx context.Context, listener net.Listener) error {
	server := &http.Server{
		Handler:           s,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       60 * time.Second,
		IdleTimeout:       120 * time.Second,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          slog.NewLogLogger(s.deps.Logger.Handler(), slog.LevelDebug),
	}
	server.RegisterOnShutdown(s.tails.stop)
	return telemetry.Serve(ctx, server, netutil.LimitListener(listener, s.cfg.MaxConnections), s.cfg.DrainTimeout)
}
