package writer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/bits"
	"slices"
	"sync"
	"testing/synctest"
	"time"

	ch "github.com/ClickHouse/clickhouse-go/v2"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/logboom/logboom/pkg/clickhouse"
	"github.com/logboom/logboom/pkg/ledger"
	"github.com/logboom/logboom/pkg/record"
	"github.com/logboom/logboom/pkg/stream"
)

// plot is what a model run consists of; the tape holds its random choices.
type plot struct {
	messages    int    // 1 to 9
	midnight    int    // the messages after this one have the next day
	undecodable uint16 // bit i: message i+1 is not a batch of records
	poison      uint16 // bit i: ClickHouse refuses the rows of message i+1
	limits      []int  // rows per batch, for one process after the other
	partial     bool   // a part of an insert may be stored
	expired     bool   // the rows' retention has passed, and a merge may take them
	tape        []byte // every choice, in order; after its end nothing fails
}

// world is the queue, the ledger and ClickHouse of a model run. Processes block in
// their calls to it, and one goroutine grants one call at a time, with or without
// a fault: so it chooses which process is slow, is paused or dies, and when.
// Everything runs in a bubble of testing/synctest, with its own clock.
//
// Each message has a different power of two of rows, so that the number of rows of
// a block identifies the messages in it.
type world struct {
	plot
	begin     time.Time
	processes []*process

	mu      sync.Mutex
	pending []*call

	// The fields below belong to the goroutine that grants.
	position ledger.Position
	intents  map[string]bool // every token that an intent has allowed
	tokens   map[string]bool // logged by ClickHouse, with the partition
	rows     map[uint64]int  // stored, by message
	usage    map[string]clickhouse.UsageRow
	dead     map[uint64]int
	late     []func()
	broken   error // an invariant that did not hold
	torn     bool  // a part of an insert was stored
}

// process is one writer, or a bad writer that must be caught.
type process struct {
	*world
	id      int
	dead    bool // guarded by world.mu
	cancel  context.CancelFunc
	done    chan struct{}
	stopped func() error
}

type call struct {
	process *process
	kind    string
	apply   func(fault) error
	reply   chan error // one: the answer
}

// fault is what happens to a call.
type fault int

const (
	none       fault = iota
	failsFirst       // nothing happens, and the call fails
	answerLost       // it happens, and the call fails
	tornToken        // of an insert: the token is logged, the part is lost, the call fails
	arrives          // of an insert: the call fails, and it happens later
	refusal          // of an insert: too many parts
	half             // of an insert: a part of the rows is stored, the call fails
	diesBefore
	diesAfter
	faults
)

var (
	errReset = errors.New("connection reset by peer")
	errDied  = errors.New("the process is dead")
)

func newWorld(p plot) *world {
	begin := time.Now().UTC().Truncate(24 * time.Hour)
	if p.expired {
		begin = begin.AddDate(0, 0, -10)
	}
	return &world{
		plot: p, begin: begin,
		intents: map[string]bool{}, tokens: map[string]bool{}, rows: map[uint64]int{}, usage: map[string]clickhouse.UsageRow{}, dead: map[uint64]int{},
	}
}

// The queue's messages.

func (w *world) time(seq uint64) time.Time {
	at := w.begin.Add(-time.Minute + time.Duration(seq)*time.Second)
	if seq > uint64(w.midnight) {
		at = w.begin.Add(time.Minute + time.Duration(seq)*time.Second)
	}
	return at
}

func rowsOf(seq uint64) int { return 1 << (seq - 1) }

func (w *world) is(set uint16, seq uint64) bool { return set>>(seq-1)&1 == 1 }

func (w *world) message(seq uint64) stream.Delivery {
	d := stream.Delivery{Stream: "LOGS_0", Seq: seq, Time: w.time(seq), Data: []byte("this is no batch of records at all")}
	if w.is(w.undecodable, seq) {
		return d
	}
	var batch record.Batch
	batch.Reset(record.KindLog, "shop~00000000", 1)
	for i := range rowsOf(seq) {
		batch.AppendLog(&record.Log{Data: fmt.Sprint(seq, " ", i)})
	}
	d.Data = record.AppendBatch(nil, &batch)
	return d
}

