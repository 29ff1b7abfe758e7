package main

import (
	"context"
	"errors"
	"path/filepath"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/logboom/logboom/cmd/internal/connect"
	"github.com/logboom/logboom/pkg/clickhouse"
	"github.com/logboom/logboom/pkg/embedded"
	"github.com/logboom/logboom/pkg/embedded/engine"
	"github.com/logboom/logboom/pkg/lease"
	"github.com/logboom/logboom/pkg/ledger"
	"github.com/logboom/logboom/pkg/people"
	"github.com/logboom/logboom/pkg/project"
	"github.com/logboom/logboom/pkg/quota"
	"github.com/logboom/logboom/pkg/record"
	"github.com/logboom/logboom/pkg/stream"
	"github.com/logboom/logboom/pkg/telemetry"
	"github.com/logboom/logboom/pkg/token"
	"github.com/logboom/logboom/pkg/webhook"
)

// defaultShards is the default of stream.Config. It is needed here to divide the
// disk among the streams before they are created.
const defaultShards = 4

// maxStreamBytes is the largest size of a stream if the disk has room.
const maxStreamBytes = 4 << 30

// engines are the engines and caches that the services use.
type engines struct {
	queue    jetstream.JetStream
	topology *stream.Topology
	ledger   *ledger.Ledger
	projects *project.Store
	tokens   *token.Store
	people   *people.Store
	shared   token.Shared
	limiter  quota.Limiter
	client   *clickhouse.Client
	diskFull func() error // why the disk takes no more, or nil
	sender   *webhook.Sender
	signer   *webhook.Signer
}

func open(ctx context.Context, p *telemetry.Process, cfg *settings) (engines, error) {
	var e engines
	var err error
	if e.client, err = openClickHouse(ctx, p, cfg); err != nil {
		return e, err
	}
	if err = e.openQueue(ctx, p, cfg); err != nil {
		return e, err
	}
	return e, e.openCaches(p, cfg)
}

// openClickHouse starts the embedded engine, unless the settings name a ClickHouse.
func openClickHouse(ctx context.Context, p *telemetry.Process, cfg *settings) (*clickhouse.Client, error) {
	address := cfg.ClickHouseURL.Reveal()
	if address == "" {
		started, err := engine.Start(ctx, engine.Config{
			Library: cfg.ClickHouseEngine,
			Digest:  cfg.EngineDigest,
			DataDir: filepath.Join(cfg.DataDir, "clickhouse"),
			Logger:  p.Logger.With("engine", "clickhouse"),
		})
		if err != nil {
			return nil, err
		}
		p.OnStop("embedded clickhouse", started.Stop)
		address = started.URL()
	}
	return connect.ClickHouse(p, address, "")
}

// openQueue starts the embedded NATS and opens its streams and buckets.
func (e *engines) openQueue(ctx context.Context, p *telemetry.Process, cfg *settings) error {
	server, err := embedded.StartNATS(ctx, embedded.NATSConfig{
		DataDir: filepath.Join(cfg.DataDir, "nats"),
		Logger:  p.Logger.With("engine", "nats"),
	})
	if err != nil {
		return err
	}
	p.OnStop("embedded nats", server.Stop)
	e.diskFull = watchDisk(p, cfg.DataDir, server).Full
	nc, js, err := stream.Connect(ctx, server.URL(), stream.ConnectConfig{
		Name: "standalone", Logger: p.Logger, Options: []nats.Option{server.InProcess()},
	})
	if err != nil {
		return err
	}
	p.OnStop("queue connection", func(context.Context) error { nc.Close(); return nil })
	self := lease.Process{Name: "standalone", Version: telemetry.Version(), Ops: cfg.OpsAddr}
	p.Go("presence", lease.NewPresence(js, self, p.Health.Ready, 1, p.Logger).Run)
	e.queue = js
	if err := e.openTopology(ctx, p, streams(cfg, server.MaxStore(), p)); err != nil {
		return err
	}
	key, err := project.LoadOrCreateKey(filepath.Join(cfg.DataDir, "secret.key"))
	if err != nil {
		return err
	}
	if e.sender, e.signer, err = webhook.Open(cfg.WebhookAllow, key.Reveal()); err != nil {
		return err
	}
	if e.projects, err = project.Open(ctx, js, project.Config{Defaults: connect.Quotas(cfg.Quotas), Key: key}); err != nil {
		return err
	}
	if e.tokens, err = token.Open(ctx, js, e.projects, 1); err != nil {
		return err
	}
	e.people, err = people.Open(ctx, js, e.projects, 1)
	return err
}

// openTopology opens the ledger and creates missing streams. If the queue's folder was deleted but the
// tables were not, the new streams begin after the last stored sequence.
func (e *engines) openTopology(ctx context.Context, p *telemetry.Process, cfg stream.Config) error {
	var err error
	if e.ledger, err = ledger.Open(ctx, e.queue, 1, p.Logger); err != nil {
		return err
	}
	_, err = e.queue.Stream(ctx, stream.Name(record.KindLog, 0))
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		if err := e.client.Prepare(ctx, p.Logger); err != nil {
			return err
		}
		if err := stream.Continue(ctx, e.queue, cfg, e.client.LastStored, e.ledger); err != nil {
			return err
		}
	}
	e.topology, err = stream.Open(ctx, e.queue, cfg)
	return err
}

// streams divides the store among the streams. A fifth of it is left for dead
// letters, buckets and the server's own data.
func streams(cfg *settings, store int64, p *telemetry.Process) stream.Config {
	shards := cfg.Shards
	if shards == 0 {
		shards = defaultShards
	}
	size := int64(cfg.StreamBytes)
	if size == 0 {
		size = min(maxStreamBytes, store/10*8/int64(2*shards))
	}
	return stream.Config{Shards: cfg.Shards, MaxBytes: size, DeadMaxBytes: min(1<<30, store/20), Logger: p.Logger}
}

// openCaches creates the token cache and the quotas' counters. They are in
// memory, which is enough for one process, unless the settings name a Redis.
func (e *engines) openCaches(p *telemetry.Process, cfg *settings) error {
	if !cfg.RedisURL.IsSet() {
		e.shared, e.limiter = token.NewMemoryShared(), quota.NewMemory(quota.Config{Logger: p.Logger})
		return nil
	}
	client, err := connect.Redis(p, cfg.RedisURL.Reveal())
	if err != nil {
		return err
	}
	e.shared, e.limiter = token.NewRedisShared(client), quota.NewRedis(client, quota.Config{Logger: p.Logger})
	return nil
}
