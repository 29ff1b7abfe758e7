// Package ingest receives records over HTTP: it authenticates the client, decodes
// the body, and answers once the queue has the records on disk.
//
// It stands between the clients and the queue and stores nothing itself. A
// newcomer might answer too early: no 2xx may be sent before Publisher.Publish
// has returned without an error. No answer may contain the client's token or
// payload.
package ingest

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/net/netutil"

	"github.com/logboom/logboom/pkg/config"
	"github.com/logboom/logboom/pkg/decode"
	"github.com/logboom/logboom/pkg/quota"
	"github.com/logboom/logboom/pkg/record"
	"github.com/logboom/logboom/pkg/stream"
	"github.com/logboom/logboom/pkg/telemetry"
	"github.com/logboom/logboom/pkg/token"
)

// Authenticator returns the identity that a token stands for. token.Cache is
// one.
type Authenticator interface {
	Authenticate(ctx context.Context, token string) (token.Identity, error)
}

// Publisher sends a message to the queue and returns when it is on disk there.
// stream.Publisher is one.
type Publisher interface {
	Publish(ctx context.Context, m stream.Message) (stream.Ack, error)
}

// Limiter decides whether a project may send. quota.Limiter is one.
type Limiter interface {
	Check(ctx context.Context, project string, l quota.Limits) error
	Charge(ctx context.Context, project string, l quota.Limits, records int, bytes int64) (quota.Grant, error)
	Refund(g quota.Grant, records int, bytes int64)
}

// Config holds the settings of the server.
type Config struct {
	Limits         decode.Limits
	ContainerBytes int64         // of a body of container logs, as sent and decompressed; 0 means 128 MiB
	BodyMemory     int64         // bytes that all requests in progress may hold together
	MaxConnections int           // open connections; further ones wait to be accepted
	HeaderTimeout  time.Duration // for reading a request's header
	BodyTimeout    time.Duration // for reading a request, header and body
	IdleTimeout    time.Duration // of a kept-alive connection; container clients need at least 75 s
}

// configFrom returns the Config for an operator's settings.
func configFrom(in config.Intake) Config {
	limits := decode.DefaultLimits()
	limits.Body, limits.Decoded = int64(in.BodyBytes), int64(in.DecodedBytes)
	limits.Record, limits.Value = int(in.RecordBytes), int(in.ValueBytes)
	limits.Keys, limits.Key, limits.Depth = in.MetadataKeys, in.KeyBytes, in.JSONDepth
	return Config{
		Limits:         limits,
		ContainerBytes: int64(in.ContainerBytes),
		BodyMemory:     int64(in.BodyMemory),
		MaxConnections: in.MaxConnections,
		HeaderTimeout:  in.HeaderTimeout,
		BodyTimeout:    in.BodyTimeout,
		IdleTimeout:    in.IdleTimeout,
	}
}

// Deps are the parts that the server uses.
type Deps struct {
	Logger     *slog.Logger
	Registry   prometheus.Registerer
	Health     *telemetry.Health
	Auth       Authenticator
	Limiter    Limiter
	Publisher  Publisher
	DeadLetter func(ctx context.Context, letter stream.DeadLetter) error
	DiskFull   func() error // why the queue's disk accepts no more, or nil; a nil func means that no disk is watched
	Now        func() time.Time
}

// Server answers the ingest routes.
type Server struct {
	cfg               Config
	deps              Deps
	metrics           *metrics
	drops             *drops
	budget            *budget
	deadLetterTimeout time.Duration // for all dead letters of a request
	echo              *echo.Echo
}

const (
	// maxHeaderBytes bounds a request's header.
	maxHeaderBytes = 16 << 10
	// drainTimeout is how long requests in progress may take when the process
	// stops.
	drainTimeout = 15 * time.Second
)

// New returns a server with its routes. It starts nothing.
func New(cfg Config, deps Deps) *Server {
	bodies := newBudget(cfg.BodyMemory)
	s := &Server{
		cfg: cfg, deps: deps, echo: echo.New(),
		budget:            bodies,
		deadLetterTimeout: 5 * time.Second,
		metrics:           newMetrics(deps.Registry, bodies),
		drops:             newDrops(deps.Publisher, deps.Logger, deps.Now),
	}
	s.echo.HTTPErrorHandler = s.answerError
	s.echo.IPExtractor = echo.ExtractIPDirect()
	s.echo.Pre(telemetry.NewRequests("ingest", deps.Logger, deps.Registry).Observe)
	s.route("/v1/logs/:project", s.native(record.KindLog))
	s.route("/v1/events/:project", s.native(record.KindEvent))
	s.addHECRoutes()
	s.addOTLPRoute()
	s.echo.GET("/livez", echo.WrapHandler(http.HandlerFunc(deps.Health.Livez)))
	s.echo.GET("/readyz", echo.WrapHandler(http.HandlerFunc(deps.Health.Readyz)))
	return s
}

// ServeHTTP answers one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.echo.ServeHTTP(w, r) }

// CountDrops sends the counts of dropped records to the queue until ctx ends.
func (s *Server) CountDrops(ctx context.Context) error { return s.drops.run(ctx) }

// Run serves the port until ctx ends, then waits up to drainTimeout for the
// requests in progress.
func (s *Server) Run(ctx context.Context, port net.Listener) error {
	server := &http.Server{
		Handler:           s,
		ReadHeaderTimeout: s.cfg.HeaderTimeout,
		ReadTimeout:       s.cfg.BodyTimeout,
		IdleTimeout:       s.cfg.IdleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          slog.NewLogLogger(s.deps.Logger.Handler(), slog.LevelDebug),
	}
	return telemetry.Serve(ctx, server, netutil.LimitListener(port, s.cfg.MaxConnections), drainTimeout)
}

// Connections are the engines that the service uses: clusters in cmd/ingest,
// embedded engines in cmd/standalone.
type Connections struct {
	Topology *stream.Topology
	Tokens   *token.Store
	Shared   token.Shared
	Limiter  quota.Limiter
	DiskFull func() error // as in Deps; nil if the queue's own machine watches its disk
}

// Start creates the service from its settings and connections and adds its parts
// to the process. It returns the address that the service listens on.
func Start(p *telemetry.Process, settings config.Intake, conn Connections) (net.Addr, error) {
	cache := token.NewCache(conn.Tokens, conn.Shared, p.Logger)
	publisher, err := stream.NewPublisher(conn.Topology, stream.PublisherConfig{})
	if err != nil {
		return nil, err
	}
	registerParts(p.Registry, cache, publisher, conn.Limiter)
	listener, err := net.Listen("tcp", settings.IngestAddr)
	if err != nil {
		return nil, fmt.Errorf("--ingest-addr: %w", err)
	}
	server := New(configFrom(settings), Deps{
		Logger: p.Logger, Registry: p.Registry, Health: p.Health, Auth: cache, Limiter: conn.Limiter, Publisher: publisher,
		DeadLetter: conn.Topology.PublishDeadLetter, DiskFull: conn.DiskFull, Now: time.Now,
	})
	p.Logger.Info("ingest port open", "addr", listener.Addr().String())
	p.Health.Add("queue", conn.Topology.Healthy)
	p.Go("token cache", cache.Run)
	p.Go("publisher", publisher.Run)
	p.Go("quotas", conn.Limiter.Run)
	p.Go("counts of dropped records", server.CountDrops)
	p.Go("ingest port", func(ctx context.Context) error { return server.Run(ctx, listener) })
	return listener.Addr(), nil
}
