// Command notifier delivers alerts to chats: of events that ask for one, of logs
// at or above a project's severity, and of quotas that run out. It needs NATS and
// ClickHouse, and stores nothing itself.
package main

import (
	"context"
	"os"

	"github.com/logboom/logboom/cmd/internal/connect"
	"github.com/logboom/logboom/pkg/config"
	"github.com/logboom/logboom/pkg/ledger"
	"github.com/logboom/logboom/pkg/notify"
	"github.com/logboom/logboom/pkg/project"
	"github.com/logboom/logboom/pkg/telemetry"
)

type settings struct {
	config.Process    `embed:""`
	config.NATS       `embed:""`
	config.ClickHouse `embed:""`
	config.Queue      `embed:""`
	config.Quotas     `embed:""`
	config.Keys       `embed:""`
	config.Webhooks   `embed:""`
	config.Alerts     `embed:""`

	PublicURL string `name:"public-url" help:"Address of the web pages, such as https://logs.example.org, for links in messages. Without it, messages have no links."`
}

func main() { os.Exit(run()) }

func run() int {
	var cfg settings
	values, code, ok := config.Command("notifier", "Delivers alerts to chats.", &cfg)
	if !ok {
		return code
	}
	return connect.Main("notifier", values, cfg.Process, func(ctx context.Context, p *telemetry.Process) error {
		conn, err := open(ctx, p, &cfg)
		if err != nil {
			return err
		}
		return notify.Start(ctx, p, notify.Config{PerMinute: cfg.AlertsPerMinute, PublicURL: cfg.PublicURL, Quotas: connect.Quotas(cfg.Quotas)}, conn)
	})
}

// open connects to the engines.
func open(ctx context.Context, p *telemetry.Process, cfg *settings) (conn notify.Connections, err error) {
	js, err := connect.Queue(ctx, p, "notifier", cfg.NATSURL.Reveal(), cfg.Process, cfg.Replicas)
	if err != nil {
		return conn, err
	}
	conn.JetStream, conn.Replicas = js, cfg.Replicas
	if conn.Topology, err = connect.Streams(ctx, p, js, cfg.Queue); err != nil {
		return conn, err
	}
	if conn.Ledger, err = ledger.Open(ctx, js, cfg.Replicas, p.Logger); err != nil {
		return conn, err
	}
	conn.Store, err = project.Open(ctx, js, project.Config{
		Replicas: cfg.Replicas, Defaults: connect.Quotas(cfg.Quotas), Key: cfg.SecretKey, OldKeys: cfg.OldSecretKeys,
	})
	if err != nil {
		return conn, err
	}
	if conn.Client, err = connect.ClickHouse(p, cfg.ClickHouseURL.Reveal(), cfg.ClickHouseCluster); err != nil {
		return conn, err
	}
	conn.Sender, _, err = connect.Webhooks(cfg.Webhooks, cfg.Keys)
	return conn, err
}
