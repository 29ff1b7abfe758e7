package writer

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/logboom/logboom/pkg/clickhouse"
	"github.com/logboom/logboom/pkg/stream"
)

const (
	// auditSlice is how much of the time of receipt one query looks at: at
	// 25,000 rows a second and shard, 7.5 million rows.
	auditSlice = 5 * time.Minute
	// auditOverlap is looked at twice, so that what was on its way is not
	// missed.
	auditOverlap = 10 * time.Minute
)

// audited is what the rows of a stream say about the writer.
type audited struct {
	rows, distinct, last uint64
}

// audit checks, until ctx ends, that every row that was stored of late is there
// once and that none is ahead of the ledger.
func (w *Writer) audit(ctx context.Context) error {
	if w.cfg.AuditEvery <= 0 {
		<-ctx.Done()
		return ctx.Err()
	}
	for {
		if err := pause(ctx, w.cfg.AuditEvery); err != nil {
			return err
		}
		for _, worker := range w.working() {
			if err := w.auditStream(ctx, worker); err != nil {
				w.deps.Logger.Warn("rows not audited", "stream", worker.stream, "err", err)
			}
		}
	}
}

// auditStream counts first and reads the ledger then: a row that was counted
// has an intent by now.
func (w *Writer) auditStream(ctx context.Context, worker *worker) error {
	now := time.Now()
	found, err := w.auditRows(ctx, worker, now.Add(-w.cfg.AuditEvery-auditOverlap), now.Add(auditOverlap))
	var allowed uint64
	if err == nil {
		allowed, err = w.allowed(ctx, worker.reader)
	}
	if err != nil {
		w.metrics.audits.WithLabelValues(worker.stream, "failed").Inc()
		return err
	}
	doubled, ahead := found.rows-found.distinct, found.last-min(found.last, allowed)
	w.metrics.audited(worker.stream, doubled, ahead)
	if doubled > 0 || ahead > 0 {
		w.deps.Logger.Error("audit failed: rows are stored twice, or ahead of the ledger; docs/decisions/0006-durability.md says what becomes of them",
			"stream", worker.stream, "rows", found.rows, "doubled", doubled, "ahead", ahead, "seq", found.last)
		return nil
	}
	w.deps.Logger.Info("rows audited", "stream", worker.stream, "rows", found.rows, "seq", found.last, "elapsed", time.Since(now))
	return nil
}

// allowed is the last message of which rows may be there.
func (w *Writer) allowed(ctx context.Context, reader string) (uint64, error) {
	positions, err := w.deps.Ledger.Positions(ctx)
	if err != nil {
		return 0, err
	}
	position, ok := positions[reader]
	if !ok {
		return 0, fmt.Errorf("the ledger has no %s", reader)
	}
	return lastAllowed(position), nil
}

func lastAllowed(p stream.Position) uint64 {
	if p.Intent != nil {
		return p.Intent.To
	}
	return p.Committed
}

// auditRows looks at what the queue had from one time to the other, in slices.
func (w *Writer) auditRows(ctx context.Context, worker *worker, from, to time.Time) (audited, error) {
	var sum audited
	for ; from.Before(to); from = from.Add(auditSlice) {
		rows, distinct, last, err := w.deps.Sink.Audit(ctx, clickhouse.Range{
			Kind:        worker.kind,
			Shard:       worker.rows.shard,
			To:          math.MaxUint64,
			ReceivedMin: from.UnixNano(),
			ReceivedMax: min(from.Add(auditSlice).UnixNano(), to.UnixNano()) - 1,
		})
		if err != nil {
			return sum, err
		}
		sum.rows, sum.distinct, sum.last = sum.rows+rows, sum.distinct+distinct, max(sum.last, last)
	}
	return sum, nil
}
