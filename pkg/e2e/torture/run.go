//go:build linux

package main

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/logboom/logboom/pkg/record"
)

// drainWithin bounds the wait for the writers after the last fault. The leases of
// dead writers, backoffs and a failpoint's sleep end long before, even on a busy
// machine.
const drainWithin = 10 * time.Minute

// run is one torture from the start to the verdict.
type run struct {
	options options
	faults  []*fault
	tools   *tools
	folder  string
	out     io.Writer
	mu      sync.Mutex // guards out and oddities

	system   *system
	queue    *queue
	load     *load
	inflict  *inflictor
	sampler  *sampler
	audit    auditReport
	oddities []string // unexpected events, besides the oracle's findings
	began    time.Time
}

// newRun checks that everything that the options need is there.
func newRun(o options, folder string, out io.Writer) (*run, error) {
	r := &run{options: o, folder: folder, out: out, tools: &tools{random: rand.New(rand.NewPCG(o.seed, 1))}}
	var err error
	if r.faults, err = chosen(r.tools.all(), o.faults); err != nil {
		return nil, err
	}
	for _, f := range r.faults {
		if err := f.Check(); err != nil {
			return nil, fmt.Errorf("fault %s: %w", f.Name(), err)
		}
	}
	return r, nil
}

// disks reports whether a fault needs the volumes.
func disks(faults []*fault) bool {
	for _, f := range faults {
		if f.disks {
			return true
		}
	}
	return false
}

func (r *run) say(format string, arguments ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	at := time.Duration(0)
	if !r.began.IsZero() {
		at = time.Since(r.began)
	}
	fmt.Fprintf(r.out, "%6.1fs  %s\n", at.Seconds(), fmt.Sprintf(format, arguments...))
}

func (r *run) odd(format string, arguments ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.oddities) < maxExamples {
		r.oddities = append(r.oddities, fmt.Sprintf(format, arguments...))
	}
}

// whole runs the system and everything against it. An error is the harness's own;
// what the system did wrong is in the report.
func (r *run) whole(ctx context.Context) (*report, error) {
	r.say("building the processes")
	system, err := newSystem(ctx, r.folder, disks(r.faults), r.options.control)
	if err != nil {
		return nil, err
	}
	r.system, r.tools.system = system, system
	running, stop := context.WithCancel(ctx)
	var group errgroup.Group
	var result *report
	group.Go(func() error {
		defer stop()
		var err error
		result, err = r.against(running)
		return err
	})
	group.Go(func() error {
		defer stop() // a process that cannot be started ends the run
		return system.run(running)
	})
	err = group.Wait()
	if err != nil {
		return nil, err
	}
	return result, ctx.Err()
}

// against tortures the running system and judges what is stored.
func (r *run) against(ctx context.Context) (*report, error) {
	r.say("starting the system")
	if err := r.system.ready(ctx); err != nil {
		return nil, err
	}
	var err error
	if r.queue, err = openQueue(ctx, r.system.natsAddr); err != nil {
		return nil, err
	}
	defer r.queue.close()
	r.tools.poison = &poison{js: r.queue.js, shards: r.queue.topology.Shards()}
	r.began = time.Now()
	if err := r.torture(ctx); err != nil {
		return nil, err
	}
	tortured := time.Since(r.began)
	r.system.undo()
	r.say("waiting until the writers have stored everything")
	drained := r.drain(ctx)
	if drained == nil && r.options.control == "" {
		r.say("waiting for the writers' audit")
		r.audit, drained = r.awaitAudit(ctx)
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return r.judge(ctx, tortured, drained)
}

// drain waits until everything is committed. Where disks fail it does what the
// runbook tells an operator: it takes parts out that ClickHouse cannot read,
// over which counts fail. The engine is restarted in between, because what it
// has in memory is not what it has on disk.
func (r *run) drain(ctx context.Context) error {
	if !r.damages() {
		return r.queue.drain(ctx, drainWithin, r.kinds())
	}
	store, err := openStore(r.system.tablesAddr, r.system.password)
	if err != nil {
		return err
	}
	defer func() { _ = store.close() }() // it was opened for these statements only
	restarted := false
	for began := time.Now(); ; {
		err := store.detachUnreadable(ctx)
		if err == nil {
			err = r.queue.drain(ctx, 30*time.Second, r.kinds())
		}
		switch {
		case err == nil && restarted:
			return nil
		case err == nil:
			restarted = true
			_, err = r.system.tables.restartWith(ctx)
		}
		if err != nil && time.Since(began) > drainWithin || pause(ctx, time.Second) != nil {
			return err
		}
	}
}

// damages reports whether a chosen fault makes ClickHouse lose or double rows
// that it acknowledged: the audit must report them.
func (r *run) damages() bool {
	return r.options.control == "" && slices.ContainsFunc(r.faults, func(f *fault) bool { return f.damages })
}

// kinds returns the kinds of records that are sent: a control stores only logs.
func (r *run) kinds() []record.Kind {
	if r.options.control != "" {
		return []record.Kind{record.KindLog}
	}
	return []record.Kind{record.KindLog, record.KindEvent}
}

// torture sends records and inflicts faults for the given time, and then until
// enough records are accepted.
func (r *run) torture(ctx context.Context) error {
	r.load = &load{
		journal: newJournal(r.options.senders), project: projectName, token: r.system.token,
		rate: r.options.rate, seed: r.options.seed, odd: r.odd,
	}
	for _, kind := range r.kinds() {
		r.load.kinds = append(r.load.kinds, kind.String())
	}
	for _, addr := range r.system.ingestAddrs {
		r.load.urls = append(r.load.urls, "http://"+addr)
	}
	r.tools.queue, r.tools.journal, r.tools.away = r.queue, r.load.journal, r.options.away
	r.sampler = newSampler(r.system.services())
	r.inflict = newInflictor(r.faults, r.tools.random, r.options.calm, r.say)
	r.inflict.patience = killWaits
	r.say("sending %d records a second, inflicting %d faults", r.options.rate, len(r.faults))
	sending, stop := context.WithTimeout(ctx, maxDuration(r.options.duration))
	defer stop()
	group, sending := errgroup.WithContext(sending)
	group.Go(func() error { return r.load.run(ctx, sending) })
	group.Go(func() error { return r.inflictUntil(sending) })
	group.Go(func() error { r.sampler.run(sending); return nil })
	group.Go(func() error {
		defer stop()
		return r.enough(sending)
	})
	if err := group.Wait(); err != nil {
		return err
	}
	return ctx.Err()
}

// inflictUntil inflicts faults until ctx ends. In a soak it ends earlier, so that
// processes live long enough to show leaks.
func (r *run) inflictUntil(ctx context.Context) error {
	if r.options.soak {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, r.options.duration/5*4)
		defer cancel()
	}
	return r.inflict.run(ctx)
}

