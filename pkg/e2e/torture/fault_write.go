//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// writesFail is how long writes fail at a time, and writesPass the longest time
	// in between.
	writesFail = 2 * time.Millisecond
	writesPass = 300 * time.Millisecond
)

// failWrites makes writes of ClickHouse to files fail repeatedly. It limits the size
// of files, because strace cannot distinguish writes to files from writes to pipes
// and sockets. strace only shows whether a write has failed.
func (t *tools) failWrites(ctx context.Context) error {
	said, err := t.trace(ctx, []string{"trace=write,pwrite64,writev,pwritev"}, func(pid int) error {
		for until := time.Now().Add(injectFor); time.Now().Before(until); {
			if err := failWritesOnce(pid); err != nil {
				return err
			}
			if err := pause(ctx, time.Duration(t.random.Int64N(int64(writesPass)))); err != nil {
				return err
			}
		}
		return nil
	})
	switch {
	case errors.Is(err, unix.ESRCH):
		return nil // a failed write has ended the engine
	case err == nil && !strings.Contains(said, "EFBIG"):
		return unfelt(said, "no write failed")
	}
	return err
}

// failWritesOnce prevents the files of a process from growing for a moment.
func failWritesOnce(pid int) error {
	var before unix.Rlimit
	if err := unix.Prlimit(pid, unix.RLIMIT_FSIZE, nil, &before); err != nil {
		return fmt.Errorf("read the file size limit of process %d: %w", pid, err)
	}
	if err := unix.Prlimit(pid, unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: 0, Max: before.Max}, nil); err != nil {
		return fmt.Errorf("set the file size limit of process %d: %w", pid, err)
	}
	time.Sleep(writesFail)
	if err := unix.Prlimit(pid, unix.RLIMIT_FSIZE, &before, nil); err != nil {
		return fmt.Errorf("restore the file size limit of process %d: %w", pid, err)
	}
	return nil
}
