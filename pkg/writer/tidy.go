package writer

import (
	"context"
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
		positions, err := w.deps.Ledger.Positions(ctx)
		if err != nil {
			continue // the workers say so already
		}
		for _, worker := range w.workers {
			w.tidyStream(ctx, worker.stream, positions)
		}
	}
}

func (w *Writer) tidyStream(ctx context.Context, name string, positions map[string]stream.Position) {
	info, err := w.deps.Queue.Lag(ctx, name)
	if err != nil {
		return // the worker says so already
	}
	committed := positions[stream.WriterKey(name)].Committed
	w.metrics.lag.WithLabelValues(name).Set(float64(info.LastSeq - min(committed, info.LastSeq)))
	if info.LastSeq <= committed {
		w.metrics.lagTime.WithLabelValues(name).Set(0)
	}
	if _, err := w.deps.Queue.Purge(ctx, name, done(name, positions)+1); err != nil && ctx.Err() == nil {
		w.deps.Logger.Warn("stream not purged", "stream", name, "err", err)
	}
}

// done is the last message that every reader of the stream has dealt with.
func done(name string, positions map[string]stream.Position) uint64 {
	least := positions[stream.WriterKey(name)].Committed
	if notifier, ok := positions[stream.NotifierKey(name)]; ok {
		least = min(least, notifier.Committed)
	}
	return least
}
