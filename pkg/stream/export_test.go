package stream

import (
	"context"
	"time"
)

// ErrNoAnswer is among the errors of what was not answered in time.
var ErrNoAnswer = errNoAnswer

// RewindAt is Rewind at another time.
func (t *Topology) RewindAt(ctx context.Context, newest Stored, now time.Time) ([]Rewound, error) {
	return t.rewindAt(ctx, newest, now)
}
