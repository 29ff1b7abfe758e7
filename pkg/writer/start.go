package writer

import (
	"context"
	"fmt"

	"github.com/logboom/logboom/pkg/clickhouse"
	"github.com/logboom/logboom/pkg/stream"
	"github.com/logboom/logboom/pkg/telemetry"
)

// Connections are the engines that the service works over: real clusters in
// cmd/writer, embedded ones in cmd/standalone.
type Connections struct {
	Topology *stream.Topology
	Client   *clickhouse.Client
}

// Start makes the tables, composes the service and adds it to the process.
func Start(ctx context.Context, p *telemetry.Process, cfg Config, conn Connections) error {
	if err := cfg.Validate(); err != nil {
		return fmt.Errorf("writer: %w", err)
	}
	if err := conn.Client.Prepare(ctx, p.Logger); err != nil {
		return err
	}
	leases, err := conn.Topology.Leases(cfg.Member)
	if err != nil {
		return err
	}
	service := New(cfg, Deps{
		Logger: p.Logger, Registry: p.Registry, Queue: conn.Topology, Ledger: conn.Topology.Ledger(), Leases: leases, Sink: conn.Client,
	})
	p.Health.Add("clickhouse", conn.Client.Ping)
	p.Health.Add("streams", service.Ready)
	p.Go("writer", service.Run)
	return nil
}