// How a call happens.

func (p *process) do(ctx context.Context, kind string, apply func(fault) error) error {
	c := &call{process: p, kind: kind, apply: apply, reply: make(chan error, 1)}
	p.mu.Lock()
	if p.dead {
		p.mu.Unlock()
		return errDied
	}
	p.pending = append(p.pending, c)
	p.mu.Unlock()
	select {
	case err := <-c.reply:
		return err
	case <-ctx.Done():
		p.forget(c)
		return context.Cause(ctx)
	}
}

func (w *world) forget(c *call) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pending = slices.DeleteFunc(w.pending, func(other *call) bool { return other == c })
}

// grant makes a call happen, with a fault.
func (w *world) grant(c *call, f fault) {
	w.forget(c)
	switch f {
	case diesBefore:
		w.kill(c.process)
		return
	case diesAfter:
		_ = c.apply(none)
		w.kill(c.process)
		return
	}
	c.reply <- c.apply(f)
}

// kill ends a process as kill -9 does: nothing more of it happens.
func (w *world) kill(p *process) {
	w.mu.Lock()
	p.dead = true
	for _, c := range w.pending {
		if c.process == p {
			c.reply <- errDied
		}
	}
	w.pending = slices.DeleteFunc(w.pending, func(c *call) bool { return c.process == p })
	w.mu.Unlock()
	p.cancel()
}

// waiting returns the calls to grant, in a deterministic order.
func (w *world) waiting() []*call {
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	slices.SortStableFunc(w.pending, func(a, b *call) int { return cmp.Compare(a.process.id, b.process.id) })
	return slices.Clone(w.pending)
}

func (w *world) alive() []*process {
	var alive []*process
	for _, p := range w.processes {
		select {
		case <-p.done:
		default:
			alive = append(alive, p)
		}
	}
	return alive
}

// start starts a process; run is what it does until its context ends.
func (w *world) start(run func(context.Context, *process) error) {
	ctx, cancel := context.WithCancel(context.Background())
	p := &process{world: w, id: len(w.processes), cancel: cancel, done: make(chan struct{}), stopped: func() error { return nil }}
	w.processes = append(w.processes, p)
	go func() {
		defer close(p.done)
		_ = run(ctx, p) // a process may fail; the test checks the world
	}()
}

// goodWriter runs the real writer with the fakes.
func goodWriter(ctx context.Context, p *process) error {
	cfg := defaults()
	cfg.batch.Rows = p.limits[p.id%len(p.limits)]
	writer := newWriter(cfg, Deps{
		Logger: slog.New(slog.DiscardHandler), Registry: prometheus.NewRegistry(), Queue: fakeQueue{p}, Ledger: fakeLedger{p}, Sink: fakeSink{p},
	})
	worker := writer.shards[0].workers[0]
	worker.open = func(_ context.Context, from uint64) (source, error) { return &fakeSource{p, from}, nil }
	p.stopped = func() error {
		writer.mu.Lock()
		defer writer.mu.Unlock()
		if stopped, ok := errors.AsType[*stoppedError](writer.troubles["LOGS_0"]); ok {
			return stopped
		}
		return nil
	}
	return writer.keepRunning(ctx, worker)
}

type fakeSource struct {
	*process
	next uint64
}

func (s *fakeSource) Next(ctx context.Context) (stream.Delivery, error) {
	if s.next > uint64(s.messages) {
		<-ctx.Done()
		return stream.Delivery{}, ctx.Err()
	}
	err := s.do(ctx, "next", func(fault) error { return nil })
	if err != nil {
		return stream.Delivery{}, err
	}
	s.next++
	return s.message(s.next - 1), nil
}

func (s *fakeSource) Close() {}

type fakeQueue struct{ *process }

func (q fakeQueue) Shards() int { return 1 }

func (q fakeQueue) Consume(context.Context, string, uint64, stream.ConsumerConfig) (*stream.Consumer, error) {
	return nil, errors.ErrUnsupported
}

