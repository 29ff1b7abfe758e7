// Command ingest receives logs and events over HTTP and publishes them to the
// queue. It needs NATS and Redis, stores nothing itself, and scales by adding
// copies.
package main

import (
	"context"
	"os"

	"github.com/logboom/logboom/pkg/config"
	"github.com/logboom/logboom/pkg/ingest"
	"github.com/logboom/logboom/pkg/lease"
	"github.com/logboom/logboom/pkg/project"
	"github.com/logboom/logboom/pkg/quota"
	"github.com/logboom/logboom/pkg/redis"
	"github.com/logboom/logboom/pkg/stream"
	"github.com/logboom/logboom/pkg/telemetry"
	"github.com/logboom/logboom/pkg/token"
)

type settings struct {
	config.Process `embed:""`
	config.NATS    `embed:""`
	config.Redis   `embed:""`
	config.Queue   `embed:""`
	config.Intake  `embed:""`
	config.Quotas  `embed:""`
}

func main() { os.Exit(run()) }

func run() int {
	var cfg settings
	read, code, ok := config.Command("ingest", "Receives logs and events over HTTP and publishes them to the queue.", &cfg)
	if !ok {
		return code
	}
	process := telemetry.Config{Name: "ingest", OpsAddr: cfg.OpsAddr, LogLevel: cfg.LogLevel, LogFormat: cfg.LogFormat, StopTimeout: cfg.StopTimeout}
	return telemetry.Main(process, func(ctx context.Context, p *telemetry.Process) error {
		read.Log(p.Logger)
		conn, err := connect(ctx, p, cfg)
		if err != nil {
			return err
		}
		_, err = ingest.Start(p, cfg.Intake, conn)
		return err
	})
}

func connect(ctx context.Context, p *telemetry.Process, cfg settings) (conn ingest.Connections, err error) {
	nc, js, err := stream.Connect(ctx, cfg.NATSURL.Reveal(), stream.ConnectConfig{Name: "ingest", Logger: p.Logger})
	if err != nil {
		return conn, err
	}
	p.OnStop("queue connection", func(context.Context) error { nc.Close(); return nil })
	self := lease.Process{Name: "ingest", Version: telemetry.Version(), Ops: cfg.OpsAddr}
	p.Go("presence", lease.NewPresence(js, self, p.Health.Ready, cfg.Replicas, p.Logger).Run)
	conn.Topology, err = stream.Open(ctx, js, stream.Config{Shards: cfg.Shards, Replicas: cfg.Replicas, MaxBytes: int64(cfg.StreamBytes), Logger: p.Logger})
	if err != nil {
		return conn, err
	}
	projects, err := project.Open(ctx, js, project.Config{Replicas: cfg.Replicas, Defaults: project.Quotas{
		Rate: cfg.QuotaRate, DailyRecords: cfg.QuotaDailyRecords, MonthlyBytes: int64(cfg.QuotaMonthlyBytes),
	}})
	if err != nil {
		return conn, err
	}
	conn.Tokens, err = token.Open(ctx, js, projects, cfg.Replicas)
	if err != nil {
		return conn, err
	}
	client, err := redis.Open(cfg.RedisURL.Reveal(), p.Logger)
	if err != nil {
		return conn, err
	}
	p.OnStop("redis connection", func(context.Context) error { return client.Close() })
	conn.Shared = token.NewRedisShared(client)
	conn.Limiter = quota.NewRedis(client, quota.Config{Logger: p.Logger})
	return conn, nil
}
