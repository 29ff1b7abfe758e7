package stream

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/logboom/logboom/pkg/record"
)

// Overview shows how full the queue is and how far its readers are. It creates
// nothing and changes nothing: where no queue was made yet there is nothing to
// show.
type Overview struct {
	js jetstream.JetStream
}

// NewOverview is a look at the queue behind a connection.
func NewOverview(js jetstream.JetStream) *Overview { return &Overview{js} }

// ShardState is one stream with the reader that stores it.
type ShardState struct {
	Stream string
	Info
	Committed uint64    // the last sequence that the writer has dealt with
	Waiting   uint64    // messages that come after it
	Oldest    time.Time // when the queue had the first of them; zero where none waits
}

// Shards are the states of all streams, logs before events. The error is
// ErrUnavailable where they cannot be read.
func (o *Overview) Shards(ctx context.Context) ([]ShardState, error) {
	positions, err := o.positions(ctx)
	if err != nil {
		return nil, err
	}
	var list []ShardState
	for _, kind := range []record.Kind{record.KindLog, record.KindEvent} {
		for shard := range maxShards {
			state, err := o.shard(ctx, Name(kind, shard), positions)
			if errors.Is(err, jetstream.ErrStreamNotFound) {
				break
			}
			if err != nil {
				return nil, err
			}
			list = append(list, state)
		}
	}
	return list, nil
}

// positions reads the ledger, where there is one.
func (o *Overview) positions(ctx context.Context) (map[string]Position, error) {
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	kv, err := o.js.KeyValue(ctx, ledgerBucket)
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("bucket %s: %w: %w", ledgerBucket, ErrUnavailable, err)
	}
	positions, err := (&Ledger{kv: kv, log: slog.New(slog.DiscardHandler)}).Positions(ctx)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return positions, nil
}

// shard is the state of one stream.
func (o *Overview) shard(ctx context.Context, name string, positions map[string]Position) (ShardState, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	s, err := o.js.Stream(ctx, name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return ShardState{}, err
	}
	if err != nil {
		return ShardState{}, fmt.Errorf("state of stream %s: %w: %w", name, ErrUnavailable, err)
	}
	state := ShardState{Stream: name, Info: infoOf(s.CachedInfo()), Committed: positions[WriterKey(name)].Committed}
	next := max(state.Committed+1, state.FirstSeq)
	if state.LastSeq < next {
		return state, nil
	}
	state.Waiting = state.LastSeq - next + 1
	if first, err := s.GetMsg(ctx, next); err == nil { // else it went meanwhile
		state.Oldest = first.Time
	}
	return state, nil
}

// infoOf is what the server says of a stream.
func infoOf(have *jetstream.StreamInfo) Info {
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
