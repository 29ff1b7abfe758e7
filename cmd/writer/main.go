// Command writer moves records from the queue into ClickHouse. It needs NATS
// and ClickHouse and keeps nothing.
package main

import (
	"context"
	"os"

	"github.com/logboom/logboom/pkg/clickhouse"
	"github.com/logboom/logboom/pkg/config"
	"github.com/logboom/logboom/pkg/lease"
	"github.com/logboom/logboom/pkg/ledger"
	"github.com/logboom/logboom/pkg/stream"
	"github.com/logboom/logboom/pkg/telemetry"
	"github.com/logboom/logboom/pkg/writer"
)

type settings struct {
	config.Process    `embed:""`
	config.NATS       `embed:""`
	config.ClickHouse `embed:""`
	config.Queue      `embed:""`
}

func main() { os.Exit(run()) }

func run() int {
	var cfg settings
	read, code, ok := config.Command("writer", "Moves records from the queue into ClickHouse.", &cfg)
	if !ok {
		return code
	}
	process := telemetry.Config{Name: "writer", OpsAddr: cfg.OpsAddr, LogLevel: cfg.LogLevel, LogFormat: cfg.LogFormat, StopTimeout: cfg.StopTimeout}
	return telemetry.Main(process, func(ctx context.Context, p *telemetry.Process) error {
		read.Log(p.Logger)
		conn, err := connect(ctx, p, cfg)
		if err != nil {
			return err
		}
		return writer.Start(ctx, p, writer.DefaultConfig(), conn)
	})
}

func connect(ctx context.Context, p *telemetry.Process, cfg settings) (conn writer.Connections, err error) {
	nc, js, err := stream.Connect(ctx, cfg.NATSURL.Reveal(), stream.ConnectConfig{Name: "writer", Logger: p.Logger})
	if err != nil {
		return conn, err
	}
	p.OnStop("queue connection", func(context.Context) error { nc.Close(); return nil })
	self := lease.Process{Name: "writer", Version: telemetry.Version(), Ops: cfg.OpsAddr}
	p.Go("presence", lease.NewPresence(js, self, p.Health.Ready, cfg.Replicas, p.Logger).Run)
	conn.Topology, err = stream.Open(ctx, js, stream.Config{Shards: cfg.Shards, Replicas: cfg.Replicas, MaxBytes: int64(cfg.StreamBytes), Logger: p.Logger})
	if err != nil {
		return conn, err
	}
	if conn.Ledger, err = ledger.Open(ctx, js, cfg.Replicas, p.Logger); err != nil {
		return conn, err
	}
	conn.Client, err = clickhouse.Open(clickhouse.Config{URL: cfg.ClickHouseURL.Reveal(), Cluster: cfg.ClickHouseCluster})
	if err != nil {
		return conn, err
	}
	p.OnStop("clickhouse connection", func(context.Context) error { return conn.Client.Close() })
	return conn, nil
}
