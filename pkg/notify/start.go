package notify

import (
	"context"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/logboom/logboom/pkg/clickhouse"
	"github.com/logboom/logboom/pkg/config"
	"github.com/logboom/logboom/pkg/ledger"
	"github.com/logboom/logboom/pkg/outbox"
	"github.com/logboom/logboom/pkg/project"
	"github.com/logboom/logboom/pkg/stream"
	"github.com/logboom/logboom/pkg/telemetry"
	"github.com/logboom/logboom/pkg/webhook"
)

// Connections are the engines that the service works over: real clusters in
// cmd/notifier, embedded ones in cmd/standalone.
type Connections struct {
	JetStream jetstream.JetStream
	Topology  *stream.Topology
	Ledger    *ledger.Ledger
	Store     *project.Store
	Client    *clickhouse.Client
	Sender    *webhook.Sender
	Replicas  int
}

// FromSettings takes an operator's bounds; publicURL is where people find the
// admin pages, and defaults are the quotas of projects that name none.
func FromSettings(in config.Alerts, publicURL string, defaults project.Quotas) Config {
	cfg := DefaultConfig()
	cfg.PerWindow, cfg.PublicURL, cfg.Defaults = in.AlertsPerMinute, publicURL, defaults
	return cfg
}

// Start makes the tables and the outbox, composes the service and adds it to
// the process.
func Start(ctx context.Context, p *telemetry.Process, cfg Config, conn Connections) error {
	if err := cfg.Validate(); err != nil {
		return fmt.Errorf("notifier: %w", err)
	}
	if err := conn.Client.Prepare(ctx, p.Logger); err != nil {
		return err
	}
	box, err := outbox.Open(ctx, conn.JetStream, outbox.Config{Partitions: conn.Topology.Shards(), Replicas: conn.Replicas})
	if err != nil {
		return err
	}
	bucket, err := OpenBucket(ctx, conn.JetStream, conn.Replicas)
	if err != nil {
		return err
	}
	member, err := newMember(ctx, conn.JetStream, cfg.Member, p.Logger)
	if err != nil {
		return err
	}
	service := New(cfg, Deps{
		Logger: p.Logger, Registry: p.Registry, Queue: conn.Topology, Ledger: conn.Ledger, Outbox: box, Bucket: bucket, Leases: member,
		Projects: conn.Store, Deliverer: conn.Sender, Tables: conn.Client,
	})
	p.Health.Add("alerts", service.Ready)
	p.Go("notifier", service.Run)
	return nil
}
