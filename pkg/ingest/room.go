package ingest

import (
	"fmt"

	"github.com/logboom/logboom/pkg/stream"
)

// Room tells whether what is sent now can be kept. The queue itself answers
// nothing once its disk is full, so whoever watches that disk says so before.
type Room interface {
	// Room is nil, or why there is no room. It is asked for each request and
	// must answer from memory.
	Room() error
}

// RoomLeft is nil where there is room or nobody watches, which is what a nil r
// means. Its error is stream.ErrFull, with the reason: to the sender it is a
// full queue, to come back to later. Ask before a body is read, which costs
// memory that a refused sender should not have.
func RoomLeft(r Room) error {
	if r == nil {
		return nil
	}
	if err := r.Room(); err != nil {
		return fmt.Errorf("%w: %w", stream.ErrFull, err)
	}
	return nil
}
