//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"syscall"
	"time"
)

const (
	// zombieFor is longer than a lease of a writer lives without a beat, so
	// that another writer works its shards when it wakes.
	zombieFor = 16 * time.Second
	// briefZombie is just longer than that: a lease lapses after 4.5 s.
	briefZombie = 7 * time.Second
	frozenFor   = 4 * time.Second
	// killWaits is how long a fault waits for what it is to meet: seconds, but
	// where the whole machine stands still for a while.
	killWaits = time.Minute
	// failpointWaits is how long it may take to come to a failpoint; and
	// sleepLasts that the failpoint's own sleep of 40 s is over.
	failpointWaits = time.Minute
	sleepLasts     = 42 * time.Second
	// failpointVariable is what a writer built with the tag failpoint obeys:
	// name:kill|error|sleep:<n-th>. It prints failpointMark and the name then.
	failpointVariable = "LOGBOOM_FAILPOINT"
	failpointMark     = "failpoint "
	// writerDays has such a writer take every second run of four messages of a
	// stream for those of the day before, so that every second batch or so has
	// rows of two partitions.
	writerDays = "LOGBOOM_FAILPOINT_DAYS=4"
)

// failpoints are the steps of pkg/writer at which it can be made to fail. The
// step inside an insert, between two days, would be come to at midnight alone:
// writerDays has it come all the time.
var failpoints = map[string][]string{
	"take-over":     {"kill", "error"},
	"before-intent": {"kill", "error"},
	"after-intent":  {"kill", "error", "sleep"},
	"inside-insert": {"kill", "error", "sleep"},
	"after-insert":  {"kill", "error"},
	"before-commit": {"kill", "error", "sleep"},
	"after-commit":  {"kill", "error"},
}

// pick draws one of several services.
func (t *tools) pick(from []*service) *service { return from[t.random.IntN(len(from))] }

func (t *tools) processFaults() []*fault {
	kill := func(name string, which func() *service) *fault {
		return &fault{name: "kill-" + name, inflict: func(ctx context.Context) error { return killed(ctx, which()) }}
	}
	return []*fault{
		kill("ingest", func() *service { return t.pick(t.system.ingest) }),
		kill("writer", func() *service { return t.pick(t.system.writers) }),
		kill("nats", func() *service { return t.system.nats }),
		kill("redis", func() *service { return t.system.redis }),
		kill("engine", func() *service { return t.system.tables }),
		{name: "kill-engine-child", inflict: t.killEngineChild},
		{name: "kill-engine-inserting", inflict: t.killEngineInserting},
		{name: "kill-all", inflict: t.killAll},
		{name: "zombie-writer", inflict: func(ctx context.Context) error { return frozen(ctx, t.pick(t.system.writers), zombieFor) }},
		{name: "zombie-brief", inflict: func(ctx context.Context) error { return frozen(ctx, t.pick(t.system.writers), briefZombie) }},
		{name: "freeze-nats", inflict: func(ctx context.Context) error { return frozen(ctx, t.system.nats, frozenFor) }},
		{name: "freeze-engine", inflict: t.freezeEngine},
		{name: "freeze-redis", inflict: func(ctx context.Context) error { return frozen(ctx, t.system.redis, frozenFor) }},
		{name: "flush-redis", inflict: t.flushRedis},
	}
}

// killed kills a process with -9 and waits for the next one.
func killed(ctx context.Context, s *service) error {
	if s.pid() == 0 {
		return fmt.Errorf("%s is not running: %w", s.name, errNoEffect)
	}
	_, err := s.restartWith(ctx)
	return err
}

// killEngineChild kills ClickHouse alone: the process that looks after it
// starts it again behind the same socket.
func (t *tools) killEngineChild(context.Context) error {
	pid, err := t.enginePID()
	if err != nil {
		return err
	}
	return ended(syscall.Kill(pid, syscall.SIGKILL))
}

// enginePID is ClickHouse's own process.
func (t *tools) enginePID() (int, error) {
	pids := children(t.system.tables.pid())
	if len(pids) != 1 {
		return 0, fmt.Errorf("the engine has %d processes: %w", len(pids), errNoEffect)
	}
	return pids[0], nil
}

