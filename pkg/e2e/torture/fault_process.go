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
	// zombieFor is longer than a writer's lease lasts without a beat, so that
	// another writer has its shards when it continues.
	zombieFor = 16 * time.Second
	// briefZombie is just longer than a lease, which expires after 4.5 s.
	briefZombie = 7 * time.Second
	frozenFor   = 4 * time.Second
	// killWaits is how long a fault waits for its moment. On a machine that is not
	// busy it comes within seconds.
	killWaits = time.Minute
	// failpointWaits is how long it may take to reach a failpoint. After sleepLasts
	// the failpoint's own sleep of 40 s is over.
	failpointWaits = time.Minute
	sleepLasts     = 42 * time.Second
	// failpointVariable sets the failpoint of a writer that is built with the tag
	// failpoint: name:kill|error|sleep:<n>. The writer prints failpointMark and the
	// name when it reaches it.
	failpointVariable = "LOGBOOM_FAILPOINT"
	failpointMark     = "failpoint "
	// writerDays makes such a writer date every second run of four messages of a
	// stream back by a day, so that about every second batch has two partitions.
	writerDays = "LOGBOOM_FAILPOINT_DAYS=4"
)

// failpoints are the steps of pkg/writer at which it can fail. The step inside an
// insert, between two days, would be reached only at midnight without writerDays.
var failpoints = map[string][]string{
	"take-over":     {"kill", "error"},
	"before-intent": {"kill", "error"},
	"after-intent":  {"kill", "error", "sleep"},
	"inside-insert": {"kill", "error", "sleep"},
	"after-insert":  {"kill", "error"},
	"before-commit": {"kill", "error", "sleep"},
	"after-commit":  {"kill", "error"},
}

// pick returns a random service.
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

// killed kills a process with SIGKILL and waits until it is started again.
func killed(ctx context.Context, s *service) error {
	if s.pid() == 0 {
		return fmt.Errorf("%s is not running: %w", s.name, errNoEffect)
	}
	_, err := s.restartWith(ctx)
	return err
}

// killEngineChild kills only ClickHouse: its parent process starts it again with
// the same socket.
func (t *tools) killEngineChild(context.Context) error {
	pid, err := t.enginePID()
	if err != nil {
		return err
	}
	return ended(syscall.Kill(pid, syscall.SIGKILL))
}

// enginePID returns the ID of ClickHouse's own process.
func (t *tools) enginePID() (int, error) {
	pids := children(t.system.tables.pid())
	if len(pids) != 1 {
		return 0, fmt.Errorf("the engine has %d processes: %w", len(pids), errNoEffect)
	}
	return pids[0], nil
}

// killEngineInserting kills ClickHouse while it receives the body of an insert.
func (t *tools) killEngineInserting(ctx context.Context) error {
	done := make(chan error, 1) // one: it is called once
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

// frozen suspends a process for a while.
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
		return fmt.Errorf("stop the engine: %w: %w", err, errNoEffect) // it has just ended
	}
	waited := pause(ctx, frozenFor)
	return errors.Join(ended(syscall.Kill(pid, syscall.SIGCONT)), waited)
}

// flushRedis empties Redis while it is used.
func (t *tools) flushRedis(ctx context.Context) error {
	dialer := net.Dialer{Timeout: dialTimeout}
	conn, err := dialer.DialContext(ctx, "tcp", t.system.redisAddr)
	if err != nil {
		return fmt.Errorf("%w: %w", err, errNoEffect) // it was just killed
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

// failpointFaults are kills, errors, and sleeps that are longer than a lease, so
// that an insert arrives late.
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

// failAt starts a writer with a failpoint and waits until the writer has reached it
// and its effect is over.
func (t *tools) failAt(ctx context.Context, point, verb string) error {
	nth := 1 + t.random.IntN(4)
	if point == "take-over" || point == "inside-insert" {
		nth = 1 // it is reached rarely
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
		_ = pause(ctx, sleepLasts) // the end of ctx is checked below
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err := writer.endLife(ctx, start); err != nil { // the next one has no failpoint
		return err
	}
	if !met {
		return fmt.Errorf("%s was not reached in %s: %w", point, failpointWaits, errNoEffect)
	}
	return nil
}

// prints waits until the process has printed the line again.
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

// endLife kills the process unless it was restarted since that start.
func (s *service) endLife(ctx context.Context, start int) error {
	if s.startNumber() != start {
		return nil
	}
	if err := s.kill(); err != nil {
		return fmt.Errorf("kill %s: %w", s.name, err)
	}
	return s.awaitEndOf(ctx, start)
}
