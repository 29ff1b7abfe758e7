// Package admin is the application layer of the admin service: every read and
// every change that people and scripts may ask for, written once.
//
// It sits under the JSON API (pkg/admin/api) and the pages (pkg/admin/web).
// Both only translate: they read a request, call this package and write the
// answer. A change is recorded in the audit trail here, and has its effects on
// caches and counters here.
//
//	request ──▶ api or web ──▶ Authorize ──▶ a method of Service ──▶ stores, ClickHouse, queue
//
// What a newcomer would get wrong: the project of every read and change comes
// from Authorize, never from a parameter alone, so that no query text, cursor
// or ID reaches another project's rows.
package admin

import (
	"context"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/logboom/logboom/pkg/people"
	"github.com/logboom/logboom/pkg/project"
	"github.com/logboom/logboom/pkg/quota"
	"github.com/logboom/logboom/pkg/token"
	"github.com/logboom/logboom/pkg/webhook"
)

// Config is for operators.
type Config struct {
	QueryTimeout  time.Duration // of one query to ClickHouse
	ChangeTimeout time.Duration // of one change, whether or not the client stays connected
}

// DefaultConfig returns the timeouts that suit people and scripts.
func DefaultConfig() Config {
	return Config{QueryTimeout: 30 * time.Second, ChangeTimeout: 15 * time.Second}
}

// Deps is what the service works with. All fields are required, except OIDC.
type Deps struct {
	Logger   *slog.Logger
	Registry prometheus.Registerer

	Projects *project.Store
	Tokens   *token.Store
	People   *people.Store
	Sessions *people.Sessions
	Gate     *people.Gate
	OIDC     *people.OIDC // nil: there is no company sign-in
	Views    *Views
	Trail    *Trail

	Reader    Reader
	Eraser    Eraser
	Deletions *Deletions

	Counters quota.Limiter
	Defaults project.Quotas // of projects that set none

	Queue      jetstream.JetStream
	Letters    Letters
	Webhooks   *webhook.Sender // sends test messages
	Signatures *webhook.Signer // has the secrets of messages in the generic format
}

// Service carries out what callers ask for. It may be used by any number of
// goroutines.
type Service struct {
	cfg  Config
	deps Deps

	cleanup  *cleanup
	counters *counterRepair
	tails    *tails
}

// New returns a service; it starts nothing.
func New(cfg Config, deps Deps) *Service {
	return &Service{cfg: cfg, deps: deps, cleanup: newCleanup(deps), counters: newCounterRepair(deps), tails: newTails()}
}

// Run erases the rows of deleted projects and restores lost quota counters,
// until ctx ends.
func (s *Service) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return s.cleanup.run(ctx) })
	group.Go(func() error { return s.counters.run(ctx) })
	return group.Wait()
}

// querying returns the context of a query to ClickHouse.
func (s *Service) querying(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, s.cfg.QueryTimeout)
}

// changing returns the context of a change. It outlives the request: a client
// that disconnects must not leave half of a change, or one that is not in the
// audit trail.
func (s *Service) changing(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), s.cfg.ChangeTimeout)
}
