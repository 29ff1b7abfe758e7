package stream

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
)

// Place is where a message stands and when the queue had it.
type Place struct {
	Seq  uint64
	Time time.Time
}

// First is the first message of a stream at or after a sequence. Where there
// is none, its Seq is 0.
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

// placeOf reads the headers of a direct get's answer. Its status is 404 where
// there is no such message.
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
