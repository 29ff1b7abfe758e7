package api

import (
	"context"
	"net/http"
	"time"

	"github.com/logboom/logboom/pkg/admin"
	"github.com/logboom/logboom/pkg/clickhouse"
	"github.com/logboom/logboom/pkg/project"
	"github.com/logboom/logboom/pkg/quota"
	"github.com/logboom/logboom/pkg/record"
)

// answer writes what the read returns for the query in the request's project.
func answer[Q, A any](r *request, q Q, read func(context.Context, project.Project, Q) (A, error)) error {
	found, err := read(r.Request().Context(), r.project, q)
	if err != nil {
		return err
	}
	return r.JSON(http.StatusOK, found)
}

// logs answers a page of a project's logs, newest first.
func (a *API) logs(r *request) error {
	var q clickhouse.LogQuery
	var err error
	if q.Limit, q.Cursor, err = readPage(r); err != nil {
		return err
	}
	if q.Filter, q.From, q.To, err = readFilter(r, record.KindLog); err != nil {
		return err
	}
	return answer(r, q, a.service.Logs)
}

// events answers a page of a project's events, newest first.
func (a *API) events(r *request) error {
	var q clickhouse.EventQuery
	var err error
	if q.Limit, q.Cursor, err = readPage(r); err != nil {
		return err
	}
	if q.Filter, q.From, q.To, err = readFilter(r, record.KindEvent); err != nil {
		return err
	}
	return answer(r, q, a.service.Events)
}

// The defaults of a histogram.
const (
	defaultHistogram = 24 * time.Hour
	defaultBuckets   = 60
)

// histogram counts a project's logs by time and severity.
func (a *API) histogram(r *request) error {
	var q clickhouse.HistogramQuery
	var err error
	if q.Filter, q.From, q.To, err = readFilter(r, record.KindLog); err != nil {
		return err
	}
	if q.Buckets, err = readNumber(r, "buckets", defaultBuckets, 1, clickhouse.MaxBuckets); err != nil {
		return err
	}
	if q.To.IsZero() {
		q.To = time.Now().UTC()
	}
	if q.From.IsZero() {
		q.From = q.To.Add(-defaultHistogram)
	}
	return answer(r, q, a.service.Histogram)
}

// facets counts the most frequent values of a project's logs.
func (a *API) facets(r *request) error {
	var q clickhouse.FacetQuery
	var err error
	if q.Filter, q.From, q.To, err = readFilter(r, record.KindLog); err != nil {
		return err
	}
	return answer(r, q, a.service.Facets)
}

// tail sends a project's logs as they are stored.
func (a *API) tail(r *request) error {
	filter, _, _, err := readFilter(r, record.KindLog)
	if err != nil {
		return err
	}
	return a.service.Tail(r.Response(), r.Request(), r.project, filter, admin.TailFormat{
		Log: func(l clickhouse.StoredLog) ([]byte, error) { return lineOf(l) },
		Problem: func(err error) ([]byte, error) {
			p := problemOf(err)
			return lineOf(map[string]string{"code": p.Code, "detail": p.Detail})
		},
	})
}

// defaultContext is how many logs are shown before and after one.
const defaultContext = 20

// logContext answers a log with those before and after it. A malformed ID is
// not found, like an ID of another project.
func (a *API) logContext(r *request) error {
	var q clickhouse.ContextQuery
	var err error
	if q.Before, err = readNumber(r, "before", defaultContext, 0, clickhouse.MaxContext); err != nil {
		return err
	}
	if q.After, err = readNumber(r, "after", defaultContext, 0, clickhouse.MaxContext); err != nil {
		return err
	}
	if q.ID, err = record.ParseRowID(r.Param("id")); err != nil {
		return clickhouse.ErrNoLog
	}
	return answer(r, q, a.service.Context)
}

// Bounds of the time that usage is counted for. Older usage is not stored.
const (
	defaultUsage = 7 * 24 * time.Hour
	longestUsage = 400 * 24 * time.Hour
)

// usageAmount is records and their size.
type usageAmount struct {
	Records uint64 `json:"records"`
	Bytes   uint64 `json:"bytes"` // of their text, as the monthly quota counts it
}

// usageCount is what happened to the records of some time, in records.
//
// The writer counts logs and events with their insert, so that each counts
// once; Stored is their sum. Dropped is what was not stored, by reason. If the
// reason is the name of a quota, ingest refused the records and never accepted
// them; a request that is refused before its body is read counts as one record.
// All other reasons are the writer's: the records were accepted and became dead
// letters. So Accepted is Stored and the latter. Accepted and Stored are behind
// ingest's answers by what is still in the queue.
type usageCount struct {
	Accepted uint64            `json:"accepted"`
	Stored   uint64            `json:"stored"`
	Dropped  map[string]uint64 `json:"dropped"`
	Logs     usageAmount       `json:"logs"`
	Events   usageAmount       `json:"events"`
}

// usageHour is the count of one hour, by the time of receipt.
type usageHour struct {
	Hour time.Time `json:"hour"`
	usageCount
}

// usageAnswer is a project's usage, without hours in which nothing was received.
type usageAnswer struct {
	From   time.Time   `json:"from"` // the full hours that are counted
	To     time.Time   `json:"to"`
	Hours  []usageHour `json:"hours"`
	Totals usageCount  `json:"totals"`
}

func (a *API) usage(r *request) error {
	from, to, err := readTimes(r)
	if err != nil {
		return err
	}
	if to.IsZero() {
		to = time.Now().UTC()
	}
	if from.IsZero() {
		from = to.Add(-defaultUsage)
	}
	from, to = from.Truncate(time.Hour), to.Add(time.Hour-1).Truncate(time.Hour)
	if to.Sub(from) > longestUsage+time.Hour {
		return &fieldError{"from", "more than 400 days before to"}
	}
	rows, err := a.service.Usage(r.Request().Context(), r.project, from, to)
	if err != nil {
		return err
	}
	answer := usageAnswer{From: from, To: to, Hours: []usageHour{}, Totals: newUsageCount()}
	for _, row := range rows { // sorted by hour
		if n := len(answer.Hours); n == 0 || !answer.Hours[n-1].Hour.Equal(row.Hour) {
			answer.Hours = append(answer.Hours, usageHour{row.Hour.UTC(), newUsageCount()})
		}
		answer.Hours[len(answer.Hours)-1].add(row)
		answer.Totals.add(row)
	}
	return r.JSON(http.StatusOK, answer)
}

func newUsageCount() usageCount { return usageCount{Dropped: map[string]uint64{}} }

func (u *usageCount) add(row clickhouse.UsageHour) {
	switch row.Measure {
	case "logs":
		u.Logs.add(row)
	case "events":
		u.Events.add(row)
	case "dropped":
		u.Dropped[row.Reason] += row.Records
	}
	u.Stored = u.Logs.Records + u.Events.Records
	u.Accepted = u.Stored
	for reason, records := range u.Dropped {
		if !isQuota(reason) {
			u.Accepted += records
		}
	}
}

// isQuota reports whether records that were dropped for the reason were refused
// for a quota, so that they were never accepted.
func isQuota(reason string) bool {
	switch quota.Name(reason) {
	case quota.Rate, quota.DailyRecords, quota.MonthlyBytes, "quota": // the last: ingest did not know which
		return true
	}
	return false
}

func (a *usageAmount) add(row clickhouse.UsageHour) {
	a.Records += row.Records
	a.Bytes += row.Bytes
}
