package stream

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// purgeTimeout bounds a purge: the server may have gigabytes to remove.
const purgeTimeout = 30 * time.Second

// Purge removes the messages below a sequence that all readers have dealt
// with, except for the replay window: those stay that are both younger than
// ReplayAge and among the newest ReplayBytes. It returns how many went. below
// is never passed, so that an unread message stays whatever the window says.
func (t *Topology) Purge(ctx context.Context, stream string, below uint64) (uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, purgeTimeout)
	defer cancel()
	info, err := t.Info(ctx, stream)
	if err != nil {
		return 0, err
	}
	below = min(below, info.LastSeq+1)
	if below <= info.FirstSeq {
		return 0, nil
	}
	byAge, err := t.firstSince(ctx, stream, time.Now().Add(-orDefault(t.cfg.ReplayAge, defaultReplayAge)), info)
	if err != nil {
		return 0, err
	}
	keep := min(below, max(byAge, t.firstWithin(info, below)))
	if keep <= info.FirstSeq {
		return 0, nil
	}
	s, err := t.js.Stream(ctx, stream)
	if err != nil {
		return 0, fmt.Errorf("purge stream %s: %w", stream, err)
	}
	if err := s.Purge(ctx, jetstream.WithPurgeSequence(keep)); err != nil {
		return 0, fmt.Errorf("purge stream %s below %d: %w", stream, keep, err)
	}
	return keep - info.FirstSeq, nil
}

// firstWithin is the sequence from which the messages dealt with fit
// ReplayBytes, by the stream's mean size.
func (t *Topology) firstWithin(info Info, below uint64) uint64 {
	window := orDefault(t.cfg.ReplayBytes, max(info.MaxBytes, 0)/defaultReplayShare)
	if window == 0 || info.Messages == 0 {
		return info.FirstSeq
	}
	mean := max(1, info.Bytes/info.Messages)
	fits := uint64(window) / mean
	if below-info.FirstSeq <= fits {
		return info.FirstSeq
	}
	return below - fits
}

// firstSince is the sequence of the first message stored at or after a time,
// or the one that comes next when there is none.
func (t *Topology) firstSince(ctx context.Context, stream string, since time.Time, info Info) (uint64, error) {
	if info.LastTime.Before(since) {
		return info.LastSeq + 1, nil
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	body, err := json.Marshal(map[string]time.Time{"start_time": since.UTC()})
	if err != nil {
		return 0, fmt.Errorf("stream %s: message at %s: %w", stream, since, err)
	}
	answer, err := t.nc.RequestWithContext(ctx, t.apiSubject("DIRECT.GET."+stream), body)
	if err != nil {
		return 0, fmt.Errorf("stream %s: message at %s: %w", stream, since, err)
	}
	seq, err := strconv.ParseUint(answer.Header.Get(nats.JSSequence), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("stream %s: message at %s: answer %s %s", stream, since,
			answer.Header.Get("Status"), answer.Header.Get("Description"))
	}
	return seq, nil
}
