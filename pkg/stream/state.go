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

// Info is the state of one stream.
type Info struct {
	FirstSeq uint64 // LastSeq + 1 when the stream is empty
	LastSeq  uint64
	LastTime time.Time
	Messages uint64
	Bytes    uint64
	MaxBytes int64
}

// Info reads the state of a stream.
func (t *Topology) Info(ctx context.Context, stream string) (Info, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	s, err := t.js.Stream(ctx, stream)
	if err != nil {
		return Info{}, fmt.Errorf("state of stream %s: %w", stream, err)
	}
	return InfoOf(s.CachedInfo()), nil
}

// InfoOf returns what the server reports of a stream.
func InfoOf(have *jetstream.StreamInfo) Info {
	info := Info{
		FirstSeq: have.State.FirstSeq,
		LastSeq:  have.State.LastSeq,
		LastTime: have.State.LastTime,
		Messages: have.State.Msgs,
		Bytes:    have.State.Bytes,
		MaxBytes: have.Config.MaxBytes,
	}
	if have.State.Msgs == 0 {
		info.FirstSeq = have.State.LastSeq + 1
	}
	return info
}

// Place is where a message is on its stream, and when the queue stored it.
type Place struct {
	Seq  uint64
	Time time.Time
}

// First returns the place of the first message of a stream at or after a sequence.
// Its Seq is 0 where there is none.
func (t *Topology) First(ctx context.Context, stream string, from uint64) (Place, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	body, err := json.Marshal(map[string]any{"seq": max(from, 1), "next_by_subj": ">"})
	if err != nil {
		return Place{}, fmt.Errorf("stream %s: first message from %d on: %w", stream, from, err)
	}
	answer, err := t.nc.RequestWithContext(ctx, t.apiSubject("DIRECT.GET."+stream), body)
	if err != nil {
		return Place{}, fmt.Errorf("stream %s: first message from %d on: %w", stream, from, err)
	}
	mark, err := placeOf(answer)
	if err != nil {
		return Place{}, fmt.Errorf("stream %s: first message from %d on: %w", stream, from, err)
	}
	return mark, nil
}

// placeOf decodes the headers of the answer to a direct get. The status is 404
// where there is no such message.
func placeOf(answer *nats.Msg) (Place, error) {
	switch status := answer.Header.Get("Status"); status {
	case "":
	case "404":
		return Place{}, nil
	default:
		return Place{}, fmt.Errorf("answer %s %s", status, answer.Header.Get("Description"))
	}
	seq, err := strconv.ParseUint(answer.Header.Get(nats.JSSequence), 10, 64)
	if err != nil {
		return Place{}, fmt.Errorf("answer without a sequence: %w", err)
	}
	stored, err := time.Parse(time.RFC3339Nano, answer.Header.Get(nats.JSTimeStamp))
	if err != nil {
		return Place{}, fmt.Errorf("answer without a time: %w", err)
	}
	return Place{Seq: seq, Time: stored}, nil
}

// purgeTimeout bounds a purge. The server may have gigabytes to remove.
const purgeTimeout = 30 * time.Second

// Purge removes the messages below a sequence, which all readers have committed,
// except for the replay window: messages that are both younger than ReplayAge and
// among the newest ReplayBytes. It returns how many it removed. It never removes a
// message at or after below.
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

// firstWithin returns the sequence from which the messages before below fit
// ReplayBytes, by their mean size.
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

// firstSince returns the sequence of the first message stored at or after a time,
// or the next sequence of the stream where there is none.
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
