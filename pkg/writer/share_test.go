package writer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/logboom/logboom/pkg/clickhouse"
	"github.com/logboom/logboom/pkg/lease"
	"github.com/logboom/logboom/pkg/record"
)

// worked returns how many shards the writer holds.
func (w *Writer) worked() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.workers) / 2
}

// shared waits until the writers hold so many shards each, in any order, and
// returns how long it took.
func (b *bench) shared(t *testing.T, want []int, writers ...*Writer) time.Duration {
	t.Helper()
	for began := time.Now(); ; {
		var have []int
		for _, w := range writers {
			have = append(have, w.worked())
		}
		slices.Sort(have)
		if slices.Equal(have, want) {
			return time.Since(began)
		}
		if time.Since(began) > patience {
			t.Fatalf("the writers hold %v shards, want %v", have, want)
		}
		<-time.After(10 * time.Millisecond)
	}
}

// flood publishes until it is stopped. stop returns the number of rows.
func (b *bench) flood(t *testing.T) (stop func() int) {
	t.Helper()
	sum := 0
	stopped := b.run(t, func(ctx context.Context) error {
		for ctx.Err() == nil {
			if err := b.send(context.WithoutCancel(ctx), record.KindLog, logs(fmt.Sprint("row ", sum), 7), 7); err != nil {
				return err
			}
			sum += 7
			<-time.After(10 * time.Millisecond) // as much as the checks can read back
		}
		return nil
	})
	return func() int { stopped(); return sum }
}

// With the default beat: what an operator sees when a writer is added, stopped or
// lost while rows are sent. On an idle machine each takes 1 to 8 s.
func TestWritersShareTheShardsAndStoreEveryRowOnce(t *testing.T) {
	t.Parallel()
	b := newBenchOf(t, 4)
	cfg := quick()
	cfg.beat, cfg.batch.Rows = defaults().beat, 10_000
	stop := b.flood(t)
	first, second, third := b.writer(t, cfg, b.client), b.writer(t, cfg, b.client), b.writer(t, cfg, b.client)
	b.run(t, first.Run)
	alone := b.shared(t, []int{4}, first)
	stopSecond := b.run(t, second.Run)
	added := b.shared(t, []int{2, 2}, first, second)
	dying := &mortal{Leases: third.deps.Leases}
	third.deps.Leases = dying
	kill := b.run(t, third.Run)
	b.shared(t, []int{1, 1, 2}, first, second, third)
	stopSecond()
	stopped := b.shared(t, []int{2, 2}, first, third)
	dying.dead.Store(true)
	kill()
	lost := b.shared(t, []int{4}, first)
	rows := stop()
	b.waitStored(t)
	checkOnce(t, b.lines(t), rows)
	t.Logf("alone %s, added %s, stopped %s, lost %s, %d rows", alone, added, stopped, lost, rows)
	for what, took := range map[string]time.Duration{"alone": alone, "added": added, "stopped": stopped, "lost": lost} {
		if took > time.Minute {
			t.Errorf("%s: it took %s", what, took)
		}
	}
}

// mortal is the leases of a writer that dies without releasing them.
type mortal struct {
	lease.Leases
	dead atomic.Bool
}

func (m *mortal) Release(ctx context.Context, name string) error {
	if m.dead.Load() {
		return nil
	}
	return m.Leases.Release(ctx, name)
}

func (m *mortal) Leave(ctx context.Context) error {
	if m.dead.Load() {
		return nil
	}
	return m.Leases.Leave(ctx)
}

// paused blocks a writer's insert and its beats until let is closed.
type paused struct {
	Sink
	lease.Leases
	reached chan struct{} // one: the insert is there
	let     chan struct{} // closed to continue
}

func (p *paused) InsertLogs(ctx context.Context, token string, block *clickhouse.LogBlock) error {
	select {
	case p.reached <- struct{}{}:
		<-p.let
		ctx = context.WithoutCancel(ctx) // it was sent already
	default:
	}
	return p.Sink.InsertLogs(ctx, token, block)
}