func (q fakeQueue) Purge(context.Context, string, uint64) (uint64, error) {
	return 0, errors.ErrUnsupported
}

func (q fakeQueue) Info(ctx context.Context, _ string) (info stream.Info, err error) {
	return stream.Info{FirstSeq: 1, LastSeq: uint64(q.messages)}, q.do(ctx, "lag", plain(func() {}))
}

func (q fakeQueue) First(ctx context.Context, _ string, from uint64) (stream.Place, error) {
	return stream.Place{Seq: from, Time: q.time(from)}, q.do(ctx, "first", plain(func() {}))
}

func (q fakeQueue) ReadRange(ctx context.Context, _ string, from, to uint64) (deliveries []stream.Delivery, err error) {
	for seq := from; seq <= to; seq++ {
		deliveries = append(deliveries, q.message(seq))
	}
	return deliveries, q.do(ctx, "refetch", plain(func() {}))
}

func (q fakeQueue) PublishDeadLetter(ctx context.Context, letter stream.DeadLetter) error {
	return q.do(ctx, "bury", plain(func() { q.world.dead[letter.Seq] = 1 })) // the same letter is stored once
}

// plain returns a call that may fail before or after it happens.
func plain(happen func()) func(fault) error {
	return func(f fault) error {
		if f == failsFirst {
			return errReset
		}
		happen()
		if f == answerLost {
			return errReset
		}
		return nil
	}
}

// fakeLedger resolves swaps without an answer by itself, as the real one does.
type fakeLedger struct{ *process }

func (l fakeLedger) TakeOver(ctx context.Context, _ string) (p ledger.Position, err error) {
	err = l.do(ctx, "take over", func(fault) error {
		l.position.Epoch++
		p = copied(l.position)
		return nil
	})
	return p, err
}

func (l fakeLedger) swap(ctx context.Context, verb string, next ledger.Position) (ledger.Position, error) {
	err := l.do(ctx, verb, func(fault) error {
		if next.Epoch != l.position.Epoch {
			return ledger.ErrFenced
		}
		if in := next.Intent; in != nil {
			l.intents[tokenOf("LOGS_0", in)] = true
		}
		l.position = copied(next)
		return nil
	})
	return next, err
}

func (l fakeLedger) Intend(ctx context.Context, _ string, p ledger.Position, in ledger.Intent) (ledger.Position, error) {
	if in.From != p.Committed+1 || in.To < in.From || p.Intent != nil && in.To > p.Intent.To {
		return p, fmt.Errorf("intent %d to %d is not allowed after %+v", in.From, in.To, p)
	}
	p.Intent = &in
	return l.swap(ctx, "intend", p)
}

func (l fakeLedger) Commit(ctx context.Context, _ string, p ledger.Position, to uint64, at time.Time) (ledger.Position, error) {
	if p.Intent == nil || p.Intent.To != to {
		return p, fmt.Errorf("commit %d is not allowed after %+v", to, p)
	}
	p.Committed, p.CommittedAt, p.Intent = to, at, nil
	return l.swap(ctx, "commit", p)
}

func (l fakeLedger) RecordAudit(context.Context, ledger.Audit) error { return errors.ErrUnsupported }

func (l fakeLedger) Positions(context.Context) (map[string]ledger.Position, error) {
	return nil, errors.ErrUnsupported
}

func copied(p ledger.Position) ledger.Position {
	if p.Intent != nil {
		in := *p.Intent
		p.Intent = &in
	}
	return p
}

// fakeSink is ClickHouse: tokens per partition, logged before the part is there.
type fakeSink struct{ *process }

func (s fakeSink) InsertLogs(ctx context.Context, token string, block *clickhouse.LogBlock) error {
	n := block.Rows()
	return s.do(ctx, "insert", func(f fault) error {
		if !s.intents[token] {
			s.broken = fmt.Errorf("token %s was inserted without an intent", token)
		}
		return s.insert(f, token, n)
	})
}