// maxDuration stops a run that has not reached its record count.
func maxDuration(duration time.Duration) time.Duration { return 3*duration + 15*time.Minute }

// enough returns when the time is over, enough records are accepted and the rounds
// are done.
func (r *run) enough(ctx context.Context) error {
	if pause(ctx, r.options.duration) != nil {
		return nil
	}
	for {
		records, _ := r.load.journal.totals()
		if records[accepted] >= r.options.records && r.inflict.made(r.options.rounds) {
			return nil
		}
		if pause(ctx, 100*time.Millisecond) != nil {
			return nil
		}
	}
}

// judge reads everything back.
func (r *run) judge(ctx context.Context, tortured time.Duration, drained error) (*report, error) {
	r.say("reading everything back")
	store, err := openStore(r.system.tablesAddr, r.system.password)
	if err != nil {
		return nil, err
	}
	defer func() { _ = store.close() }() // it was only read
	result := &report{run: r, tortured: tortured, reported: map[string]int{}}
	if drained != nil {
		result.fail("stuck", drained.Error())
	}
	if err := r.judgePatiently(ctx, store, result); err != nil && ctx.Err() == nil {
		result.fail("unreadable", err.Error())
	}
	if r.options.soak {
		r.judgeSoak(ctx, result)
	}
	result.judgeRun()
	return result, ctx.Err()
}

// readWithin bounds the attempts to read back. The last fault may have killed the
// engine when nothing was left to store, so that nobody has waited for it yet.
const readWithin = 5 * time.Minute

// judgePatiently reads and judges again if something could not be read: the
// engine may be starting, and the machine may stand still.
func (r *run) judgePatiently(ctx context.Context, store *store, result *report) error {
	for began := time.Now(); ; {
		before := len(result.failures)
		err := r.judgeRows(ctx, store, result)
		if err == nil || time.Since(began) > readWithin || pause(ctx, 2*time.Second) != nil {
			return err
		}
		result.failures = result.failures[:before] // they are found again
	}
}

// judgeRows compares the tables with the journal.
func (r *run) judgeRows(ctx context.Context, store *store, result *report) error {
	oracle := newOracle(r.load.journal)
	if err := store.each(ctx, oracle.count); err != nil {
		return err
	}
	var missing []identity
	result.verdict, missing = oracle.judge()
	if len(missing) > 0 {
		result.found = r.queue.find(ctx, missing[:min(len(missing), maxExamples)])
	}
	var err error
	if result.detached, err = store.detached(ctx); err != nil {
		return err
	}
	if r.options.control != "" {
		return nil // it stores nothing but logs
	}
	return r.judgeRest(ctx, store, result)
}

// judgeRest compares usage and the audit with the rows, and the dead letters with
// the poison.
func (r *run) judgeRest(ctx context.Context, store *store, result *report) error {
	used, err := store.used(ctx)
	if err != nil {
		return err
	}
	result.judgeAudit(r.audit, r.damages())
	if used != result.verdict.stored && !r.damages() {
		result.fail("usage", fmt.Sprintf("the usage table counts %d records, %d are stored", used, result.verdict.stored))
	}
	dead, err := r.tools.poison.dead(ctx)
	if err != nil {
		return err
	}
	if result.dead = dead; dead < uint64(r.tools.poison.sent) {
		result.fail("poison", fmt.Sprintf("%d poison messages were published, there are %d dead letters", r.tools.poison.sent, dead))
	}
	return nil
}
