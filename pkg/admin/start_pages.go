package admin

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"time"

	"github.com/logboom/logboom/pkg/admin/saved"
	"github.com/logboom/logboom/pkg/admin/session"
	"github.com/logboom/logboom/pkg/admin/web"
	"github.com/logboom/logboom/pkg/config"
	"github.com/logboom/logboom/pkg/outbox"
	"github.com/logboom/logboom/pkg/project"
	"github.com/logboom/logboom/pkg/stream"
)

// pageTimeout bounds a page's questions to ClickHouse: nobody looks at an empty
// page for longer.
const pageTimeout = 10 * time.Second

// usualIngestPort is where ingest listens unless its settings say otherwise.
const usualIngestPort = "8080"

// openPages composes the pages and mounts them. Where nobody is admin yet it
// writes the set-up code to the log.
func (s *Server) openPages(ctx context.Context, settings config.Admin, conn Connections, trail Trail) error {
	sessions, err := session.Open(ctx, conn.Queue, conn.Store, conn.Replicas)
	if err != nil {
		return err
	}
	cfg, err := pagesConfig(settings, conn.IngestAddr)
	if err != nil {
		return err
	}
	issuer, err := companyAccounts(settings, cfg.Public)
	if err != nil {
		return err
	}
	views, err := saved.Open(ctx, conn.Queue, conn.Replicas)
	if err != nil {
		return err
	}
	pages, err := web.New(cfg, web.Deps{
		Logger: s.deps.Logger, Directory: conn.Store, Reader: conn.Client, Service: pageService{s}, Sessions: sessions,
		Gate: session.NewGate(conn.Store), OIDC: issuer, Defaults: s.deps.Defaults,
		Explorer: conn.Client, Engine: conn.Client, History: conn.Client, Views: views,
		Queue: stream.NewOverview(conn.Queue), Letters: outbox.NewLetters(conn.Queue),
	})
	if err != nil {
		return err
	}
	s.mount(pages, trail)
	return offerSetUp(ctx, s.deps.Logger, sessions, conn.Store)
}

func pagesConfig(settings config.Admin, ingestAddr string) (web.Config, error) {
	cfg := web.Config{IngestURL: settings.IngestURL, IngestPort: usualIngestPort, QueryTimeout: pageTimeout}
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

// companyAccounts is the issuer of the settings, nil where they name none.
func companyAccounts(settings config.Admin, public *url.URL) (*session.OIDC, error) {
	if settings.OIDCIssuer == "" {
		return nil, nil
	}
	if err := session.CheckIssuer(settings.OIDCIssuer); err != nil {
		return nil, fmt.Errorf("--oidc-issuer: %w", err)
	}
	return session.NewOIDC(session.OIDCConfig{
		Issuer: settings.OIDCIssuer, ClientID: settings.OIDCClientID, ClientSecret: project.NewSecret(settings.OIDCClientSecret.Reveal()),
		RedirectURL: web.CompanyCallback(public),
	}, nil), nil
}

// offerSetUp writes a set-up code to the log, for whoever operates the process
// and nobody else, until the first admin was made.
func offerSetUp(ctx context.Context, logger *slog.Logger, sessions *session.Sessions, store *project.Store) error {
	open, err := store.FirstAdminOpen(ctx)
	if err != nil || !open {
		return err
	}
	code, err := sessions.NewSetupCode(ctx)
	if err != nil {
		return err
	}
	logger.Warn("nobody may sign in yet: open the pages and make the first admin with the set-up code", "set-up code", code)
	return nil
}
