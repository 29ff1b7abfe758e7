// Command standalone runs all of Logboom in one process tree with one data
// folder: the services, an embedded NATS, an embedded ClickHouse, and caches in
// memory. It differs from the separate commands only in what it connects to.
package main

import (
	"context"
	"fmt"
	"net"
	"os"

	"github.com/logboom/logboom/cmd/internal/connect"
	"github.com/logboom/logboom/pkg/admin/server"
	"github.com/logboom/logboom/pkg/config"
	"github.com/logboom/logboom/pkg/embedded/engine"
	"github.com/logboom/logboom/pkg/ingest"
	"github.com/logboom/logboom/pkg/notify"
	"github.com/logboom/logboom/pkg/people"
	"github.com/logboom/logboom/pkg/telemetry"
	"github.com/logboom/logboom/pkg/writer"
)

type settings struct {
	config.Process   `embed:""`
	config.Queue     `embed:""`
	config.Intake    `embed:""`
	config.Quotas    `embed:""`
	config.Admin     `embed:""`
	config.Bootstrap `embed:""`
	config.Webhooks  `embed:""`
	config.Alerts    `embed:""`

	DataDir          string     `default:"./data" help:"Folder of all data."`
	ClickHouseURL    config.URL `name:"clickhouse-url" help:"A ClickHouse to use instead of the embedded one."`
	ClickHouseEngine string     `name:"clickhouse-engine" help:"Path of the embedded engine's library. Default: where make engine has stored it."`
	EngineDigest     string     `name:"clickhouse-engine-sha256" env:"LOGBOOM_CLICKHOUSE_ENGINE_SHA256" help:"SHA-256 of that library if it is not the pinned release."`
	RedisURL         config.URL `help:"A Redis to use instead of caches in memory."`
}

// Validate returns an error for an address that is not valid.
func (s *settings) Validate() error {
	if s.ClickHouseURL.IsSet() {
		if err := (&config.ClickHouse{ClickHouseURL: s.ClickHouseURL}).Validate(); err != nil {
			return err
		}
	}
	if s.RedisURL.IsSet() {
		return (&config.Redis{RedisURL: s.RedisURL}).Validate()
	}
	return nil
}

func main() {
	engine.Main() // does not return in the engine's own process
	os.Exit(run())
}

func run() int {
	var cfg settings
	values, code, ok := config.Command("standalone", "All of Logboom in one process, with everything it needs inside.", &cfg)
	if !ok {
		return code
	}
	if err := people.ValidateBootstrap(cfg.Bootstrap); err != nil {
		fmt.Fprintf(os.Stderr, "standalone: %v\n", err)
		return config.ExitBadSettings
	}
	return connect.Main("standalone", values, cfg.Process, func(ctx context.Context, p *telemetry.Process) error {
		return compose(ctx, p, &cfg)
	})
}

// compose starts the services. Ingest starts last, so that it stops first and
// the writer stores what ingest has accepted.
func compose(ctx context.Context, p *telemetry.Process, cfg *settings) error {
	engines, err := open(ctx, p, cfg)
	if err != nil {
		return err
	}
	made, err := engines.people.Bootstrap(ctx, engines.tokens, cfg.Bootstrap, true)
	if err != nil {
		return err
	}
	// The only writer has a fixed name: after a crash it need not wait until its own lease expires.
	if err := writer.Start(ctx, p, "standalone", writer.Connections{Topology: engines.topology, Ledger: engines.ledger, Client: engines.client}); err != nil {
		return err
	}
	if err := startNotifier(ctx, p, cfg, engines); err != nil {
		return err
	}
	adminAddr, err := server.Start(ctx, p, cfg.Admin, connect.Quotas(cfg.Quotas), server.Connections{
		Projects: engines.projects, Tokens: engines.tokens, People: engines.people, Client: engines.client, Counters: engines.limiter,
		Webhooks: engines.sender, Signatures: engines.signer, Queue: engines.queue, Replicas: 1, IngestAddr: cfg.IngestAddr,
	})
	if err != nil {
		return err
	}
	ingestAddr, err := ingest.Start(p, cfg.Intake, ingest.Connections{
		Topology: engines.topology, Tokens: engines.tokens, Shared: engines.shared, Limiter: engines.limiter,
		DiskFull: engines.diskFull,
	})
	if err != nil {
		return err
	}
	return welcome(os.Stdout, made, reachable(ingestAddr), reachable(adminAddr))
}

func startNotifier(ctx context.Context, p *telemetry.Process, cfg *settings, e engines) error {
	alerting := notify.Config{PerMinute: cfg.AlertsPerMinute, PublicURL: cfg.PublicURL, Quotas: connect.Quotas(cfg.Quotas)}
	alerting.Member = "standalone" // as for the writer
	return notify.Start(ctx, p, alerting, notify.Connections{
		JetStream: e.queue, Topology: e.topology, Ledger: e.ledger, Store: e.projects, Client: e.client, Sender: e.sender, Replicas: 1,
	})
}

// reachable is an address at which programs on this machine reach the listener. A
// listener on all addresses is reached on loopback.
func reachable(addr net.Addr) string {
	tcp, ok := addr.(*net.TCPAddr)
	if ok && tcp.IP.IsUnspecified() {
		return fmt.Sprintf("127.0.0.1:%d", tcp.Port)
	}
	return addr.String()
}
