// Package connect holds what the commands have in common: how a service runs as
// a process, and how its settings become connections to the engines. Each
// connection is closed when the process stops.
package connect

import (
	"context"

	"github.com/nats-io/nats.go/jetstream"
	goredis "github.com/redis/go-redis/v9"

	"github.com/logboom/logboom/pkg/clickhouse"
	"github.com/logboom/logboom/pkg/config"
	"github.com/logboom/logboom/pkg/lease"
	"github.com/logboom/logboom/pkg/project"
	"github.com/logboom/logboom/pkg/redis"
	"github.com/logboom/logboom/pkg/stream"
	"github.com/logboom/logboom/pkg/telemetry"
	"github.com/logboom/logboom/pkg/webhook"
)

// Main logs the settings, calls start, runs the process until it is told to stop
// or a part of it fails, and returns its exit code.
func Main(name string, values *config.Settings, cfg config.Process, start func(context.Context, *telemetry.Process) error) int {
	process := telemetry.Config{Name: name, OpsAddr: cfg.OpsAddr, LogLevel: cfg.LogLevel, LogFormat: cfg.LogFormat, StopTimeout: cfg.StopTimeout}
	return telemetry.Main(process, func(ctx context.Context, p *telemetry.Process) error {
		values.Log(p.Logger)
		return start(ctx, p)
	})
}

// Queue connects to a NATS server and reports the process of the name as present
// there.
func Queue(ctx context.Context, p *telemetry.Process, name, address string, cfg config.Process, replicas int) (jetstream.JetStream, error) {
	nc, js, err := stream.Connect(ctx, address, stream.ConnectConfig{Name: name, Logger: p.Logger})
	if err != nil {
		return nil, err
	}
	p.OnStop("queue connection", func(context.Context) error { nc.Close(); return nil })
	self := lease.Process{Name: name, Version: telemetry.Version(), Ops: cfg.OpsAddr}
	p.Go("presence", lease.NewPresence(js, self, p.Health.Ready, replicas, p.Logger).Run)
	return js, nil
}

// Streams opens the streams of records and creates those that are missing.
func Streams(ctx context.Context, p *telemetry.Process, js jetstream.JetStream, cfg config.Queue) (*stream.Topology, error) {
	return stream.Open(ctx, js, stream.Config{Shards: cfg.Shards, Replicas: cfg.Replicas, MaxBytes: int64(cfg.StreamBytes), Logger: p.Logger})
}

// ClickHouse opens a client. It does not connect.
func ClickHouse(p *telemetry.Process, address, cluster string) (*clickhouse.Client, error) {
	client, err := clickhouse.Open(clickhouse.Config{URL: address, Cluster: cluster})
	if err != nil {
		return nil, err
	}
	p.OnStop("clickhouse connection", func(context.Context) error { return client.Close() })
	return client, nil
}

// Redis opens a client. It does not connect.
func Redis(p *telemetry.Process, address string) (*goredis.Client, error) {
	client, err := redis.Open(address, p.Logger)
	if err != nil {
		return nil, err
	}
	p.OnStop("redis connection", func(context.Context) error { return client.Close() })
	return client, nil
}

// Quotas returns the quotas of projects whose settings name none.
func Quotas(cfg config.Quotas) project.Quotas {
	return project.Quotas{Rate: cfg.QuotaRate, DailyRecords: cfg.QuotaDailyRecords, MonthlyBytes: int64(cfg.QuotaMonthlyBytes)}
}

// Webhooks returns what sends alerts, and what signs those in the generic format.
func Webhooks(allow config.Webhooks, keys config.Keys) (*webhook.Sender, *webhook.Signer, error) {
	signing := []string{keys.SecretKey.Reveal()}
	for _, old := range keys.OldSecretKeys {
		signing = append(signing, old.Reveal())
	}
	return webhook.Open(allow.WebhookAllow, signing...)
}
