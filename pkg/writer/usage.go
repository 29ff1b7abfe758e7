package writer

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/logboom/logboom/pkg/clickhouse"
	"github.com/logboom/logboom/pkg/stream"
)

const (
	// measureDropped is the usage table's word for records that were refused.
	measureDropped = "dropped"
	// measureBatches is its word for batches, which are nobody's: their rows
	// have no project.
	measureBatches = "batches"
)

// usageKey is what usage is rolled up by.
type usageKey struct {
	project string
	hour    int64 // Unix seconds of its begin
	measure string
	reason  string
}

// usage is what some messages brought each project, by hour of receipt.
type usage map[usageKey]tally

type tally struct {
	records, bytes uint64
}

func (u usage) count(key usageKey, records, bytes uint64) {
	t, there := u[key]
	if !there {
		key.project, key.reason = strings.Clone(key.project), strings.Clone(key.reason) // the section's text is borrowed
	}
	u[key] = tally{t.records + records, t.bytes + bytes}
}

// of is what the batch in hand, whose intent that is, adds to the table. One
// that became dead letters was dropped for its reason.
func (u usage) of(in *stream.Intent) usage {
	switch {
	case len(u) == 0:
		return nil
	case in.Dead == "":
		u.count(usageKey{hour: hour(in.ReceivedMax), measure: measureBatches}, 1, 0)
		return u
	}
	dropped := usage{}
	for key, t := range u {
		if key.measure != measureDropped {
			key.measure, key.reason = measureDropped, in.Dead
		}
		dropped.count(key, t.records, t.bytes)
	}
	return dropped
}

// sums is what the usage table has of a stream: all that the stream has brought,
// up to a message, in each hour that this writer has in mind.
type sums struct {
	hours map[int64]map[usageKey]sum
	fresh int64 // from this hour on the table has nothing
}

type sum struct {
	tally
	seq uint64 // of the last batch that is in it
}

// freshAfter is how far ahead of the clock no other writer can have counted
// anything: an hour for what the hour holds, and one for clocks that differ.
const freshAfter = 2 * time.Hour

// newSums has nothing in mind; the stream was taken over at that time.
func newSums(taken time.Time) sums {
	return sums{hours: map[int64]map[usageKey]sum{}, fresh: hour(taken.Add(freshAfter).UnixNano())}
}

// recall reads the hours of what is to be added that are not in mind. The
// stream must have been taken over: another writer's rows that come later are of
// batches that this one has seen.
func (s *sums) recall(ctx context.Context, sink Sink, name string, added usage) error {
	for key := range added {
		if s.hours[key.hour] != nil {
			continue
		}
		known := map[usageKey]sum{}
		if key.hour < s.fresh {
			rows, err := sink.UsageOf(ctx, name, time.Unix(key.hour, 0).UTC())
			if err != nil {
				return err
			}
			for _, r := range rows {
				known[usageKey{r.Project, key.hour, r.Measure, r.Reason}] = sum{tally{r.Records, r.Bytes}, r.Seq}
			}
		}
		s.hours[key.hour], s.fresh = known, max(s.fresh, key.hour+int64(time.Hour/time.Second))
	}
	return nil
}

// add adds what the batch that ends with a message brought, and gives the rows
// that tell so. What the batch is in already, since it was stored by a writer
// who could not commit it, stays as it is.
func (s *sums) add(name string, to uint64, added usage) []clickhouse.UsageRow {
	rows := make([]clickhouse.UsageRow, 0, len(added))
	for key, t := range added {
		have := s.hours[key.hour][key]
		if have.seq >= to {
			continue
		}
		have = sum{tally{have.records + t.records, have.bytes + t.bytes}, to}
		s.hours[key.hour][key] = have
		rows = append(rows, have.row(name, key))
	}
	return sortUsage(rows)
}

func (s sum) row(name string, key usageKey) clickhouse.UsageRow {
	return clickhouse.UsageRow{
		Project: key.project,
		Hour:    time.Unix(key.hour, 0).UTC(),
		Measure: key.measure,
		Reason:  key.reason,
		Records: s.records,
		Bytes:   s.bytes,
		Stream:  name,
		Seq:     s.seq,
	}
}

// sortUsage puts the rows in the table's order.
func sortUsage(rows []clickhouse.UsageRow) []clickhouse.UsageRow {
	slices.SortFunc(rows, func(a, b clickhouse.UsageRow) int {
		return cmp.Or(cmp.Compare(a.Project, b.Project), a.Hour.Compare(b.Hour), cmp.Compare(a.Measure, b.Measure), cmp.Compare(a.Reason, b.Reason))
	})
	return rows
}

// usageHours is how many hours are kept in mind: records that were refused may
// be told of in the next one. Others are looked up again.
const usageHours = 2

// forget lets go of the hours that are over.
func (s *sums) forget() {
	for len(s.hours) > usageHours {
		delete(s.hours, slices.Min(slices.Collect(maps.Keys(s.hours))))
	}
}

// storeUsage inserts what the stream has brought each project of the batch in
// hand. Its rows replace those of before and themselves, so nothing is counted:
// each try has a token of its own, and one must be answered with ok.
func (s *settlement) storeUsage(ctx context.Context) error {
	in := s.position.Intent
	added := s.rows.usage.of(in)
	var rows []clickhouse.UsageRow
	for try := 1; len(added) > 0; try++ {
		err := s.sums.recall(ctx, s.deps.Sink, s.stream, added)
		if err == nil {
			if rows == nil {
				rows = s.sums.add(s.stream, in.To, added)
			}
			err = s.deps.Sink.InsertUsage(ctx, fmt.Sprintf("%s-u%d.%d", tokenOf(s.stream, in), s.position.Epoch, try), rows)
		}
		if err == nil {
			s.sums.forget()
			return nil
		}
		s.metrics.failures.WithLabelValues(s.stream, "usage").Inc()
		s.deps.Logger.Warn("usage not stored", "stream", s.stream, "seq", in.To, "rows", len(rows), "attempt", try, "err", err)
		if err := s.pause(ctx, s.waits.NextBackOff()); err != nil {
			return err
		}
	}
	return nil
}

func hour(nanoseconds int64) int64 {
	seconds := nanoseconds / int64(time.Second)
	return seconds - seconds%3600
}
