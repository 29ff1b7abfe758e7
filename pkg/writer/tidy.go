package writer

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/logboom/logboom/pkg/stream"
)

// tidyEvery is how often the streams are looked at, besides being moved: at
// 100 MB/s of messages a stream grows by half a GiB in between.
const tidyEvery = 5 * time.Second

// tidy keeps the lag current and the streams short, until ctx ends.
func (w *Writer) tidy(ctx context.Context) error {
	for {
		if err := pause(ctx, tidyEvery); err != nil {
			return err
		}
		workers := w.working()
		if len(workers) == 0 {
			continue
		}
		positions, err := w.deps.Ledger.Positions(ctx)
		if err != nil {
			continue // the workers say so already
		}
		for _, worker := range workers {
			w.tidyStream(ctx, worker, positions)
		}
	}
}

// working is the workers of the streams that are held, in the order of names.
func (w *Writer) working() []*worker {
	w.mu.Lock()
	defer w.mu.Unlock()
	var workers []*worker
	for _, name := range slices.Sorted(maps.Keys(w.held)) {
		workers = append(workers, w.held[name])
	}
	return workers
}

func (w *Writer) tidyStream(ctx context.Context, worker *worker, positions map[string]stream.Position) {
	name := worker.stream
	info, err := w.deps.Queue.Lag(ctx, name)
	if err != nil {
		return // the worker says so already
	}
	committed := positions[worker.reader].Committed
	worker.tellLag(ctx, committed, info)
	if w.troubled(name) {
		return // who knows whether it is the queue that the ledger speaks of
	}
	if _, err := w.deps.Queue.Purge(ctx, name, done(name, positions)+1); err != nil && ctx.Err() == nil {
		w.deps.Logger.Warn("stream not purged", "stream", name, "err", err)
	}
}

// tellLag tells how far the stream is behind.
func (w *worker) tellLag(ctx context.Context, committed uint64, info stream.Info) {
	behind := info.LastSeq - min(committed, info.LastSeq)
	w.metrics.behind(w.stream, behind, w.waited(ctx, committed, info), w.rowsPerMessage())
}

// waited is for how long the oldest message that is not committed has been on
// the queue.
func (w *worker) waited(ctx context.Context, committed uint64, info stream.Info) time.Duration {
	if info.LastSeq <= committed {
		return 0
	}
	mark, err := w.deps.Queue.First(ctx, w.stream, committed+1)
	if err != nil || mark.Seq == 0 {
		return max(0, time.Since(info.LastTime)) // of the newest: it waits less
	}
	return max(0, time.Since(mark.Time))
}

func (w *Writer) troubled(name string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.troubles[name] != nil || w.held[name] == nil
}

// rowsPerMessage is what a message brought so far, 1 where none was seen.
func (w *worker) rowsPerMessage() float64 {
	messages := w.messagesDone.Load()
	if messages == 0 {
		return 1
	}
	return float64(w.rowsDone.Load()) / float64(messages)
}

// done is the last message that every reader of the stream has dealt with.
func done(name string, positions map[string]stream.Position) uint64 {
	least := positions[stream.WriterKey(name)].Committed
	if notifier, ok := positions[stream.NotifierKey(name)]; ok {
		least = min(least, notifier.Committed)
	}
	return least
}
