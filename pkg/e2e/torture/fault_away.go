//go:build linux

package main

import (
	"context"
	"fmt"
	"time"

	"github.com/logboom/logboom/pkg/record"
)

// drainedWithin bounds the wait for what piled up while ClickHouse was away, in
// times of its absence.
const drainedWithin = 2

// awayFaults take an engine away for -away.
func (t *tools) awayFaults() []*fault {
	return []*fault{
		{name: "away-engine", inflict: t.engineAway},
		{name: "away-redis", inflict: func(ctx context.Context) error {
			if err := t.system.redis.hold(ctx); err != nil {
				return err
			}
			defer t.system.redis.release()
			return pause(ctx, t.away)
		}},
	}
}

// engineAway takes ClickHouse away while the load goes on, and then waits until
// what piled up is stored. It tells how fast that went: every record accepted
// from the beginning of the absence on has to be caught up with.
func (t *tools) engineAway(ctx context.Context) error {
	before := t.accepted()
	if err := t.system.tables.hold(ctx); err != nil {
		return err
	}
	waited := pause(ctx, t.away)
	piled := t.accepted() - before
	t.system.tables.release()
	if waited != nil {
		return waited
	}
	if err := t.awaitEngine(ctx); err != nil {
		return err
	}
	began := time.Now()
	if err := t.caughtUp(ctx, drainedWithin*t.away+drainWithin); err != nil {
		return err
	}
	took := time.Since(began).Seconds()
	during := t.accepted() - before - piled
	t.notes = append(t.notes, fmt.Sprintf("ClickHouse away for %s: %d records piled up, and %d more came while they were stored in %.1f s: %.0f records a second",
		t.away, piled, during, took, float64(piled+during)/took))
	return nil
}

// caughtUp waits until the writers are no more than a few messages behind.
func (t *tools) caughtUp(ctx context.Context, within time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	for {
		behind, err := t.queue.behind(ctx, []record.Kind{record.KindLog, record.KindEvent})
		if err == nil && behind < nearlyDrained {
			return nil
		}
		if pause(ctx, 100*time.Millisecond) != nil {
			return fmt.Errorf("%d messages are still to be stored after %s: %w", behind, within, errNoEffect)
		}
	}
}

// nearlyDrained is how many messages of all streams may be on their way while
// the load goes on.
const nearlyDrained = 100

// accepted is how many records were accepted so far.
func (t *tools) accepted() int {
	records, _ := t.journal.totals()
	return records[accepted]
}
