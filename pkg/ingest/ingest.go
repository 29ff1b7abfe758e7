// Package ingest is the HTTP front: it takes records in, asks who sends them,
// decodes them, and answers once the queue has them on disk.
//
// It sits between senders and the queue; nothing is kept here. What a newcomer
// would get wrong: no 2xx may be sent before Publisher.Publish has returned
// without an error, and no error may be answered with the sender's token or
// payload in it.
package ingest

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/net/netutil"

	"github.com/logboom/logboom/pkg/config"
	"github.com/logboom/logboom/pkg/decode"
	"github.com/logboom/logboom/pkg/project"
	"github.com/logboom/logboom/pkg/quota"
	"github.com/logboom/logboom/pkg/record"
	"github.com/logboom/logboom/pkg/stream"
	"github.com/logboom/logboom/pkg/telemetry"
)

// Authenticator knows whose token it is; project.Cache does.
type Authenticator interface {
	Authenticate(ctx context.Context, token string) (project.Identity, error)
}

// Publisher puts a message on the queue and returns when it is on disk there;
// stream.Publisher does.
type Publisher interface {
	Publish(ctx context.Context, m stream.Message) (stream.Ack, error)
}

// Limiter says whether a project may send; quota.Limiter does.
type Limiter interface {
	Check(ctx context.Context, project string, l quota.Limits) error
	Charge(ctx context.Context, project string, l quota.Limits, records int, bytes int64) (quota.Grant, error)
	Refund(g quota.Grant, records int, bytes int64)
}

// Config is for operators.
type Config struct {
	Limits         decode.Limits
	ContainerBytes int64         // of a body of container logs, as sent and decompressed; 0 is 128 MiB
	BodyMemory     int64         // bytes that all bodies under way may hold together
	MaxConnections int           // open connections; further ones wait to be accepted
	HeaderTimeout  time.Duration // to read a request's head
	BodyTimeout    time.Duration // to read a request, head and body
	IdleTimeout    time.Duration // of a kept-alive connection; container senders need 75 s or more
}

// drainTimeout is for requests under way when the process stops.
const drainTimeout = 15 * time.Second

// FromSettings takes an operator's bounds.
func FromSettings(in config.Intake) Config {
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

// Deps is what the server works with.
type Deps struct {
	Logger    *slog.Logger
	Registry  prometheus.Registerer
	Health    *telemetry.Health
	Auth      Authenticator
	Limiter   Limiter
	Publisher Publisher
	Letters   Burier
	DiskFull  func() error // why the queue's disk takes no more, or nil; a nil func means that no disk is watched
	Now       func() time.Time
}

// Server answers the ingest routes.
type Server struct {
	cfg     Config
	deps    Deps
	metrics *metrics
	drops   *drops
	budget  *budget
	burial  time.Duration // for the letters of a request: buryTimeout, except in tests
	echo    *echo.Echo
}

// maxHeaderBytes bounds a request's head.
const maxHeaderBytes = 16 << 10

// New lays the routes; it starts nothing.
func New(cfg Config, deps Deps) *Server {
	bodies := newBudget(cfg.BodyMemory)
	s := &Server{
		cfg: cfg, deps: deps, echo: echo.New(),
		budget:  bodies,
		burial:  buryTimeout,
		metrics: newMetrics(deps.Registry, bodies),
		drops:   newDrops(deps.Publisher, deps.Logger, deps.Now),
	}
	s.echo.HTTPErrorHandler = s.answerError
	s.echo.IPExtractor = echo.ExtractIPDirect()
	s.echo.Pre(telemetry.NewRequests("ingest", deps.Logger, deps.Registry).Observe)
	s.serve("/v1/logs/:project", s.native(record.KindLog))
	s.serve("/v1/events/:project", s.native(record.KindEvent))
	s.layHEC()
	s.layOTLP()
	s.echo.GET("/livez", echo.WrapHandler(http.HandlerFunc(deps.Health.Livez)))
	s.echo.GET("/readyz", echo.WrapHandler(http.HandlerFunc(deps.Health.Readyz)))
	return s
}

// ServeHTTP answers one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.echo.ServeHTTP(w, r) }

// CountDrops sends the counts of refused records to the queue until ctx ends.
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
