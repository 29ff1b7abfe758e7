//go:build linux

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	injectFor = 8 * time.Second
	// injectStarts is how long strace may need to attach to every thread.
	injectStarts = 5 * time.Second
	fullFor      = 5 * time.Second
	// fullLeaves is how many bytes a full disk has left: some messages still fit,
	// and then none.
	fullLeaves = 256 << 10
	darkFor    = 500 * time.Millisecond
	// repairWithin bounds the repair of what must not stay broken, also when the run
	// is interrupted. It takes seconds on a machine that is not busy.
	repairWithin = 5 * time.Minute
)

// errorFaults make system calls of ClickHouse fail.
func (t *tools) errorFaults() []*fault {
	inject := func(name, calls string, first, step int) *fault {
		return &fault{
			name:    "errors-" + name,
			damages: true,
			check:   func() error { return needs("strace") },
			inflict: func(ctx context.Context) error {
				when := fmt.Sprintf("%d+%d", 1+t.random.IntN(first), step)
				return t.inject(ctx, calls, "error=EIO:when="+when)
			},
		}
	}
	return []*fault{
		inject("rename", "rename,renameat,renameat2", 5, 5),
		inject("fsync", "fsync,fdatasync", 20, 23),
		{name: "errors-write", damages: true, check: func() error { return needs("strace") }, inflict: t.failWrites},
		inject("open", "openat,mkdir", 50, 97),
	}
}

// inject makes some of the engine's calls fail for a while, with strace.
func (t *tools) inject(ctx context.Context, calls, what string) error {
	said, err := t.trace(ctx, []string{"trace=" + calls, "inject=" + calls + ":" + what}, func(int) error { return pause(ctx, injectFor) })
	if err == nil && !strings.Contains(said, "(INJECTED)") {
		return unfelt(said, "none of "+calls+" was called")
	}
	return err
}

// unfelt returns why a fault had no effect, from strace's output.
func unfelt(said, otherwise string) error {
	if strings.Contains(said, "Operation not permitted") {
		return fmt.Errorf("strace may not trace the engine here: %s", said)
	}
	return fmt.Errorf("%s: %w", otherwise, errNoEffect)
}

// trace attaches strace to the engine while something is done to that process, and
// returns its output about calls that failed. It first waits until the engine
// answers: an engine that cannot read a part while it starts puts it aside.
func (t *tools) trace(ctx context.Context, expressions []string, meanwhile func(pid int) error) (string, error) {
	if err := t.awaitEngine(ctx); err != nil {
		return "", err
	}
	pid, err := t.enginePID()
	if err != nil {
		return "", err
	}
	args := []string{"-f", "-Z", "-qq", "-o", "/dev/stderr", "-p", strconv.Itoa(pid), "-e", "signal=none"}
	for _, expression := range expressions {
		args = append(args, "-e", expression)
	}
	var said bytes.Buffer
	strace := exec.CommandContext(ctx, "strace", args...)
	strace.Stderr = &said
	strace.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM} // it detaches from the engine when asked
	strace.Cancel = func() error { return strace.Process.Signal(syscall.SIGTERM) }
	strace.WaitDelay = injectStarts
	if err := strace.Start(); err != nil {
		return "", fmt.Errorf("strace: %w", err)
	}
	err = meanwhile(pid)
	_ = strace.Process.Signal(syscall.SIGTERM) // it has ended where the engine did
	_ = strace.Wait()                          // by that signal
	return said.String(), err
}

// awaitEngine waits until the engine answers.
func (t *tools) awaitEngine(ctx context.Context) error {
	store, err := openStore(t.system.tablesAddr, t.system.password)
	if err != nil {
		return err
	}
	defer func() { _ = store.close() }() // it was only pinged
	wait, cancel := context.WithTimeout(ctx, killWaits)
	defer cancel()
	for {
		err := store.conn.Ping(wait)
		if err == nil {
			return nil
		}
		if pause(wait, 100*time.Millisecond) != nil {
			return fmt.Errorf("the engine does not answer: %w: %w", err, errors.Join(ctx.Err(), errNoEffect))
		}
	}
}

// diskFaults need the volumes under queue and tables.
func (t *tools) diskFaults() []*fault {
	return []*fault{
		{name: "power-loss", check: checkVolumes, inflict: t.losePower, disks: true},
		{name: "full-queue", check: checkVolumes, inflict: t.fillQueue, disks: true},
		{name: "full-tables", check: checkVolumes, inflict: t.fillTables, disks: true, damages: true},
	}
}

// losePower cuts the power of both disks and all processes at the same moment, and
// starts them again with what is left. It is not interrupted, because that would
// leave a system without disks.
func (t *tools) losePower(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), repairWithin)
	defer cancel()
	s := t.system
	volumes := []*volume{s.queueVolume, s.tablesVolume}
	// Without power nothing answers. A process that still ran after the cut could
	// promise something because of a disk that is already stopped.
	for _, service := range s.services() {
		service.freeze()
	}
	for _, v := range volumes {
		if err := v.cutPower(); err != nil {
			return err
		}
	}
	for _, service := range s.services() {
		if err := service.kill(); err != nil {
			return fmt.Errorf("kill %s: %w", service.name, err)
		}
	}
	for _, service := range []*service{s.nats, s.tables} {
		if err := service.hold(ctx); err != nil {
			return err
		}
		defer service.release()
	}
	if err := pause(ctx, darkFor); err != nil {
		return err
	}
	for _, v := range volumes {
		if err := errors.Join(v.unmount(ctx), v.mount(ctx)); err != nil {
			return err
		}
	}
	return nil
}

// fillQueue fills the queue's disk. A nats-server that met a full disk does not
// recover by itself, so it is restarted once there is room.
func (t *tools) fillQueue(ctx context.Context) error {
	free, err := t.system.queueVolume.fill(fullLeaves)
	if err != nil {
		return err
	}
	waited := pause(ctx, fullFor)
	if err := free(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), repairWithin)
	defer cancel()
	_, err = t.system.nats.restartWith(ctx)
	return errors.Join(err, waited)
}

// fillTables fills ClickHouse's disk. ClickHouse recovers by itself.
func (t *tools) fillTables(ctx context.Context) error {
	free, err := t.system.tablesVolume.fill(fullLeaves)
	if err != nil {
		return err
	}
	return errors.Join(pause(ctx, fullFor), free())
}
