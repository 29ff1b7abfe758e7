package writer

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/logboom/logboom/pkg/ledger"
	"github.com/logboom/logboom/pkg/stream"
)

// purgeEvery is how often streams are purged and their lag is recorded: at
// 100 MB/s of messages a stream grows by half a GiB in between.
const purgeEvery = 5 * time.Second

// purge keeps the lag current and the streams short until ctx ends.
func (w *Writer) purge(ctx context.Context) error {
	for {
		if err := pause(ctx, purgeEvery); err != nil {
			return err
		}
		workers := w.running()
		if len(workers) == 0 {
			continue
		}
		positions, err := w.deps.Ledger.Positions(ctx)
		if err != nil {
			continue // the workers report it
		}
		for _, worker := range workers {
			w.purgeStream(ctx, worker, positions)
		}
	}
}

// running returns the workers of the streams that this writer holds, by name.
func (w *Writer) running() []*worker {
	w.mu.Lock()
	defer w.mu.Unlock()
	var workers []*worker
	for _, name := range slices.Sorted(maps.Keys(w.workers)) {
		workers = append(workers, w.workers[name])
	}
	return workers
}

// purgeStream removes the messages that every reader of the stream has dealt
// with, except for the replay window.
func (w *Writer) purgeStream(ctx context.Context, worker *worker, positions map[string]ledger.Position) {
	name := worker.stream
	info, err := w.deps.Queue.Info(ctx, name)
	if err != nil {
		return // the worker reports it
	}
	done := positions[worker.reader].Committed
	worker.recordLag(ctx, done, info)
	w.mu.Lock()
	trusted := w.troubles[name] == nil && w.workers[name] != nil
	w.mu.Unlock()
	if !trusted {
		return // the queue may not be the one that the ledger is about
	}
	if notifier, ok := positions[ledger.NotifierKey(name)]; ok {
		done = min(done, notifier.Committed)
	}
	if _, err := w.deps.Queue.Purge(ctx, name, done+1); err != nil && ctx.Err() == nil {
		w.deps.Logger.Warn("stream not purged", "stream", name, "err", err)
	}
}

// recordLag records how far storing is behind the stream.
func (w *worker) recordLag(ctx context.Context, committed uint64, info stream.Info) {
	behind, waited := info.LastSeq-min(committed, info.LastSeq), time.Duration(0)
	if behind > 0 {
		oldest := info.LastTime // of the newest message, which has waited less
		if mark, err := w.deps.Queue.First(ctx, w.stream, committed+1); err == nil && mark.Seq != 0 {
			oldest = mark.Time
		}
		waited = max(0, time.Since(oldest))
	}
	rowsPerMessage := 1.0 // until a message was stored
	if messages := w.messagesDone.Load(); messages > 0 {
		rowsPerMessage = float64(w.rowsDone.Load()) / float64(messages)
	}
	w.metrics.recordLag(w.stream, behind, waited, rowsPerMessage)
}