// killEngineInserting kills ClickHouse when the body of an insert is under
// way to it.
func (t *tools) killEngineInserting(ctx context.Context) error {
	done := make(chan error, 1) // one: the fuse burns once
	t.system.writerTables.after(8<<10+t.random.IntN(128<<10), func() { done <- t.killEngineChild(ctx) })
	select {
	case err := <-done:
		return err
	case <-time.After(killWaits):
		t.system.writerTables.after(0, nil)
		return fmt.Errorf("no insert came within %s: %w", killWaits, errNoEffect)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// killAll kills every process at the same moment.
func (t *tools) killAll(ctx context.Context) error {
	for _, s := range t.system.services() {
		if err := s.kill(); err != nil {
			return fmt.Errorf("kill %s: %w", s.name, err)
		}
	}
	return ctx.Err()
}

// frozen stops a process for a while, without its knowledge.
func frozen(ctx context.Context, s *service, d time.Duration) error {
	if err := s.signal(syscall.SIGSTOP); err != nil {
		return err
	}
	waited := pause(ctx, d)
	return errors.Join(s.signal(syscall.SIGCONT), waited)
}

func (t *tools) freezeEngine(ctx context.Context) error {
	pid, err := t.enginePID()
	if err != nil {
		return err
	}
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		return fmt.Errorf("stop the engine: %w: %w", err, errNoEffect) // it ended just now
	}
	waited := pause(ctx, frozenFor)
	return errors.Join(ended(syscall.Kill(pid, syscall.SIGCONT)), waited)
}

// flushRedis empties Redis under everybody's feet.
func (t *tools) flushRedis(ctx context.Context) error {
	dialer := net.Dialer{Timeout: dialTimeout}
	conn, err := dialer.DialContext(ctx, "tcp", t.system.redisAddr)
	if err != nil {
		return fmt.Errorf("%w: %w", err, errNoEffect) // it was killed just now
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(dialTimeout)); err != nil {
		return err
	}
	answer := make([]byte, len("+OK"))
	_, err = conn.Write([]byte("FLUSHALL\r\n"))
	if err == nil {
		_, err = conn.Read(answer)
	}
	if err != nil || string(answer) != "+OK" {
		return fmt.Errorf("redis answered %q (%v): %w", answer, err, errNoEffect)
	}
	return nil
}

// failpointFaults are kills, errors, and sleeps longer than a lease, by which
// an insert comes late.
func (t *tools) failpointFaults() []*fault {
	var faults []*fault
	for _, point := range slices.Sorted(maps.Keys(failpoints)) {
		for _, verb := range failpoints[point] {
			faults = append(faults, &fault{
				name:    "failpoint-" + point + "-" + verb,
				inflict: func(ctx context.Context) error { return t.failAt(ctx, point, verb) },
			})
		}
	}
	return faults
}

// failAt starts a writer with a failpoint and waits until it has met it, which
// it prints, and what comes of it is over.
func (t *tools) failAt(ctx context.Context, point, verb string) error {
	nth := 1 + t.random.IntN(4)
	if point == "take-over" || point == "inside-insert" {
		nth = 1 // it is not passed often
	}
	writer := t.pick(t.system.writers)
	mark := failpointMark + point
	before := writer.out.times(mark)
	start, err := writer.restartWith(ctx, fmt.Sprintf("%s=%s:%s:%d", failpointVariable, point, verb, nth))
	if err != nil {
		return err
	}
	met := writer.prints(ctx, mark, before, failpointWaits)
	if met && verb == "sleep" {
		_ = pause(ctx, sleepLasts) // its end by ctx is looked at below
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err := writer.endLife(ctx, start); err != nil { // the next one has no failpoint
		return err
	}
	if !met {
		return fmt.Errorf("%s was not come to in %s: %w", point, failpointWaits, errNoEffect)
	}
	return nil
}

// prints waits until the process has printed the line more often than before.
func (s *service) prints(ctx context.Context, line string, before int, within time.Duration) bool {
	wait, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	for s.out.times(line) <= before {
		if pause(wait, 20*time.Millisecond) != nil {
			return false
		}
	}
	return true
}

// endLife kills the process if it is that start of it still.
func (s *service) endLife(ctx context.Context, start int) error {
	if s.startNumber() != start {
		return nil
	}
	if err := s.kill(); err != nil {
		return fmt.Errorf("kill %s: %w", s.name, err)
	}
	return s.awaitEndOf(ctx, start)
}
