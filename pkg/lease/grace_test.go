package lease_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/logboom/logboom/pkg/lease"
)

func TestWithGraceEndsAtOnceOnlyIfTheUnitIsLost(t *testing.T) {
	t.Parallel()
	fenced := errors.New("fenced")
	for cause, want := range map[error]time.Duration{context.Canceled: time.Minute, lease.ErrReleased: time.Minute, lease.ErrLost: 0, fenced: 0} {
		synctest.Test(t, func(t *testing.T) {
			ctx, end := context.WithCancelCause(context.Background())
			late, cancel := lease.WithGrace(ctx, time.Minute, fenced)
			defer cancel()
			began := time.Now()
			end(cause)
			<-late.Done()
			if got := time.Since(began); got != want || !errors.Is(context.Cause(late), cause) {
				t.Errorf("%v: ended after %s with %v, want %s", cause, got, context.Cause(late), want)
			}
		})
	}
}

func TestWithGraceLeavesNothingRunningAfterCancel(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(*testing.T) {
		ctx, end := context.WithCancel(context.Background())
		_, cancel := lease.WithGrace(ctx, time.Minute)
		end()
		synctest.Wait()
		cancel() // the bubble fails the test if a goroutine remains blocked
	})
}
