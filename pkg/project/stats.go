package project

import (
	"log/slog"
	"sync/atomic"
)

// Stats are a Cache's counts since it was made.
type Stats struct {
	Hits         uint64 // answered from the process's own cache
	SharedHits   uint64 // answered from the shared cache
	LookUps      uint64 // asked of the record
	Unknown      uint64 // refused: nobody's token, or revoked
	Malformed    uint64 // refused by form and checksum
	Unavailable  uint64 // nobody could tell
	SharedErrors uint64 // the shared cache failed or took too long
	Changes      uint64 // changes of the record that the watch told
	Watches      uint64 // times that the watch began; the first is no failure
	UsesDropped  uint64 // uses of tokens that were not noted for want of room
	Following    bool   // the watch is proven complete now
}

// counters are what Stats reads, each written where it happens.
type counters struct {
	hits, sharedHits, lookUps, unknown, malformed, unavailable, changes atomic.Uint64
}

// Stats reads the counts.
func (c *Cache) Stats() Stats {
	s := Stats{
		Hits:        c.count.hits.Load(),
		SharedHits:  c.count.sharedHits.Load(),
		LookUps:     c.count.lookUps.Load(),
		Unknown:     c.count.unknown.Load(),
		Malformed:   c.count.malformed.Load(),
		Unavailable: c.count.unavailable.Load(),
		Changes:     c.count.changes.Load(),
		Watches:     c.session.Load(),
		UsesDropped: c.notes.dropped.Load(),
		Following:   c.isConfirmed(c.now()),
	}
	if c.shared != nil {
		s.SharedErrors = c.shared.errors.Load()
	}
	return s
}

// health logs when something breaks and when it is whole again, each once.
type health struct {
	logger *slog.Logger
	name   string
	broken *atomic.Bool
}

func newHealth(logger *slog.Logger, name string) health {
	return health{logger: logger, name: name, broken: new(atomic.Bool)}
}

// note takes the outcome of one more use.
func (h health) note(err error) {
	switch {
	case err != nil && h.broken.CompareAndSwap(false, true):
		h.logger.Warn(h.name+" failed", "err", err)
	case err == nil && h.broken.Load() && h.broken.CompareAndSwap(true, false):
		h.logger.Info(h.name + " recovered")
	}
}
