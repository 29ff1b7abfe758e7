package stream_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/logboom/logboom/pkg/stream"
)

// patience bounds every wait of these tests; on a good day none comes near it.
const patience = 3 * time.Minute

// waitFor asks again until a condition holds.
func waitFor(t *testing.T, q *queue, what string, holds func() bool) {
	t.Helper()
	for patient := q.ctx(); !holds(); breathe() {
		if patient.Err() != nil {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

// breathe keeps who asks or sends again and again from taking the processor from
// those it waits for, and from filling the disk.
func breathe() { <-time.After(2 * time.Millisecond) }

// answered asks again while there is no answer in time: one question waits two
// to five seconds for it, for which a busy machine may stand still.
func answered[T any](ctx context.Context, ask func() (T, error)) (T, error) {
	for {
		answer, err := ask()
		if !late(err) || ctx.Err() != nil {
			return answer, err
		}
	}
}

func late(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, nats.ErrTimeout) || errors.Is(err, stream.ErrNoAnswer)
}

// done is answered for what has nothing to say.
func done(ctx context.Context, ask func() error) error {
	_, err := answered(ctx, func() (any, error) { return nil, ask() })
	return err
}
