// Command notifier delivers alerts to chats: of events that ask for one, of logs
// at or above a project's severity, and of quotas that run out. It needs NATS and
// ClickHouse, and stores nothing itself.
package main

import (
	"context"
	"os"

	"github.com/logboom/logboom/pkg/clickhouse"
	"github.com/logboom/logboom/pkg/config"
	"github.com/logboom/logboom/pkg/lease"
	"github.com/logboom/logboom/pkg/ledger"
	"github.com/logboom/logboom/pkg/notify"
	"github.com/logboom/logboom/pkg/project"
	"github.com/logboom/logboom/pkg/stream"
	"github.com/logboom/logboom/pkg/telemetry"
	"github.com/logboom/logboom/pkg/webhook"
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

func (s *settings) defaults() project.Quotas {
	return project.Quotas{Rate: s.QuotaRate, DailyRecords: s.QuotaDailyRecords, MonthlyBytes: int64(s.QuotaMonthlyBytes)}
}

func main() { os.Exit(run()) }

func run() int {
	var cfg settings
	values, code, ok := config.Command("notifier", "Delivers alerts to chats.", &cfg)
	if !ok {
		return code
	}
	process := telemetry.Config{Name: "notifier", OpsAddr: cfg.OpsAddr, LogLevel: cfg.LogLevel, LogFormat: cfg.LogFormat, StopTimeout: cfg.StopTimeout}
	return telemetry.Main(process, func(ctx context.Context, p *telemetry.Process) error {
		values.Log(p.Logger)
		conn, err := connect(ctx, p, &cfg)
		if err != nil {
			return err
		}
		return notify.Start(ctx, p, notify.Config{PerMinute: cfg.AlertsPerMinute, PublicURL: cfg.PublicURL, Quotas: cfg.defaults()}, conn)
	})
}

func connect(ctx context.Context, p *telemetry.Process, cfg *settings) (conn notify.Connections, err error) {
	nc, js, err := stream.Connect(ctx, cfg.NATSURL.Reveal(), stream.ConnectConfig{Name: "notifier", Logger: p.Logger})
	if err != nil {
		return conn, err
	}
	p.OnStop("queue connection", func(context.Context) error { nc.Close(); return nil })
	self := lease.Process{Name: "notifier", Version: telemetry.Version(), Ops: cfg.OpsAddr}
	p.Go("presence", lease.NewPresence(js, self, p.Health.Ready, cfg.Replicas, p.Logger).Run)
	conn.JetStream, conn.Replicas = js, cfg.Replicas
	conn.Topology, err = stream.Open(ctx, js, stream.Config{Shards: cfg.Shards, Replicas: cfg.Replicas, MaxBytes: int64(cfg.StreamBytes), Logger: p.Logger})
	if err != nil {
		return conn, err
	}
	if conn.Ledger, err = ledger.Open(ctx, js, cfg.Replicas, p.Logger); err != nil {
		return conn, err
	}
	signing := []string{cfg.SecretKey.Reveal()}
	for _, old := range cfg.OldSecretKeys {
		signing = append(signing, old.Reveal())
	}
	conn.Store, err = project.Open(ctx, js, project.Config{
		Replicas: cfg.Replicas, Defaults: cfg.defaults(), Key: cfg.SecretKey, OldKeys: cfg.OldSecretKeys,
	})
	if err != nil {
		return conn, err
	}
	conn.Client, err = clickhouse.Open(clickhouse.Config{URL: cfg.ClickHouseURL.Reveal(), Cluster: cfg.ClickHouseCluster})
	if err != nil {
		return conn, err
	}
	p.OnStop("clickhouse connection", func(context.Context) error { return conn.Client.Close() })
	conn.Sender, _, err = webhook.Open(cfg.WebhookAllow, signing...)
	return conn, err
}
