package ledger

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/logboom/logboom/pkg/kv"
	"github.com/logboom/logboom/pkg/record"
	"github.com/logboom/logboom/pkg/stream"
)

// ShardState is the state of one stream and of the writer that reads it.
type ShardState struct {
	Stream string
	stream.Info
	Committed uint64    // the last sequence that the writer has committed
	Waiting   uint64    // number of messages after it
	Oldest    time.Time // when the queue stored the first of them; zero where none waits
}

// Shards returns the states of all streams, logs before events, and nothing where
// there is no queue yet. It creates nothing. The error is stream.ErrUnavailable
// where they cannot be read.
func Shards(ctx context.Context, js jetstream.JetStream) ([]ShardState, error) {
	var readers map[string]Position
	bucket, err := kv.Find(ctx, js, BucketName)
	if err == nil {
		readers, err = positions(ctx, bucket)
	}
	if err != nil && !errors.Is(err, kv.ErrNotFound) {
		return nil, fmt.Errorf("%w: %w", stream.ErrUnavailable, err)
	}
	var states []ShardState
	for _, kind := range []record.Kind{record.KindLog, record.KindEvent} {
		for shard := range stream.MaxShards {
			name := stream.Name(kind, shard)
			state, err := shardState(ctx, js, name, readers[WriterKey(name)].Committed)
			if errors.Is(err, jetstream.ErrStreamNotFound) {
				break
			}
			if err != nil {
				return nil, fmt.Errorf("state of stream %s: %w: %w", name, stream.ErrUnavailable, err)
			}
			states = append(states, state)
		}
	}
	return states, nil
}

func shardState(ctx context.Context, js jetstream.JetStream, name string, committed uint64) (ShardState, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	s, err := js.Stream(ctx, name)
	if err != nil {
		return ShardState{}, err
	}
	state := ShardState{Stream: name, Info: stream.InfoOf(s.CachedInfo()), Committed: committed}
	next := max(committed+1, state.FirstSeq)
	if state.LastSeq < next {
		return state, nil
	}
	state.Waiting = state.LastSeq - next + 1
	if first, err := s.GetMsg(ctx, next); err == nil { // otherwise it was purged meanwhile
		state.Oldest = first.Time
	}
	return state, nil
}
