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
	// writesFail is for how long writes fail at a time, and writesPass the most
	// that they pass in between.
	writesFail = 2 * time.Millisecond
	writesPass = 300 * time.Millisecond
)

// failWrites makes ClickHouse's writes to files fail, now and then. strace cannot
// tell them from those to pipes and sockets, over which a process falls that has
// nothing to do with disks; a limit of the size of files can. So strace only
// tells whether a write has met it.
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
		return nil // the engine has ended over one
	case err == nil && !strings.Contains(said, "EFBIG"):
		return unfelt(said, "no write failed")
	}
	return err
}

// failWritesOnce lets no file of a process grow for a moment.
func failWritesOnce(pid int) error {
	var before unix.Rlimit
	if err := unix.Prlimit(pid, unix.RLIMIT_FSIZE, nil, &before); err != nil {
		return fmt.Errorf("ask how large the files of process %d may be: %w", pid, err)
	}
	if err := unix.Prlimit(pid, unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: 0, Max: before.Max}, nil); err != nil {
		return fmt.Errorf("limit the files of process %d: %w", pid, err)
	}
	time.Sleep(writesFail)
	if err := unix.Prlimit(pid, unix.RLIMIT_FSIZE, &before, nil); err != nil {
		return fmt.Errorf("limit the files of process %d no more: %w", pid, err)
	}
	return nil
}
