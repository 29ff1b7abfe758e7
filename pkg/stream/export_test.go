package stream

import (
	"context"
	"time"
)

// RewindAt is Rewind at another time.
func (t *Topology) RewindAt(ctx context.Context, newest Stored, now time.Time) ([]Rewound, error) {
	return t.rewindAt(ctx, newest, now)
}
