package ingest

import (
	"context"
	"fmt"
	"net"
	"time"

	"github.com/logboom/logboom/pkg/config"
	"github.com/logboom/logboom/pkg/project"
	"github.com/logboom/logboom/pkg/quota"
	"github.com/logboom/logboom/pkg/stream"
	"github.com/logboom/logboom/pkg/telemetry"
)

// Connections are the engines that the service works over: real clusters in
// cmd/ingest, embedded ones in cmd/standalone.
type Connections struct {
	Topology *stream.Topology
	Store    *project.Store
	Shared   project.Shared
	Limiter  quota.Limiter
	DiskFull func() error // why the queue's disk takes no more, or nil; nil where the queue watches its own disk
}

// Start composes the service from its settings and connections and adds its
// parts to the process. The address is where it listens.
func Start(p *telemetry.Process, settings config.Intake, conn Connections) (net.Addr, error) {
	cache, err := project.NewCache(conn.Store, conn.Shared, project.CacheConfig{Logger: p.Logger})
	if err != nil {
		return nil, err
	}
	publisher, err := stream.NewPublisher(conn.Topology, stream.PublisherConfig{})
	if err != nil {
		return nil, err
	}
	watchParts(p.Registry, cache, publisher, conn.Limiter)
	listener, err := net.Listen("tcp", settings.IngestAddr)
	if err != nil {
		return nil, fmt.Errorf("--ingest-addr: %w", err)
	}
	server := New(FromSettings(settings), Deps{
		Logger: p.Logger, Registry: p.Registry, Health: p.Health, Auth: cache, Limiter: conn.Limiter, Publisher: publisher,
		Letters: conn.Topology, DiskFull: conn.DiskFull, Now: time.Now,
	})
	p.Logger.Info("ingest port open", "addr", listener.Addr().String())
	p.Health.Add("queue", conn.Topology.Healthy)
	p.Go("token cache", cache.Run)
	p.Go("publisher", publisher.Run)
	p.Go("quotas", conn.Limiter.Run)
	p.Go("counts of refused records", server.CountDrops)
	p.Go("intake", func(ctx context.Context) error { return server.Run(ctx, listener) })
	return listener.Addr(), nil
}