// insert stores the messages whose rows are n together.
func (w *world) insert(f fault, token string, n int) error {
	if bits.TrailingZeros16(w.poison)&15 < 16 && n&int(w.poison) != 0 {
		return &ch.Exception{Code: 117, Message: "incorrect data"}
	}
	switch {
	case f == failsFirst:
		return errReset
	case f == refusal:
		return &ch.Exception{Code: 252, Message: "too many parts"}
	case f == arrives:
		w.late = append(w.late, func() { w.store(token, n, false, false) })
		return context.DeadlineExceeded
	case f == tornToken:
		w.store(token, n, true, false)
		return errReset
	case f == half && w.partial:
		w.torn = true
		w.store(token, n, false, true)
		return errReset
	}
	w.store(token, n, false, false)
	if f == answerLost {
		return errReset
	}
	return nil
}

func (w *world) store(token string, n int, torn, half bool) {
	fresh := map[string]bool{}
	for seq := uint64(1); seq <= uint64(w.messages); seq++ {
		if n&rowsOf(seq) == 0 {
			continue
		}
		key := token + " " + clickhouse.Partition(w.time(seq).UnixNano())
		if !w.tokens[key] {
			w.tokens[key], fresh[key] = true, true
		}
		switch {
		case !fresh[key] || torn:
		case half:
			w.rows[seq] += (rowsOf(seq) + 1) / 2
			half = false // the rest of the insert is lost
			torn = true
		default:
			w.rows[seq] += rowsOf(seq)
		}
	}
}

func (s fakeSink) InsertEvents(context.Context, string, *clickhouse.EventBlock) error {
	return errors.ErrUnsupported
}

func (s fakeSink) InsertUsage(ctx context.Context, token string, rows []clickhouse.UsageRow) error {
	store := func() {
		if s.tokens["usage "+token] {
			return
		}
		s.tokens["usage "+token] = true
		for _, r := range rows {
			key := fmt.Sprint(r.Project, r.Hour, r.Measure, r.Reason, r.Stream)
			if r.Records >= s.usage[key].Records {
				s.usage[key] = r
			}
		}
	}
	return s.do(ctx, "usage", func(f fault) error {
		switch f {
		case failsFirst, refusal:
			return errReset
		case tornToken:
			s.tokens["usage "+token] = true
			return errReset
		case arrives:
			s.late = append(s.late, store)
			return context.DeadlineExceeded
		}
		return plain(store)(f)
	})
}

func (s fakeSink) UsageOf(ctx context.Context, _ string, hour time.Time) (rows []clickhouse.UsageRow, err error) {
	err = s.do(ctx, "usage of", func(f fault) error {
		if f == failsFirst || f == answerLost {
			return errReset
		}
		for _, r := range s.usage {
			if r.Hour.Equal(hour) {
				rows = append(rows, r)
			}
		}
		return nil
	})
	return rows, err
}

func (s fakeSink) CountRange(ctx context.Context, r clickhouse.Range) (counts map[string]clickhouse.Count, err error) {
	err = s.do(ctx, "count", func(f fault) error {
		if f == failsFirst || f == answerLost {
			return errReset
		}
		counts = map[string]clickhouse.Count{}
		for seq := r.From; seq <= r.To; seq++ {
			at := s.time(seq).UnixNano()
			if n := s.rows[seq]; n > 0 && at >= r.ReceivedMin && at <= r.ReceivedMax {
				c := counts[clickhouse.Partition(at)]
				counts[clickhouse.Partition(at)] = clickhouse.Count{Rows: c.Rows + uint64(n), Distinct: c.Distinct + uint64(n)}
			}
		}
		return nil
	})
	return counts, err
}

func (s fakeSink) CountedRows(context.Context, time.Time) (map[clickhouse.StreamHour]clickhouse.HourRows, error) {
	return nil, errors.ErrUnsupported
}

func (s fakeSink) StoredRows(context.Context, time.Time) (map[clickhouse.StreamHour]clickhouse.HourRows, error) {
	return nil, errors.ErrUnsupported
}

func (s fakeSink) BrokenParts(context.Context) (uint64, error) { return 0, errors.ErrUnsupported }
