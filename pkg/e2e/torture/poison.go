//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/logboom/logboom/pkg/record"
	"github.com/logboom/logboom/pkg/stream"
)

// poison publishes messages that are not batches of records, as another version or
// another program may leave them. Each must become a dead letter and have no other
// effect.
type poison struct {
	js     jetstream.JetStream
	shards int
	sent   int // acknowledged by the queue
}

// publish publishes one to a shard.
func (p *poison) publish(ctx context.Context, random *rand.Rand) error {
	kind, suffix := record.KindLog, ""
	if random.IntN(3) == 0 {
		kind, suffix = record.KindEvent, ".quiet"
	}
	body := make([]byte, 1+random.IntN(2000))
	for i := range body {
		body[i] = byte(random.Uint32())
	}
	subject := fmt.Sprintf("%s.%d%s", kind, random.IntN(p.shards), suffix)
	if _, err := p.js.Publish(ctx, subject, body); err != nil {
		return fmt.Errorf("publish to %s: %w", subject, errors.Join(err, errNoEffect))
	}
	p.sent++
	return nil
}

// dead returns how many dead letters there are.
func (p *poison) dead(ctx context.Context) (uint64, error) {
	letters, err := p.js.Stream(ctx, stream.DeadStream)
	if err != nil {
		return 0, fmt.Errorf("stream %s: %w", stream.DeadStream, err)
	}
	return letters.CachedInfo().State.Msgs, nil
}
