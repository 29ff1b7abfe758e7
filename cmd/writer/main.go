// Command writer moves records from the queue into ClickHouse. It needs NATS
// and ClickHouse, and stores nothing itself.
package main

import (
	"context"
	"os"

	"github.com/logboom/logboom/cmd/internal/connect"
	"github.com/logboom/logboom/pkg/config"
	"github.com/logboom/logboom/pkg/ledger"
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
	values, code, ok := config.Command("writer", "Moves records from the queue into ClickHouse.", &cfg)
	if !ok {
		return code
	}
	return connect.Main("writer", values, cfg.Process, func(ctx context.Context, p *telemetry.Process) error {
		conn, err := open(ctx, p, cfg)
		if err != nil {
			return err
		}
		return writer.Start(ctx, p, "", conn)
	})
}

// open connects to the queue and to ClickHouse.
func open(ctx context.Context, p *telemetry.Process, cfg settings) (conn writer.Connections, err error) {
	js, err := connect.Queue(ctx, p, "writer", cfg.NATSURL.Reveal(), cfg.Process, cfg.Replicas)
	if err != nil {
		return conn, err
	}
	if conn.Topology, err = connect.Streams(ctx, p, js, cfg.Queue); err != nil {
		return conn, err
	}
	if conn.Ledger, err = ledger.Open(ctx, js, cfg.Replicas, p.Logger); err != nil {
		return conn, err
	}
	conn.Client, err = connect.ClickHouse(p, cfg.ClickHouseURL.Reveal(), cfg.ClickHouseCluster)
	return conn, err
}
