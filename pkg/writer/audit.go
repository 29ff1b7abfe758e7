package writer

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
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
	// auditLook is how often it is looked whether a stream is to be audited.
	auditLook = 10 * time.Second
	// auditAgain is how long after an audit that failed the next one comes.
	auditAgain = time.Minute
)

// audited is what the rows of a stream say about the writer.
type audited struct {
	rows, distinct, last uint64
}

// auditor looks whether what was stored of late is there once. Its fields belong
// to the goroutine of audit.
type auditor struct {
	*Writer
	looked  time.Time            // when ClickHouse was last asked for how long it runs
	due     map[string]time.Time // the next audit of each stream, once there was one
	mending map[string]string    // streams with rows twice, and the ledger's key of their mending
}

func newAuditor(w *Writer) *auditor {
	return &auditor{Writer: w, due: map[string]time.Time{}, mending: map[string]string{}}
}

// audit checks, until ctx ends, that every row that was stored of late is there
// once and that none is ahead of the ledger.
func (w *Writer) audit(ctx context.Context) error {
	if w.cfg.AuditEvery <= 0 {
		<-ctx.Done()
		return ctx.Err()
	}
	a := newAuditor(w)
	for {
		if err := pause(ctx, min(w.cfg.AuditEvery, auditLook)); err != nil {
			return err
		}
		a.look(ctx)
	}
}

// look audits the streams whose time it is: regularly, soon after this writer
// has taken them or ClickHouse has started, since it loads what lies in its
// folders then, and once rows that were there twice have been replaced.
func (a *auditor) look(ctx context.Context) {
	if a.restarted(ctx) {
		clear(a.due)
	}
	positions, err := a.deps.Ledger.Positions(ctx)
	if err != nil {
		return // the workers say so already
	}
	workers := a.working()
	a.forget(workers)
	for _, worker := range workers {
		name := worker.stream
		at, known := a.due[name]
		key, found := a.mending[name]
		mended := found && !positions[key].CommittedAt.IsZero()
		switch {
		case mended:
			delete(a.mending, name)
		case known && time.Now().Before(at):
			continue
		}
		a.due[name] = time.Now().Add(a.cfg.AuditEvery)
		doubled, err := a.auditStream(ctx, worker)
		if err == nil && (doubled && !mended || !known) {
			err = a.heed(ctx, worker, positions[worker.reader].Committed)
		}
		if err != nil {
			a.deps.Logger.Warn("rows not audited", "stream", name, "err", err)
			a.again(name, known)
		}
	}
}

// forget lets go of the streams that are no longer worked here.
func (a *auditor) forget(workers []*worker) {
	gone := func(name string) bool {
		return !slices.ContainsFunc(workers, func(w *worker) bool { return w.stream == name })
	}
	maps.DeleteFunc(a.due, func(name string, _ time.Time) bool { return gone(name) })
	maps.DeleteFunc(a.mending, func(name, _ string) bool { return gone(name) })
}

// again makes an audit that failed be repeated soon.
func (a *auditor) again(name string, known bool) {
	if !known {
		delete(a.due, name)
		return
	}
	a.due[name] = time.Now().Add(min(a.cfg.AuditEvery, auditAgain))
}

// restarted tells whether ClickHouse was started since the last look.
func (a *auditor) restarted(ctx context.Context) bool {
	if a.deps.Tables == nil {
		return false
	}
	now := time.Now()
	up, err := a.deps.Tables.Uptime(ctx)
	if err != nil {
		return false // the next look tells
	}
	since := now.Sub(a.looked)
	a.looked = now
	return up < since
}

// heed has messages replaced of which rows are there twice, as far as the queue
// still has them.
func (a *auditor) heed(ctx context.Context, worker *worker, committed uint64) error {
	if a.deps.Tables == nil {
		return nil
	}
	found, err := worker.doubled(ctx, 1, committed, 1)
	if err != nil || len(found) == 0 {
		return err
	}
	key, err := orderDoubled(ctx, a.deps.Ledger, worker.stream, found[0].Seq)
	if err != nil {
		return err
	}
	a.mending[worker.stream] = key
	a.deps.Logger.Warn("rows stored twice are to be replaced from the queue", "stream", worker.stream, "seq", found[0].Seq)
	return nil
}

// auditStream counts first and reads the ledger then: a row that was counted
// has an intent by now. It tells whether rows are there twice.
func (w *Writer) auditStream(ctx context.Context, worker *worker) (bool, error) {
	now := time.Now()
	found, err := w.auditRows(ctx, worker, now.Add(-w.cfg.AuditEvery-auditOverlap), now.Add(auditOverlap))
	var allowed uint64
	if err == nil {
		allowed, err = w.allowed(ctx, worker.reader)
	}
	if err != nil {
		w.metrics.audits.WithLabelValues(worker.stream, "failed").Inc()
		return false, err
	}
	doubled, ahead := found.rows-found.distinct, found.last-min(found.last, allowed)
	w.metrics.audited(worker.stream, doubled, ahead)
	if doubled > 0 || ahead > 0 {
		w.deps.Logger.Error("audit failed: rows are stored twice, or ahead of the ledger; docs/decisions/0006-durability.md says what becomes of them",
			"stream", worker.stream, "rows", found.rows, "doubled", doubled, "ahead", ahead, "seq", found.last)
		return doubled > 0, nil
	}
	w.deps.Logger.Info("rows audited", "stream", worker.stream, "rows", found.rows, "seq", found.last, "elapsed", time.Since(now))
	return false, nil
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
			Kind:        recordKind(worker.kind),
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
