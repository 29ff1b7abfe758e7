package admin

import (
	"context"
	"net/http"
	"time"

	"github.com/logboom/logboom/pkg/clickhouse"
	"github.com/logboom/logboom/pkg/quota"
)

// Bounds of a question for usage. Older usage is not kept.
const (
	usualUsage   = 7 * 24 * time.Hour
	longestUsage = 400 * 24 * time.Hour
)

// Measures of the usage table.
const (
	measureLogs    = "logs"
	measureEvents  = "events"
	measureDropped = "dropped"
)

// usageAmount is records and their size.
type usageAmount struct {
	Records uint64 `json:"records"`
	Bytes   uint64 `json:"bytes"` // of their text, as the monthly quota counts it
}

// usageCount is what became of the records of some time, in records.
//
// The writer counts logs and events with their insert, so each is in here once;
// Stored is their sum. Dropped is what was not stored, by reason. The reasons
// that are names of quotas say that ingest refused records, which nobody was
// promised; a request that is refused before its body is read counts as one.
// The other reasons are the writer's: what was accepted and became a dead
// letter. So Accepted is Stored and the latter. Accepted and Stored run behind
// ingest's answers by what the queue still holds.
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

// usageAnswer is a project's usage. Hours in which nothing came are left out.
type usageAnswer struct {
	From   time.Time   `json:"from"` // the full hours that are counted
	To     time.Time   `json:"to"`
	Hours  []usageHour `json:"hours"`
	Totals usageCount  `json:"totals"`
}

func (s *Server) usage(r *request) error {
	from, to, err := usageTime(r)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(r.Request().Context(), s.cfg.QueryTimeout)
	defer cancel()
	rows, err := s.deps.Reader.Usage(ctx, r.project.ID, from, to)
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

// usageTime is the time asked for, widened to full hours.
func usageTime(r *request) (from, to time.Time, err error) {
	if from, to, err = between(r); err != nil {
		return from, to, err
	}
	if to.IsZero() {
		to = time.Now().UTC()
	}
	if from.IsZero() {
		from = to.Add(-usualUsage)
	}
	from, to = from.Truncate(time.Hour), to.Add(time.Hour-1).Truncate(time.Hour)
	if to.Sub(from) > longestUsage+time.Hour {
		return from, to, &fieldError{"from", "more than 400 days before to"}
	}
	return from, to, nil
}

func newUsageCount() usageCount { return usageCount{Dropped: map[string]uint64{}} }

func (u *usageCount) add(row clickhouse.UsageHour) {
	switch row.Measure {
	case measureLogs:
		u.Logs.add(row)
	case measureEvents:
		u.Events.add(row)
	case measureDropped:
		u.Dropped[row.Reason] += row.Records
	}
	u.Stored = u.Logs.Records + u.Events.Records
	u.Accepted = u.Stored
	for reason, records := range u.Dropped {
		if !refused(reason) {
			u.Accepted += records
		}
	}
}

// refused tells whether records dropped for the reason never were accepted.
func refused(reason string) bool {
	switch quota.Name(reason) {
	case quota.Rate, quota.DailyRecords, quota.MonthlyBytes, "quota": // the last: ingest could not tell which
		return true
	}
	return false
}

func (a *usageAmount) add(row clickhouse.UsageHour) {
	a.Records += row.Records
	a.Bytes += row.Bytes
}
