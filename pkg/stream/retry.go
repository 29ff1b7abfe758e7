package stream

import (
	"context"
	"log/slog"
	"time"

	"github.com/cenkalti/backoff/v5"
)

const (
	retryFirst = 20 * time.Millisecond
	retryMax   = 500 * time.Millisecond
)

// retries paces one operation that is retried until its context ends. It logs the
// first failure as a warning and the others for debugging only, so that a long
// outage is one line.
type retries struct {
	log      *slog.Logger
	waits    *backoff.ExponentialBackOff
	reported bool
}

func newRetries(log *slog.Logger) *retries {
	waits := backoff.NewExponentialBackOff()
	waits.InitialInterval, waits.MaxInterval = retryFirst, retryMax
	return &retries{log: log, waits: waits}
}

// report logs why the operation is retried.
func (r *retries) report(ctx context.Context, text string, args ...any) {
	level := slog.LevelWarn
	if r.reported {
		level = slog.LevelDebug
	}
	r.reported = true
	r.log.Log(ctx, level, text, args...)
}

// pause waits before the next attempt.
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
