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
	"github.com/logboom/logboom/pkg/ledger"
)

const (
	// measureDropped is the usage table's word for refused records.
	measureDropped = "dropped"
	// measureBatches is its word for batches. They belong to no project.
	measureBatches = "batches"
)

// usageKey is what usage is summed up by.
type usageKey struct {
	project string
	hour    int64 // its start, Unix seconds
	measure string
	reason  string
}

// usage is what each project sent with some messages, by hour of receipt.
type usage map[usageKey]tally

type tally struct {
	records, bytes uint64
}

func (u usage) add(key usageKey, records, bytes uint64) {
	t, ok := u[key]
	if !ok {
		key.project, key.reason = strings.Clone(key.project), strings.Clone(key.reason) // the section's text is borrowed
	}
	u[key] = tally{t.records + records, t.bytes + bytes}
}

// of returns what the batch with that intent adds to the table. The records of
// a batch that became dead letters are dropped for its reason.
func (u usage) of(in *ledger.Intent) usage {
	switch {
	case len(u) == 0:
		return nil
	case in.Dead == "":
		u.add(usageKey{hour: hour(in.ReceivedMax), measure: measureBatches}, 1, 0)
		return u
	}
	dropped := usage{}
	for key, t := range u {
		if key.measure != measureDropped {
			key.measure, key.reason = measureDropped, in.Dead
		}
		dropped.add(key, t.records, t.bytes)
	}
	return dropped
}

// sums is what the usage table has of a stream: everything that the stream has
// brought, up to a message, in each of the hours that this writer has loaded.
type sums struct {
	hours map[int64]map[usageKey]sum
	fresh int64 // from this hour on the table has nothing
}

type sum struct {
	tally
	seq uint64 // of the last batch that is in it
}

// freshAfter is how far ahead of the clock no other writer can have counted
// anything: one hour for the hour itself, and one for clocks that differ.
const freshAfter = 2 * time.Hour

// newSums returns empty sums of a stream that was taken over at that time.
func newSums(takenOver time.Time) sums {
	return sums{hours: map[int64]map[usageKey]sum{}, fresh: hour(takenOver.Add(freshAfter).UnixNano())}
}

// load loads the hours that are to be added to, unless they are loaded. The
// stream must have been taken over before: what another writer inserts later is
// of batches that this one has seen.
func (s *sums) load(ctx context.Context, sink Sink, name string, added usage) error {
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

// add adds what the batch that ends with message to brought, and returns the
// rows that changed. A sum that includes the batch already stays as it is: the
// batch was stored by a writer that could not commit it.
func (s *sums) add(name string, to uint64, added usage) []clickhouse.UsageRow {
	rows := make([]clickhouse.UsageRow, 0, len(added))
	for key, t := range added {
		have := s.hours[key.hour][key]
		if have.seq >= to {
			continue
		}
		have = sum{tally{have.records + t.records, have.bytes + t.bytes}, to}
		s.hours[key.hour][key] = have
		rows = append(rows, clickhouse.UsageRow{
			Project: key.project,
			Hour:    time.Unix(key.hour, 0).UTC(),
			Measure: key.measure,
			Reason:  key.reason,
			Records: have.records,
			Bytes:   have.bytes,
			Stream:  name,
			Seq:     to,
		})
	}
	slices.SortFunc(rows, func(a, b clickhouse.UsageRow) int {
		return cmp.Or(cmp.Compare(a.Project, b.Project), a.Hour.Compare(b.Hour), cmp.Compare(a.Measure, b.Measure), cmp.Compare(a.Reason, b.Reason))
	})
	return rows
}

// usageHours is how many hours stay loaded: refused records may be reported in
// the hour after theirs. Other hours are loaded again.
const usageHours = 2

// forget drops the oldest hours.
func (s *sums) forget() {
	for len(s.hours) > usageHours {
		delete(s.hours, slices.Min(slices.Collect(maps.Keys(s.hours))))
	}
}

// storeUsage inserts what the stream has brought so far to each project of the
// batch. The rows replace those before and their own copies, so nothing is
// counted: each attempt has its own token, and one must be acknowledged.
func (w *worker) storeUsage(ctx context.Context) error {
	in, waits := w.position.Intent, newWaits()
	added := w.rows.usage.of(in)
	var rows []clickhouse.UsageRow
	for attempt := 1; len(added) > 0; attempt++ {
		err := w.sums.load(ctx, w.deps.Sink, w.stream, added)
		if err == nil {
			if rows == nil {
				rows = w.sums.add(w.stream, in.To, added)
			}
			err = w.deps.Sink.InsertUsage(ctx, fmt.Sprintf("%s-u%d.%d", tokenOf(w.stream, in), w.position.Epoch, attempt), rows)
		}
		if err == nil {
			w.sums.forget()
			return nil
		}
		w.metrics.failures.WithLabelValues(w.stream, "usage").Inc()
		w.deps.Logger.Warn("usage not stored", "stream", w.stream, "seq", in.To, "rows", len(rows), "attempt", attempt, "err", err)
		if err := w.pause(ctx, waits.NextBackOff()); err != nil {
			return err
		}
	}
	return nil
}

// hour returns the start of the hour of a time, in Unix seconds.
func hour(nanoseconds int64) int64 {
	seconds := nanoseconds / int64(time.Second)
	return seconds - seconds%3600
}
