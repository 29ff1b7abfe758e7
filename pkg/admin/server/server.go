// Package server runs the admin service: the JSON API and the pages over one
// application layer (pkg/admin), behind one HTTP server.
package server

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/net/netutil"
	"golang.org/x/sync/errgroup"

	"github.com/logboom/logboom/pkg/admin"
	"github.com/logboom/logboom/pkg/admin/api"
	"github.com/logboom/logboom/pkg/admin/web"
	"github.com/logboom/logboom/pkg/clickhouse"
	"github.com/logboom/logboom/pkg/config"
	"github.com/logboom/logboom/pkg/ledger"
	"github.com/logboom/logboom/pkg/outbox"
	"github.com/logboom/logboom/pkg/people"
	"github.com/logboom/logboom/pkg/project"
	"github.com/logboom/logboom/pkg/quota"
	"github.com/logboom/logboom/pkg/telemetry"
	"github.com/logboom/logboom/pkg/token"
	"github.com/logboom/logboom/pkg/webhook"
)

// Bounds of the HTTP server. They suit people and scripts.
const (
	maxConnections = 2000 // open at the same time; more wait to be accepted
	maxHeaderBytes = 16 << 10
	drainTimeout   = 10 * time.Second // of the requests in progress when the process stops

	// pageTimeout bounds a page's queries to ClickHouse together: nobody waits
	// longer for a page.
	pageTimeout = 10 * time.Second
)

// Connections are the engines that the service works over: clusters in
// cmd/admin, embedded engines in cmd/standalone.
type Connections struct {
	Projects   *project.Store
	Tokens     *token.Store
	People     *people.Store
	Client     *clickhouse.Client
	Counters   quota.Limiter
	Webhooks   *webhook.Sender
	Signatures *webhook.Signer

	// Queue stores sessions and the audit trail, in as many Replicas.
	// IngestAddr is where ingest listens, for the examples on the pages; "": on
	// its default port.
	Queue      jetstream.JetStream
	Replicas   int
	IngestAddr string
}

// Start creates the tables, composes the service and adds it to the process. It
// returns the address on which the server listens. defaults are the quotas of
// projects that set none.
func Start(ctx context.Context, p *telemetry.Process, settings config.Admin, defaults project.Quotas, conn Connections) (net.Addr, error) {
	if err := conn.Client.Prepare(ctx, p.Logger); err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", settings.AdminAddr)
	if err != nil {
		return nil, fmt.Errorf("--admin-addr: %w", err)
	}
	deps, err := dependencies(ctx, p, settings, defaults, conn)
	if err != nil {
		return nil, err
	}
	server, err := compose(admin.New(admin.DefaultConfig(), deps), p, settings, conn.IngestAddr)
	if err != nil {
		return nil, err
	}
	if err := server.service.OfferSetup(ctx); err != nil {
		return nil, err
	}
	p.Logger.Info("admin port open", "addr", listener.Addr().String())
	p.Health.Add("clickhouse", conn.Client.Ping)
	p.Go("admin", func(ctx context.Context) error { return server.run(ctx, listener) })
	return listener.Addr(), nil
}

// dependencies opens what the application layer works with.
func dependencies(ctx context.Context, p *telemetry.Process, settings config.Admin, defaults project.Quotas, conn Connections) (deps admin.Deps, err error) {
	deps = admin.Deps{
		Logger: p.Logger, Registry: p.Registry, Projects: conn.Projects, Tokens: conn.Tokens, People: conn.People, Gate: people.NewGate(conn.People),
		Reader: conn.Client, Eraser: conn.Client, Counters: conn.Counters, Defaults: defaults,
		Queue: conn.Queue, Letters: outbox.NewLetters(conn.Queue, ledger.Committed(conn.Queue)), Webhooks: conn.Webhooks, Signatures: conn.Signatures,
	}
	if deps.OIDC, err = companyAccounts(settings); err != nil {
		return deps, err
	}
	if deps.Sessions, err = people.OpenSessions(ctx, conn.Queue, conn.People, conn.Replicas); err != nil {
		return deps, err
	}
	if deps.Deletions, err = admin.OpenDeletions(ctx, conn.Queue, conn.Replicas); err != nil {
		return deps, err
	}
	if deps.Views, err = admin.OpenViews(ctx, conn.Queue, conn.Replicas); err != nil {
		return deps, err
	}
	deps.Trail, err = admin.OpenTrail(ctx, conn.Queue, p.Logger, conn.Replicas)
	return deps, err
}