func (p *paused) Beat(ctx context.Context) (lease.View, error) {
	if len(p.reached) > 0 {
		<-p.let
	}
	return p.Leases.Beat(ctx)
}

func TestPausedWriterThatContinuesLateDoesNoHarm(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	first := b.writer(t, quick(), b.client)
	p := &paused{Sink: b.client, Leases: first.deps.Leases, reached: make(chan struct{}, 1), let: make(chan struct{})}
	first.deps.Leases = p
	wake := sync.OnceFunc(func() { close(p.let) })
	for _, worker := range first.shards[0].workers {
		worker.deps.Sink = p
	}
	b.publish(t, "a", 20)
	b.run(t, first.Run)
	t.Cleanup(wake) // before it is stopped, which waits for its insert
	for deadline := time.Now().Add(patience); len(p.reached) == 0; <-time.After(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("nothing was inserted")
		}
	}
	second := b.writer(t, quick(), b.client)
	b.run(t, second.Run)
	for i := range 5 {
		b.publish(t, fmt.Sprint("b", i), 20)
	}
	b.waitStored(t)
	wake()
	b.shared(t, []int{0, 1}, first, second)
	b.publish(t, "c", 20)
	b.waitStored(t)
	checkOnce(t, b.lines(t), 7*20)
}

// Two writers with one name share their leases: only the ledger separates them, and
// each fences the other again and again.
func TestLedgerAloneKeepsTwoWritersApart(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	cfg := quick()
	b.member = "twin"
	stop := b.flood(t)
	b.run(t, b.writer(t, cfg, b.client).Run)
	other := b.run(t, b.writer(t, cfg, b.client).Run)
	<-time.After(3 * time.Second) // while they fence each other
	other()
	rows := stop()
	b.waitStored(t)
	checkOnce(t, b.lines(t), rows)
}

// unreadable is leases whose bucket may not answer.
type unreadable struct {
	lease.Leases
	fail atomic.Bool
}

func (u *unreadable) Beat(ctx context.Context) (lease.View, error) {
	if u.fail.Load() {
		return lease.View{}, errors.New("no answer")
	}
	return u.Leases.Beat(ctx)
}

func TestLeasesThatCannotBeReadStopNoWriter(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	w := b.writer(t, quick(), b.client)
	broken := &unreadable{Leases: w.deps.Leases}
	w.deps.Leases = broken
	b.run(t, w.Run)
	b.publish(t, "a", 5)
	b.stored(t, 5)
	broken.fail.Store(true)
	b.alarm(t, w, "no answer")
	b.publish(t, "b", 5)
	checkOnce(t, b.stored(t, 10), 10)
}

func TestWriterLeavesNothingRunning(t *testing.T) {
	b := newBench(t)
	b.publish(t, "a", 5) // what publishing needs runs from here on
	ignore := goleak.IgnoreCurrent()
	stop := b.run(t, b.writer(t, quick(), b.client).Run)
	b.stored(t, 5)
	stop()
	answered(t, func() (any, error) { // each time it waits for half a second
		return nil, goleak.Find(ignore, goleak.IgnoreAnyFunction("github.com/nats-io/nats-server/v2/server.(*Server).startGoRoutine.func1"),
			// The test's own server ends a consumer's goroutines when it gets to it.
			goleak.IgnoreAnyFunction("github.com/nats-io/nats-server/v2/server.(*consumer).loopAndGatherMsgs"),
			goleak.IgnoreAnyFunction("github.com/nats-io/nats-server/v2/server.(*consumer).processInboundAcks"),
			goleak.IgnoreAnyFunction("github.com/nats-io/nats-server/v2/server.(*consumer).processInboundNextMsgReqs"),
			goleak.IgnoreAnyFunction("net/http.(*persistConn).readLoop"),
			goleak.IgnoreAnyFunction("net/http.(*persistConn).writeLoop"),
			goleak.IgnoreAnyFunction("github.com/nats-io/nats-server/v2/server.(*msgBlock).flushLoop"))
	})
}
