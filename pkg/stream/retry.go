package stream

import (
	"context"
	"log/slog"
	"time"

	"github.com/cenkalti/backoff/v5"
)

const (
	retryWaitFirst = 20 * time.Millisecond
	retryWaitMost  = 500 * time.Millisecond
)

// retries paces one operation that is tried until its context ends. It logs
// the first failure as a warning and the others for debugging only: a queue
// that is away for an hour is one piece of news.
type retries struct {
	log   *slog.Logger
	waits *backoff.ExponentialBackOff
	told  bool
}

func newRetries(log *slog.Logger) *retries {
	waits := backoff.NewExponentialBackOff()
	waits.InitialInterval, waits.MaxInterval = retryWaitFirst, retryWaitMost
	return &retries{log: log, waits: waits}
}

// tell logs why the operation is tried again.
func (r *retries) tell(ctx context.Context, text string, args ...any) {
	level := slog.LevelWarn
	if r.told {
		level = slog.LevelDebug
	}
	r.told = true
	r.log.Log(ctx, level, text, args...)
}

// pause waits before the next try.
func (r *retries) pause(ctx context.Context) error {
	timer := time.NewTimer(r.waits.NextBackOff())
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