// companyAccounts returns the issuer in the settings, nil if they name none.
func companyAccounts(settings config.Admin) (*people.OIDC, error) {
	if settings.OIDCIssuer == "" {
		return nil, nil
	}
	if err := people.CheckIssuer(settings.OIDCIssuer); err != nil {
		return nil, fmt.Errorf("--oidc-issuer: %w", err)
	}
	public, err := url.Parse(settings.PublicURL)
	if err != nil {
		return nil, fmt.Errorf("--public-url: %w", err)
	}
	return people.NewOIDC(people.OIDCConfig{
		Issuer: settings.OIDCIssuer, ClientID: settings.OIDCClientID, ClientSecret: settings.OIDCClientSecret,
		RedirectURL: web.CompanyCallback(public),
	}, nil), nil
}

// server answers all routes.
type server struct {
	logger  *slog.Logger
	service *admin.Service
	api     *api.API
	echo    *echo.Echo
}

// compose puts the API and the pages in front of the service.
func compose(service *admin.Service, p *telemetry.Process, settings config.Admin, ingestAddr string) (*server, error) {
	cfg, err := pagesConfig(settings, ingestAddr)
	if err != nil {
		return nil, err
	}
	pages, err := web.New(cfg, p.Logger, service)
	if err != nil {
		return nil, err
	}
	proxies, err := settings.Proxies()
	if err != nil {
		return nil, err
	}
	s := &server{logger: p.Logger, service: service, api: api.New(p.Logger, service, pages.Person), echo: echo.New()}
	s.echo.HTTPErrorHandler = s.api.AnswerError
	s.echo.IPExtractor = clientAddress(proxies)
	s.echo.Pre(telemetry.NewRequests("admin", p.Logger, p.Registry).Observe)
	s.echo.GET("/livez", echo.WrapHandler(http.HandlerFunc(p.Health.Livez)))
	s.echo.GET("/readyz", echo.WrapHandler(http.HandlerFunc(p.Health.Readyz)))
	s.api.Mount(s.echo)
	pages.Mount(s.echo)
	return s, nil
}

func pagesConfig(settings config.Admin, ingestAddr string) (web.Config, error) {
	cfg := web.Config{IngestURL: settings.IngestURL, IngestPort: "8080", QueryTimeout: pageTimeout}
	if _, port, err := net.SplitHostPort(ingestAddr); err == nil && port != "0" {
		cfg.IngestPort = port
	}
	if settings.PublicURL == "" {
		return cfg, nil
	}
	var err error
	cfg.Public, err = url.Parse(settings.PublicURL)
	return cfg, err
}

// run serves the listener and does the service's background work, until ctx
// ends; then it lets the requests in progress finish.
func (s *server) run(ctx context.Context, listener net.Listener) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return s.service.Run(ctx) })
	group.Go(func() error {
		served := &http.Server{
			Handler:           s.echo,
			ReadHeaderTimeout: 5 * time.Second,
			ReadTimeout:       60 * time.Second,
			IdleTimeout:       120 * time.Second,
			MaxHeaderBytes:    maxHeaderBytes,
			ErrorLog:          slog.NewLogLogger(s.logger.Handler(), slog.LevelDebug),
		}
		served.RegisterOnShutdown(s.service.StopTails)
		return telemetry.Serve(ctx, served, netutil.LimitListener(listener, maxConnections), drainTimeout)
	})
	return group.Wait()
}

// clientAddress returns the function that finds the client of a request, for
// the bounds of sign-in attempts and for the audit trail. The client is the
// other end of the connection. If that is a trusted proxy, the client is the
// last address in X-Forwarded-For that is not one: what the header said before
// the request reached a trusted proxy is never believed.
func clientAddress(trusted []netip.Prefix) echo.IPExtractor {
	if len(trusted) == 0 {
		return echo.ExtractIPDirect()
	}
	options := []echo.TrustOption{echo.TrustLoopback(false), echo.TrustLinkLocal(false), echo.TrustPrivateNet(false)}
	for _, network := range trusted {
		options = append(options, echo.TrustIPRange(&net.IPNet{
			IP: network.Addr().AsSlice(), Mask: net.CIDRMask(network.Bits(), network.Addr().BitLen()),
		}))
	}
	return echo.ExtractIPFromXFFHeader(options...)
}
