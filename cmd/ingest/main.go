// Command ingest receives logs and events over HTTP and publishes them to the
// queue. It needs NATS and Redis, stores nothing itself, and scales by adding
// copies.
package main

import (
	"context"
	"os"

	"github.com/logboom/logboom/cmd/internal/connect"
	"github.com/logboom/logboom/pkg/config"
	"github.com/logboom/logboom/pkg/ingest"
	"github.com/logboom/logboom/pkg/project"
	"github.com/logboom/logboom/pkg/quota"
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
	values, code, ok := config.Command("ingest", "Receives logs and events over HTTP and publishes them to the queue.", &cfg)
	if !ok {
		return code
	}
	return connect.Main("ingest", values, cfg.Process, func(ctx context.Context, p *telemetry.Process) error {
		conn, err := open(ctx, p, cfg)
		if err != nil {
			return err
		}
		_, err = ingest.Start(p, cfg.Intake, conn)
		return err
	})
}

// open connects to the engines.
func open(ctx context.Context, p *telemetry.Process, cfg settings) (conn ingest.Connections, err error) {
	js, err := connect.Queue(ctx, p, "ingest", cfg.NATSURL.Reveal(), cfg.Process, cfg.Replicas)
	if err != nil {
		return conn, err
	}
	if conn.Topology, err = connect.Streams(ctx, p, js, cfg.Queue); err != nil {
		return conn, err
	}
	projects, err := project.Open(ctx, js, project.Config{Replicas: cfg.Replicas, Defaults: connect.Quotas(cfg.Quotas)})
	if err != nil {
		return conn, err
	}
	if conn.Tokens, err = token.Open(ctx, js, projects, cfg.Replicas); err != nil {
		return conn, err
	}
	client, err := connect.Redis(p, cfg.RedisURL.Reveal())
	if err != nil {
		return conn, err
	}
	conn.Shared = token.NewRedisShared(client)
	conn.Limiter = quota.NewRedis(client, quota.Config{Logger: p.Logger})
	return conn, nil
}
