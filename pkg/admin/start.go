package admin

import (
	"context"
	"fmt"
	"net"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/logboom/logboom/pkg/clickhouse"
	"github.com/logboom/logboom/pkg/config"
	"github.com/logboom/logboom/pkg/project"
	"github.com/logboom/logboom/pkg/telemetry"
)

// Connections are the engines that the service works over: real clusters in
// cmd/admin, embedded ones in cmd/standalone.
type Connections struct {
	Store    *project.Store
	Client   *clickhouse.Client
	Graves   Graves
	Counters Counters
	Letters  Letters

	// Webhooks send test messages, and Signatures know what generic ones are
	// signed with.
	Webhooks   Webhooks
	Signatures Signatures

	// Queue is where sessions and the audit trail are kept, with as many
	// Replicas. IngestAddr is where ingest listens, for the lines that the
	// pages offer; empty: where it usually does.
	Queue      jetstream.JetStream
	Replicas   int
	IngestAddr string
}

// Start makes the tables, composes the service and adds it to the process. The
// address is where it listens; defaults are the quotas of projects that name
// none.
func Start(ctx context.Context, p *telemetry.Process, settings config.Admin, defaults project.Quotas, conn Connections) (net.Addr, error) {
	if err := conn.Client.Prepare(ctx, p.Logger); err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", settings.AdminAddr)
	if err != nil {
		return nil, fmt.Errorf("--admin-addr: %w", err)
	}
	trail, err := OpenTrail(ctx, conn.Queue, p.Logger, conn.Replicas)
	if err != nil {
		return nil, err
	}
	cfg := DefaultConfig()
	if cfg.TrustedProxies, err = settings.Proxies(); err != nil {
		return nil, err
	}
	server := New(cfg, Deps{
		Logger: p.Logger, Registry: p.Registry, Health: p.Health, Reader: conn.Client, Directory: conn.Store,
		Audit: trail, Sweeper: conn.Store, Graves: conn.Graves, Eraser: conn.Client,
		Counters: conn.Counters, Defaults: defaults, Letters: conn.Letters,
		Deliveries: conn.Client, Webhooks: conn.Webhooks, Signatures: conn.Signatures,
	})
	if err := server.openPages(ctx, settings, conn, trail); err != nil {
		return nil, err
	}
	p.Logger.Info("admin port open", "addr", listener.Addr().String())
	p.Health.Add("clickhouse", conn.Client.Ping)
	p.Go("admin", func(ctx context.Context) error { return server.Run(ctx, listener) })
	return listener.Addr(), nil
}

// Wanted is what the settings name for the first start; demo asks for a demo
// project where they name nothing.
func Wanted(b config.Bootstrap, demo bool) project.Wanted {
	return project.Wanted{
		AdminEmail:    b.AdminEmail,
		AdminPassword: project.NewSecret(b.AdminPassword.Reveal()),
		APIKey:        project.NewSecret(b.APIKey.Reveal()),
		Project:       b.Project,
		Token:         project.NewSecret(b.Token.Reveal()),
		Demo:          demo,
	}
}
