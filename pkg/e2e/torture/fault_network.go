//go:build linux

package main

import (
	"context"
	"fmt"
	"time"
)

const (
	stallFor = 5 * time.Second
	// muteFor is shorter than the writer's deadline for an insert, so that the writer
	// gets a reset and not only a timeout.
	muteFor = 3 * time.Second
	slowFor = 4 * time.Second
	// cutWaits is how long a reset waits for a request to break; few requests to
	// Redis are that long.
	cutWaits = 10 * time.Second
)

// networkFaults break connections between processes and engines. Their names end
// with the connection: intake is from ingest to the queue, queue from the writer to
// the queue, tables from the writer to ClickHouse, redis from ingest to Redis.
func (t *tools) networkFaults() []*fault {
	ways := []struct {
		name string
		way  func() *proxy
	}{
		{"intake", func() *proxy { return t.system.ingestQueue }},
		{"queue", func() *proxy { return t.system.writerQueue }},
		{"tables", func() *proxy { return t.system.writerTables }},
		{"redis", func() *proxy { return t.system.ingestRedis }},
	}
	var faults []*fault
	for _, w := range ways {
		mode := func(verb string, mode traffic, d time.Duration) *fault {
			return &fault{name: verb + "-" + w.name, inflict: func(ctx context.Context) error {
				way := w.way()
				way.set(mode)
				defer way.set(flowing)
				return pause(ctx, d)
			}}
		}
		faults = append(faults,
			mode("partition", stalled, stallFor),
			mode("mute", muted, muteFor),
			mode("slow", slow, slowFor),
			&fault{name: "reset-" + w.name, inflict: func(ctx context.Context) error { return t.cut(ctx, w.way()) }},
		)
	}
	return faults
}

// cut resets every connection of a proxy in the middle of a request.
func (t *tools) cut(ctx context.Context, way *proxy) error {
	done := make(chan int, 1) // one: it is called once
	way.after(1+t.random.IntN(64<<10), func() { done <- way.reset() })
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(cutWaits):
	}
	way.after(0, nil)
	if n := way.reset(); n > 0 {
		return nil // requests are too short, as those to Redis
	}
	return fmt.Errorf("%s has no connections: %w", way.name, errNoEffect)
}
