package admin

import (
	"context"
	"net/http"
	"reflect"
	"time"

	"github.com/logboom/logboom/pkg/clickhouse"
	"github.com/logboom/logboom/pkg/query"

	"github.com/logboom/logboom/pkg/record"
)

// Explorer answers what is asked around lists of logs; clickhouse.Client does.
type Explorer interface {
	Histogram(ctx context.Context, q clickhouse.HistogramQuery) (clickhouse.Histogram, error)
	Facets(ctx context.Context, q clickhouse.FacetQuery) (clickhouse.Facets, error)
	Context(ctx context.Context, q clickhouse.ContextQuery) (clickhouse.LogContext, error)
	Tail(ctx context.Context, project string, now time.Time) (clickhouse.TailMark, error)
	Follow(ctx context.Context, project string, filter query.Query, m clickhouse.TailMark, limit int, now time.Time) (clickhouse.Tailed, error)
}

// recordRoutes are the routes that read logs and events.
func (s *Server) recordRoutes() []route {
	search := []string{"q", "from", "to", "limit", "cursor"}
	bad := []int{http.StatusBadRequest}
	return []route{
		{
			method: http.MethodGet, path: "/projects/:project/logs", access: member, handle: s.logs,
			summary: "Read logs, newest first.", query: search,
			status: http.StatusOK, answer: reflect.TypeFor[clickhouse.LogPage](), refuses: bad,
		},
		{
			method: http.MethodGet, path: "/projects/:project/events", access: member, handle: s.events,
			summary: "Read events, newest first.", query: search,
			status: http.StatusOK, answer: reflect.TypeFor[clickhouse.EventPage](), refuses: bad,
		},
		{
			method: http.MethodGet, path: "/projects/:project/histogram", access: member, handle: s.histogram,
			summary: "Count logs by time and severity; without from, of the last day.", query: []string{"q", "from", "to", "buckets"},
			status: http.StatusOK, answer: reflect.TypeFor[clickhouse.Histogram](), refuses: bad,
		},
		{
			method: http.MethodGet, path: "/projects/:project/facets", access: member, handle: s.facets,
			summary: "Count the most frequent values of logs, exactly.", query: []string{"q", "from", "to"},
			status: http.StatusOK, answer: reflect.TypeFor[clickhouse.Facets](), refuses: bad,
		},
		{
			method: http.MethodGet, path: "/projects/:project/logs/:id/context", access: member, handle: s.logContext,
			summary: "Show a log and what its application wrote on its host before and after it.", query: []string{"before", "after"},
			status: http.StatusOK, answer: reflect.TypeFor[clickhouse.LogContext](), refuses: bad,
		},
		{
			method: http.MethodGet, path: "/projects/:project/logs/export", access: member, handle: s.export,
			summary: "Read logs as one stream, newest first, at most a million.", query: []string{"q", "from", "to", "format"},
			status: http.StatusOK, media: []string{mediaNDJSON, mediaCSV}, refuses: bad,
		},
		{
			method: http.MethodGet, path: "/projects/:project/tail", access: member, handle: s.tail,
			summary: "Follow logs as they are stored: server-sent events log, dropped and problem. Last-Event-ID takes it up again.", query: []string{"q"},
			status: http.StatusOK, media: []string{mediaEvents}, refuses: bad,
		},
	}
}

// Of a histogram that names no begin, or no number of buckets.
const (
	usualHistogram = 24 * time.Hour
	usualBuckets   = 60
)

// histogram counts a project's logs by time and severity.
func (s *Server) histogram(r *request) error {
	q := clickhouse.HistogramQuery{Project: r.project.ID}
	var err error
	if q.Filter, q.From, q.To, err = readFilter(r, record.KindLog); err != nil {
		return err
	}
	if q.Buckets, err = readNumber(r, "buckets", usualBuckets, 1, clickhouse.MaxBuckets); err != nil {
		return err
	}
	if q.To.IsZero() {
		q.To = time.Now().UTC()
	}
	if q.From.IsZero() {
		q.From = q.To.Add(-usualHistogram)
	}
	ctx, cancel := context.WithTimeout(r.Request().Context(), s.cfg.QueryTimeout)
	defer cancel()
	answer, err := s.deps.Reader.Histogram(ctx, q)
	if err != nil {
		return err
	}
	return r.JSON(http.StatusOK, answer)
}

// facets counts what a project's logs are made of.
func (s *Server) facets(r *request) error {
	q := clickhouse.FacetQuery{Project: r.project.ID}
	var err error
	if q.Filter, q.From, q.To, err = readFilter(r, record.KindLog); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(r.Request().Context(), s.cfg.QueryTimeout)
	defer cancel()
	answer, err := s.deps.Reader.Facets(ctx, q)
	if err != nil {
		return err
	}
	return r.JSON(http.StatusOK, answer)
}

// usualContext is how many logs are shown on either side of one.
const usualContext = 20

// logContext shows what stood around a log. An id that is none is not found,
// as one of another project.
func (s *Server) logContext(r *request) error {
	q := clickhouse.ContextQuery{Project: r.project.ID}
	var err error
	if q.Before, err = readNumber(r, "before", usualContext, 0, clickhouse.MaxContext); err != nil {
		return err
	}
	if q.After, err = readNumber(r, "after", usualContext, 0, clickhouse.MaxContext); err != nil {
		return err
	}
	if q.ID, err = record.ParseRowID(r.Param("id")); err != nil {
		return clickhouse.ErrNoLog
	}
	ctx, cancel := context.WithTimeout(r.Request().Context(), s.cfg.QueryTimeout)
	defer cancel()
	answer, err := s.deps.Reader.Context(ctx, q)
	if err != nil {
		return err
	}
	return r.JSON(http.StatusOK, answer)
}
