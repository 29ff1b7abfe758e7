package admin

import (
	"context"
	"time"

	"github.com/logboom/logboom/pkg/clickhouse"
	"github.com/logboom/logboom/pkg/project"
	"github.com/logboom/logboom/pkg/query"
)

// Reader reads what is stored; clickhouse.Client implements it.
type Reader interface {
	Logs(ctx context.Context, q clickhouse.LogQuery) (clickhouse.LogPage, error)
	Events(ctx context.Context, q clickhouse.EventQuery) (clickhouse.EventPage, error)
	Histogram(ctx context.Context, q clickhouse.HistogramQuery) (clickhouse.Histogram, error)
	Facets(ctx context.Context, q clickhouse.FacetQuery) (clickhouse.Facets, error)
	Context(ctx context.Context, q clickhouse.ContextQuery) (clickhouse.LogContext, error)
	Tail(ctx context.Context, project string, now time.Time) (clickhouse.TailMark, error)
	Follow(ctx context.Context, project string, filter query.Query, m clickhouse.TailMark, limit int, now time.Time) (clickhouse.Tailed, error)
	Usage(ctx context.Context, project string, from, to time.Time) ([]clickhouse.UsageHour, error)
	Deliveries(ctx context.Context, q clickhouse.DeliveryQuery) (clickhouse.DeliveryPage, error)
	DeliverySteps(ctx context.Context, project, id string) ([]clickhouse.DeliveryStep, error)

	// Of the whole installation.
	TableSizes(ctx context.Context) ([]clickhouse.TableSize, error)
	BatchesSince(ctx context.Context, since time.Time) (clickhouse.Batches, error)
	ProjectSizes(ctx context.Context, since time.Time) ([]clickhouse.ProjectSize, error)
	Destinations(ctx context.Context, since time.Time) ([]clickhouse.DestinationState, error)
}

// read bounds the time of a query.
func read[Q, A any](ctx context.Context, s *Service, q Q, run func(context.Context, Q) (A, error)) (A, error) {
	ctx, cancel := s.querying(ctx)
	defer cancel()
	return run(ctx, q)
}

// Logs returns a page of the project's logs, newest first. The project of the
// query is the one given, as in the reads that follow.
func (s *Service) Logs(ctx context.Context, found project.Project, q clickhouse.LogQuery) (clickhouse.LogPage, error) {
	q.Project = found.ID
	return read(ctx, s, q, s.deps.Reader.Logs)
}

// Events returns a page of the project's events, newest first.
func (s *Service) Events(ctx context.Context, found project.Project, q clickhouse.EventQuery) (clickhouse.EventPage, error) {
	q.Project = found.ID
	return read(ctx, s, q, s.deps.Reader.Events)
}

// Histogram counts the project's logs by time and severity.
func (s *Service) Histogram(ctx context.Context, found project.Project, q clickhouse.HistogramQuery) (clickhouse.Histogram, error) {
	q.Project = found.ID
	return read(ctx, s, q, s.deps.Reader.Histogram)
}

// Facets counts the most frequent values of the project's logs.
func (s *Service) Facets(ctx context.Context, found project.Project, q clickhouse.FacetQuery) (clickhouse.Facets, error) {
	q.Project = found.ID
	return read(ctx, s, q, s.deps.Reader.Facets)
}

// Context returns a log with the logs before and after it. The error is
// clickhouse.ErrNoLog where the project has no such log.
func (s *Service) Context(ctx context.Context, found project.Project, q clickhouse.ContextQuery) (clickhouse.LogContext, error) {
	q.Project = found.ID
	return read(ctx, s, q, s.deps.Reader.Context)
}

// Usage returns what the project stored and lost in each full hour of the time,
// oldest first.
func (s *Service) Usage(ctx context.Context, found project.Project, from, to time.Time) ([]clickhouse.UsageHour, error) {
	ctx, cancel := s.querying(ctx)
	defer cancel()
	return s.deps.Reader.Usage(ctx, found.ID, from, to)
}
