//go:build linux

package main

import (
	"context"
	"fmt"
	"time"

	"github.com/logboom/logboom/pkg/record"
)

// drainedWithin bounds the wait for what has accumulated while ClickHouse was away,
// in multiples of that time.
const drainedWithin = 2

// awayFaults stop an engine for the time of -away.
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

// engineAway stops ClickHouse while the load continues, and then waits until
// everything is stored. It notes how fast that was, counting every record that was
// accepted since the stop.
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

// caughtUp waits until the writers are only a few messages behind.
func (t *tools) caughtUp(ctx context.Context, within time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	for {
		behind, err := t.queue.behind(ctx, []record.Kind{record.KindLog, record.KindEvent})
		if err == nil && behind < nearlyDrained {
			return nil
		}
		if pause(ctx, 100*time.Millisecond) != nil {
			return fmt.Errorf("%d messages are not stored after %s: %w", behind, within, errNoEffect)
		}
	}
}

// nearlyDrained is how many messages of all streams may be in progress while the
// load continues.
const nearlyDrained = 100

// accepted returns how many records are accepted so far.
func (t *tools) accepted() int {
	records, _ := t.journal.totals()
	return records[accepted]
}
