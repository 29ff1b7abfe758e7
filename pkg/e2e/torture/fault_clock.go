//go:build linux

package main

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// clockStep is the largest change of the clock: less than ingest allows a
	// timestamp to be ahead, and more than any lease lasts.
	clockStep = 90 * time.Second
	// clockStays is how long the change lasts: longer than a lease.
	clockStays = 8 * time.Second
)

// clockFaults set the machine's clock forward or back for a while. They affect
// every program on the machine, so they must be named.
func (t *tools) clockFaults() []*fault {
	step := func(name string, sign time.Duration) *fault {
		return &fault{name: "clock-" + name, apart: true, check: maySetClock, inflict: func(ctx context.Context) error {
			by := sign * (clockStep/3 + time.Duration(t.random.Int64N(int64(clockStep*2/3))))
			return clockPut(ctx, by)
		}}
	}
	return []*fault{step("ahead", 1), step("back", -1)}
}

// maySetClock checks that the clock may be set: it sets it to its value.
func maySetClock() error {
	var now unix.Timespec
	err := unix.ClockGettime(unix.CLOCK_REALTIME, &now)
	if err == nil {
		err = unix.ClockSettime(unix.CLOCK_REALTIME, &now)
	}
	if err != nil {
		return fmt.Errorf("the machine's clock cannot be set (root is needed): %w", err)
	}
	return nil
}

// clockPut changes the clock, waits and changes it back.
func clockPut(ctx context.Context, by time.Duration) (err error) {
	if err := clockMove(by); err != nil {
		return err
	}
	defer func() {
		if back := clockMove(-by); err == nil {
			err = back
		}
	}()
	_ = pause(ctx, clockStays) // at the end of the run it goes back at once
	return nil
}

func clockMove(by time.Duration) error {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_REALTIME, &now); err != nil {
		return fmt.Errorf("read the clock: %w", err)
	}
	moved := unix.NsecToTimespec(now.Nano() + int64(by))
	if err := unix.ClockSettime(unix.CLOCK_REALTIME, &moved); err != nil {
		return fmt.Errorf("set the clock: %w", err)
	}
	return nil
}
