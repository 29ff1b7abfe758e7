// Command admin answers operators and scripts: it looks after projects and
// looks into what they stored. It needs NATS, Redis and ClickHouse and keeps
// nothing.
package main

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/logboom/logboom/pkg/admin/server"
	"github.com/logboom/logboom/pkg/clickhouse"
	"github.com/logboom/logboom/pkg/config"
	"github.com/logboom/logboom/pkg/lease"
	"github.com/logboom/logboom/pkg/people"
	"github.com/logboom/logboom/pkg/project"
	"github.com/logboom/logboom/pkg/quota"
	"github.com/logboom/logboom/pkg/redis"
	"github.com/logboom/logboom/pkg/stream"
	"github.com/logboom/logboom/pkg/telemetry"
	"github.com/logboom/logboom/pkg/token"
	"github.com/logboom/logboom/pkg/webhook"
)

type settings struct {
	Run   serve `cmd:"" default:"withargs" help:"Answer operators and scripts (what it does by default)."`
	Token struct {
		New struct{} `cmd:"" help:"Print a new token, fit for LOGBOOM_BOOTSTRAP_TOKEN. It is known to no project yet."`
	} `cmd:"" help:"Work with tokens."`
	DeadLetters deadLetters `cmd:"" help:"Look at the messages that could not be stored, and replay them."`
	Migrate     migrate     `cmd:"" help:"Make the streams, buckets and tables, or bring them up to date, and end."`
}

type serve struct {
	config.Process    `embed:""`
	config.NATS       `embed:""`
	config.Redis      `embed:""`
	config.ClickHouse `embed:""`
	config.Queue      `embed:""`
	config.Admin      `embed:""`
	config.Quotas     `embed:""`
	config.Keys       `embed:""`
	config.Webhooks   `embed:""`
	config.Bootstrap  `embed:""`
}

func (s *serve) defaults() project.Quotas {
	return project.Quotas{Rate: s.QuotaRate, DailyRecords: s.QuotaDailyRecords, MonthlyBytes: int64(s.QuotaMonthlyBytes)}
}

func main() { os.Exit(run()) }

func run() int {
	var cfg settings
	read, code, ok := config.Command("admin", "Looks after projects and looks into what they stored.", &cfg)
	if !ok {
		return code
	}
	if read.Command == "token new" {
		fmt.Println(token.New().Reveal())
		return 0
	}
	if read.Command == "migrate" {
		return cfg.Migrate.run()
	}
	if strings.HasPrefix(read.Command, "dead-letters ") {
		return cfg.DeadLetters.letters(read.Command)
	}
	s := cfg.Run
	if err := people.ValidateBootstrap(s.Bootstrap); err != nil {
		fmt.Fprintf(os.Stderr, "admin: %v\n", err)
		return config.ExitBadSettings
	}
	process := telemetry.Config{Name: "admin", OpsAddr: s.OpsAddr, LogLevel: s.LogLevel, LogFormat: s.LogFormat, StopTimeout: s.StopTimeout}
	return telemetry.Main(process, func(ctx context.Context, p *telemetry.Process) error {
		read.Log(p.Logger)
		conn, err := connect(ctx, p, s)
		if err != nil {
			return err
		}
		if _, err := conn.People.Bootstrap(ctx, conn.Tokens, s.Bootstrap, false); err != nil {
			return err
		}
		_, err = server.Start(ctx, p, s.Admin, s.defaults(), conn)
		return err
	})
}

func connect(ctx context.Context, p *telemetry.Process, cfg serve) (conn server.Connections, err error) {
	nc, js, err := stream.Connect(ctx, cfg.NATSURL.Reveal(), stream.ConnectConfig{Name: "admin", Logger: p.Logger})
	if err != nil {
		return conn, err
	}
	p.OnStop("queue connection", func(context.Context) error { nc.Close(); return nil })
	self := lease.Process{Name: "admin", Version: telemetry.Version(), Ops: cfg.OpsAddr}
	p.Go("presence", lease.NewPresence(js, self, p.Health.Ready, cfg.Replicas, p.Logger).Run)
	conn.Projects, err = project.Open(ctx, js, project.Config{
		Replicas: cfg.Replicas, Defaults: cfg.defaults(), Key: cfg.SecretKey, OldKeys: cfg.OldSecretKeys,
	})
	if err != nil {
		return conn, err
	}
	if conn.Tokens, err = token.Open(ctx, js, conn.Projects, cfg.Replicas); err != nil {
		return conn, err
	}
	if conn.People, err = people.Open(ctx, js, conn.Projects, cfg.Replicas); err != nil {
		return conn, err
	}
	conn.Queue, conn.Replicas = js, cfg.Replicas
	if err := openWebhooks(&conn, cfg); err != nil {
		return conn, err
	}
	client, err := redis.Open(cfg.RedisURL.Reveal(), p.Logger)
	if err != nil {
		return conn, err
	}
	p.OnStop("redis connection", func(context.Context) error { return client.Close() })
	conn.Counters = quota.NewRedis(client, quota.Config{Logger: p.Logger})
	conn.Client, err = clickhouse.Open(clickhouse.Config{URL: cfg.ClickHouseURL.Reveal(), Cluster: cfg.ClickHouseCluster})
	if err != nil {
		return conn, err
	}
	p.OnStop("clickhouse connection", func(context.Context) error { return conn.Client.Close() })
	return conn, nil
}

// openWebhooks is what test messages are sent with: the same as the notifier's.
func openWebhooks(conn *server.Connections, cfg serve) error {
	keys := []string{cfg.SecretKey.Reveal()}
	for _, old := range cfg.OldSecretKeys {
		keys = append(keys, old.Reveal())
	}
	sender, signer, err := webhook.Open(cfg.WebhookAllow, keys...)
	if err != nil {
		return err
	}
	conn.Webhooks, conn.Signatures = sender, signer
	return nil
}
