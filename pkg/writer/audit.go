package writer

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/logboom/logboom/pkg/clickhouse"
	"github.com/logboom/logboom/pkg/ledger"
	"github.com/logboom/logboom/pkg/record"
	"github.com/logboom/logboom/pkg/stream"
)

const (
	// auditPoll is how often the writer checks whether an audit is due.
	auditPoll = 10 * time.Second
	// auditConfirm is when an audit that found something is repeated before it is
	// reported: a replica may be behind, and a deletion may be half done.
	auditConfirm = time.Minute
	// auditRetry is when an audit that failed is repeated.
	auditRetry = time.Minute
	// auditSlice bounds the memory of an exact count: at 25,000 rows per second
	// and shard it is over 7.5 million rows.
	auditSlice = 5 * time.Minute
)

// audit compares the stored rows of yesterday and today with the usage table
// and with the ledger, until ctx ends. It only reports. The writer that holds
// the first shard audits all streams.
func (w *Writer) audit(ctx context.Context) error {
	if w.settings.auditEvery <= 0 {
		<-ctx.Done()
		return ctx.Err()
	}
	var due time.Time
	for {
		if err := pause(ctx, min(w.settings.auditEvery, auditPoll)); err != nil {
			return err
		}
		switch {
		case !w.holds(stream.Name(record.KindLog, 0)):
			w.metrics.forgetAudit()
			due = time.Time{} // at once when the shard comes back
		case time.Now().After(due):
			wait := w.settings.auditEvery
			if err := w.auditOnce(ctx); err != nil {
				wait = min(wait, auditRetry)
				w.deps.Logger.Warn("audit failed", "err", err)
			}
			due = time.Now().Add(wait)
		}
	}
}

// auditOnce audits all streams and reports the result.
func (w *Writer) auditOnce(ctx context.Context) error {
	began := time.Now()
	found, err := w.auditStreams(ctx)
	if err == nil && len(found) > 0 {
		if err := pause(ctx, w.auditConfirm); err != nil {
			return err
		}
		found, err = w.auditStreams(ctx)
	}
	var broken uint64
	if err == nil {
		broken, err = w.deps.Sink.BrokenParts(ctx)
	}
	if err != nil {
		w.metrics.audits.WithLabelValues("failed").Inc()
		return err
	}
	result := "passed"
	w.metrics.forgetAudit()
	for _, shard := range w.shards {
		for _, worker := range shard.workers {
			w.metrics.recordAudit(ledger.AuditFinding{Stream: worker.stream})
		}
	}
	for _, f := range found {
		result = "found"
		w.metrics.recordAudit(f)
		w.deps.Logger.Error("audit found stored rows missing, doubled or ahead of the ledger; docs/operations.md says what to do",
			"stream", f.Stream, "missing", f.Missing, "doubled", f.Doubled, "ahead", f.Ahead, "from", f.From, "seq", f.To)
	}
	w.metrics.setAside.Set(float64(broken))
	w.metrics.audits.WithLabelValues(result).Inc()
	w.deps.Logger.Info("rows audited", "result", result, "elapsed", time.Since(began))
	return w.deps.Ledger.RecordAudit(ctx, ledger.Audit{At: time.Now().UTC(), BrokenParts: broken, Findings: found})
}

// auditStreams returns the findings, by stream. The order of the reads matters:
// usage is stored after its rows, and the ledger changes before them, so rows
// that are just being stored look neither missing nor ahead.
func (w *Writer) auditStreams(ctx context.Context) ([]ledger.AuditFinding, error) {
	// The retention of no row of these two days can have passed.
	since := time.Now().Add(expiryMargin).UTC().Truncate(24*time.Hour).AddDate(0, 0, -1)
	counted, err := w.deps.Sink.CountedRows(ctx, since)
	if err != nil {
		return nil, err
	}
	stored, err := w.deps.Sink.StoredRows(ctx, since)
	if err != nil {
		return nil, err
	}
	positions, err := w.deps.Ledger.Positions(ctx)
	if err != nil {
		return nil, err
	}
	found, workers, before := map[string]*ledger.AuditFinding{}, map[string]*worker{}, map[string]uint64{}
	for _, shard := range w.shards {
		for _, worker := range shard.workers {
			found[worker.stream], workers[worker.stream] = &ledger.AuditFinding{Stream: worker.stream}, worker
		}
	}
	hours := maps.Clone(counted)
	maps.Copy(hours, stored)
	ordered := slices.SortedFunc(maps.Keys(hours), func(a, b clickhouse.StreamHour) int { return cmp.Compare(a.Hour, b.Hour) })
	for _, at := range ordered {
		f, known := found[at.Stream]
		if !known {
			continue // of an installation with more shards
		}
		c, s := counted[at], stored[at]
		if c.Rows != s.Rows {
			missing, doubled, err := w.compareHour(ctx, workers[at.Stream], at, c, s)
			if err != nil {
				return nil, err
			}
			first := before[at.Stream] + 1
			if s.FirstSeq > 0 {
				first = min(first, s.FirstSeq)
			}
			f.Missing, f.Doubled = f.Missing+missing, f.Doubled+doubled.Rows-doubled.Distinct
			if missing > 0 {
				widen(f, first, c.LastSeq)
			}
			if doubled.LastDoubled > 0 {
				widen(f, doubled.FirstDoubled, doubled.LastDoubled)
			}
		}
		before[at.Stream] = max(before[at.Stream], c.LastSeq)
		position := positions[ledger.WriterKey(at.Stream)]
		last := position.Committed
		if position.Intent != nil {
			last = position.Intent.To
		}
		f.Ahead = max(f.Ahead, s.LastSeq-min(s.LastSeq, last))
	}
	findings := []ledger.AuditFinding{}
	for _, name := range slices.Sorted(maps.Keys(found)) {
		if f := found[name]; f.Missing > 0 || f.Doubled > 0 || f.Ahead > 0 {
			findings = append(findings, *f)
		}
	}
	return findings, nil
}

// widen extends the range of a finding.
func widen(f *ledger.AuditFinding, from, to uint64) {
	if f.From == 0 || from < f.From {
		f.From = from
	}
	f.To = max(f.To, to)
}

// compareHour counts the rows of one hour exactly. Rows that came after the
// stored ones were counted are left out.
func (w *Writer) compareHour(ctx context.Context, worker *worker, at clickhouse.StreamHour, counted, stored clickhouse.HourRows) (missing uint64, exact clickhouse.Count, err error) {
	start := time.Unix(at.Hour, 0)
	for from := start; stored.Rows > 0 && from.Before(start.Add(time.Hour)); from = from.Add(auditSlice) {
		counts, err := w.deps.Sink.CountRange(ctx, clickhouse.Range{
			Kind: worker.kind, Shard: worker.rows.shard, From: stored.FirstSeq, To: stored.LastSeq,
			ReceivedMin: from.UnixNano(), ReceivedMax: from.Add(auditSlice).UnixNano() - 1,
		})
		if err != nil {
			return 0, exact, fmt.Errorf("stream %s: %w", at.Stream, err)
		}
		for _, c := range counts {
			exact.Rows, exact.Distinct = exact.Rows+c.Rows, exact.Distinct+c.Distinct
			if exact.FirstDoubled == 0 || c.FirstDoubled > 0 && c.FirstDoubled < exact.FirstDoubled {
				exact.FirstDoubled = c.FirstDoubled
			}
			exact.LastDoubled = max(exact.LastDoubled, c.LastDoubled)
		}
	}
	return counted.Rows - min(counted.Rows, exact.Distinct), exact, nil
}
