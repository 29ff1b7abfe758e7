package lease

import (
	"context"
	"errors"
	"slices"
	"time"
)

// WithGrace returns a context that ends some time after ctx does, so that work in
// progress can be finished. It ends together with ctx if another member has the
// unit: if the cause is ErrLost or one of the errors in lost.
func WithGrace(ctx context.Context, grace time.Duration, lost ...error) (context.Context, context.CancelFunc) {
	late, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		cause := context.Cause(ctx)
		if !slices.ContainsFunc(append(lost, ErrLost), func(err error) bool { return errors.Is(cause, err) }) {
			timer := time.NewTimer(grace)
			defer timer.Stop()
			select {
			case <-timer.C:
			case <-late.Done(): // nothing is in progress any more
			}
		}
		cancel(cause)
	})
	return late, func() {
		stop()
		cancel(nil)
	}
}
