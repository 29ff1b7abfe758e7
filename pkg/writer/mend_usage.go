package writer

import (
	"context"
	"fmt"
	"time"

	"github.com/logboom/logboom/pkg/clickhouse"
)

// usageStream stands for all streams in the ledger's keys of parts of usage:
// their rows have no stream's order to keep.
const usageStream = "USAGE"

// tableUsage is the table of what each project sent.
const tableUsage = "usage"

// mendUsage stores the usage again that was lost with a part. Of each hour there
// are three accounts: the table's, what this writer has in mind, and the sum of
// the messages that the queue still has. Nothing is ever counted twice in any of
// them, so the one that counts most is the nearest to the truth; and it is the
// truth where the queue has all of the hour, or this writer has had the stream
// for all of it. To do this again changes nothing.
//
// A message that ClickHouse refused is counted as if it were stored, where its
// hour's row was lost: the queue does not tell.
func (w *worker) mendUsage(ctx context.Context) error {
	added, err := w.usageOnQueue(ctx)
	if err != nil {
		return err
	}
	table, known := newSums(time.Now()), w.sums.hours
	for _, hour := range known {
		for key := range hour {
			added.count(key, 0, 0) // so that all hours are looked at
		}
	}
	if err := table.recall(ctx, w.deps.Sink, w.stream, added); err != nil {
		return err
	}
	var rows []clickhouse.UsageRow
	for key, t := range added {
		most, have := sum{t, w.position.Committed}, table.hours[key.hour][key]
		if mine := known[key.hour][key]; mine.records > most.records {
			most.tally = mine.tally
		}
		if most.records > have.records {
			table.hours[key.hour][key] = most
			rows = append(rows, most.row(w.stream, key))
		}
	}
	token := fmt.Sprintf("%s-%d-mend%d", w.stream, w.position.Committed, w.position.Epoch)
	if err := w.deps.Sink.InsertUsage(ctx, token, sortUsage(rows)); err != nil {
		return err
	}
	w.sums = table
	w.sums.forget()
	w.deps.Logger.Warn("usage compared with the queue", "stream", w.stream, "seq", w.position.Committed, "rows", len(rows))
	return nil
}

// usageOnQueue is what those messages brought that the queue still has and that
// are committed.
func (w *worker) usageOnQueue(ctx context.Context) (usage, error) {
	info, err := w.deps.Queue.Lag(ctx, w.stream)
	if err != nil {
		return nil, err
	}
	found, scratch := usage{}, newRows(w.kind, w.stream, w.rows.shard)
	for from := max(info.FirstSeq, 1); from <= w.position.Committed; from += mendMessages {
		if w.givenUp() {
			return nil, errStopping
		}
		to := min(from+mendMessages-1, w.position.Committed)
		deliveries, err := w.deps.Queue.Refetch(ctx, w.stream, from, to)
		if err != nil {
			return nil, fmt.Errorf("read %d to %d again: %w", from, to, err)
		}
		for _, d := range deliveries {
			scratch.reset()
			if _, err := scratch.add(d); err != nil {
				continue // it is among the dead letters and brought nothing
			}
			for key, t := range scratch.usage {
				found.count(key, t.records, t.bytes)
			}
		}
	}
	return found, nil
}
