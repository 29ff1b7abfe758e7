package ledger

import (
	"context"
	"time"

	"github.com/logboom/logboom/pkg/stream"
)

// RewindAt is Rewind at another time.
func (l *Ledger) RewindAt(ctx context.Context, t *stream.Topology, newest stream.Stored, now time.Time) ([]Rewound, error) {
	return l.rewindAt(ctx, t, newest, now)
}
