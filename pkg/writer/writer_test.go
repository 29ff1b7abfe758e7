package writer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/logboom/logboom/pkg/clickhouse"
	"github.com/logboom/logboom/pkg/embedded"
	"github.com/logboom/logboom/pkg/embedded/engine/enginetest"
	"github.com/logboom/logboom/pkg/lease"
	"github.com/logboom/logboom/pkg/ledger"
	"github.com/logboom/logboom/pkg/record"
	"github.com/logboom/logboom/pkg/stream"
)

func TestMain(m *testing.M) { enginetest.Main(m) }

// bench is a real queue and a real ClickHouse for one test.
type bench struct {
	topology  *stream.Topology
	ledger    *ledger.Ledger
	client    *clickhouse.Client
	url       string // of ClickHouse
	queue     string // the URL of NATS
	js        jetstream.JetStream
	publisher *stream.Publisher
	member    string // the name of its writers; "" for a new one each
}

func newBench(t *testing.T) *bench {
	t.Helper()
	return newBenchOf(t, 1)
}

func newBenchOf(t *testing.T, shards int) *bench {
	t.Helper()
	ctx := t.Context()
	b := &bench{url: enginetest.URL(t)}
	server, err := embedded.StartNATS(ctx, embedded.NATSConfig{DataDir: t.TempDir(), MaxStore: 1 << 30})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Stop(context.Background()) })
	nc, js, err := stream.Connect(ctx, server.URL(), stream.ConnectConfig{Name: "test"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	b.js, b.queue = js, server.URL()
	b.topology, err = stream.Open(ctx, js, stream.Config{Shards: shards, MaxBytes: 64 << 20, DeadMaxBytes: 16 << 20})
	if err != nil {
		t.Fatal(err)
	}
	if b.ledger, err = ledger.Open(ctx, js, 1, nil); err != nil {
		t.Fatal(err)
	}
	b.client, err = openClickHouse(b.url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.client.Close() })
	if err := b.client.Migrate(ctx); err != nil {
		t.Fatal(err)
	}
	b.publisher, err = stream.NewPublisher(b.topology, stream.PublisherConfig{AckTimeout: patience})
	if err != nil {
		t.Fatal(err)
	}
	b.run(t, b.publisher.Run)
	return b
}

// openClickHouse returns a client that waits for an engine on a busy machine.
func openClickHouse(url string) (*clickhouse.Client, error) {
	return clickhouse.Open(clickhouse.Config{URL: url, DialTimeout: patience, ReadTimeout: patience, InsertTimeout: patience})
}

// run runs a function until the test ends or stop is called.
func (b *bench) run(t *testing.T, part func(context.Context) error) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- part(ctx) }()
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-done; err != nil {
			t.Errorf("ended with %v", err)
		}
	}
	t.Cleanup(stop)
	return stop
}

// quick returns a configuration with small batches, so that a test has several.
func quick() settings {
	cfg := defaults()
	cfg.batch.Rows, cfg.batch.Age, cfg.beat = 100, 50*time.Millisecond, 100*time.Millisecond
	return cfg
}

func (b *bench) writer(t *testing.T, cfg settings, sink Sink) *Writer {
	t.Helper()
	leases, err := lease.NewMember(b.ledger.Bucket(), leaseKeys, b.member, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return newWriter(cfg, Deps{
		Logger: testLogger(t), Registry: prometheus.NewRegistry(), Queue: b.topology, Ledger: b.ledger, Leases: leases, Sink: sink,
	})
}

// publish publishes a message with so many logs.
func (b *bench) publish(t *testing.T, name string, rows int) {
	t.Helper()
	if err := b.send(t.Context(), record.KindLog, logs(name, rows), rows); err != nil {
		t.Fatal(err)
	}
}

// logs returns a message with so many logs.
func logs(name string, rows int) []byte {
	var batch record.Batch
	batch.Reset(record.KindLog, "shop~00000000", 30)
	for i := range rows {
		batch.AppendLog(&record.Log{Timestamp: time.Now().UnixNano(), Application: "api", Severity: "INFO", SeverityNumber: 9, Data: fmt.Sprintf("%s %d", name, i)})
	}
	return record.AppendBatch(nil, &batch)
}

func (b *bench) put(t *testing.T, kind record.Kind, payload []byte, rows int) {
	t.Helper()
	if err := b.send(t.Context(), kind, payload, rows); err != nil {
		t.Fatal(err)
	}
}

func (b *bench) send(ctx context.Context, kind record.Kind, payload []byte, rows int) error {
	_, err := b.publisher.Publish(ctx, stream.Message{Kind: kind, Project: "shop~00000000", Parts: [][]byte{payload}, Records: rows})
	return err
}

// stored waits for so many logs and returns their lines, sorted.
func (b *bench) stored(t *testing.T, rows int) []string {
	t.Helper()
	for deadline := time.Now().Add(patience); ; {
		lines := b.lines(t)
		if len(lines) >= rows {
			return lines
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d of %d logs are stored", len(lines), rows)
		}
		<-time.After(20 * time.Millisecond)
	}
}

func (b *bench) lines(t *testing.T) []string {
	t.Helper()
	var lines []string
	query := clickhouse.LogQuery{Project: "shop~00000000", Limit: 1000}
	for {
		page, err := b.client.Logs(t.Context(), query)
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range page.Logs {
			lines = append(lines, l.Data)
		}
		if page.Next == "" {
			slices.Sort(lines)
			return lines
		}
		query.Cursor = page.Next
	}
}

func checkOnce(t *testing.T, lines []string, want int) {
	t.Helper()
	if distinct := len(slices.Compact(slices.Clone(lines))); len(lines) != want || distinct != want {
		t.Fatalf("%d logs, %d of them different, are stored of %d", len(lines), distinct, want)
	}
}

// faulty is the real sink with deliberate faults.
type faulty struct {
	Sink
	before func() error // a fault before the rows are sent
	after  func() error // a fault after the rows are stored
	count  func() error // a fault of counting
}

func (f *faulty) CountRange(ctx context.Context, r clickhouse.Range) (map[string]clickhouse.Count, error) {
	if f.count != nil {
		if err := f.count(); err != nil {
			return nil, err
		}
	}
	return f.Sink.CountRange(ctx, r)
}

func (f *faulty) InsertLogs(ctx context.Context, token string, block *clickhouse.LogBlock) error {
	if f.before != nil {
		if err := f.before(); err != nil {
			return err
		}
	}
	if err := f.Sink.InsertLogs(ctx, token, block); err != nil {
		return err
	}
	if f.after != nil {
		return f.after()
	}
	return nil
}

func TestRowsHaveThePlaceOfTheirMessage(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.run(t, b.writer(t, quick(), b.client).Run)
	b.publish(t, "a", 3)
	b.stored(t, 3)
	page, err := b.client.Logs(t.Context(), clickhouse.LogQuery{Project: "shop~00000000"})
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range page.Logs {
		var i int
		if _, err := fmt.Sscanf(l.Data, "a %d", &i); err != nil {
			t.Fatal(err)
		}
		if want := (record.RowID{Shard: 0, Seq: 1, Idx: uint32(i)}); l.ID != want {
			t.Errorf("%q has the id %s, not %s", l.Data, l.ID, want)
		}
	}
}

func TestEventsAndUsageAreStored(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.run(t, b.writer(t, quick(), b.client).Run)
	var batch record.Batch
	batch.Reset(record.KindEvent, "shop~00000000", 30)
	e := record.Event{Timestamp: time.Now().UnixNano(), Channel: "deploys", Title: "live", Tags: []record.Pair{{Key: "v", Value: "42"}}}
	batch.AppendEvent(&e)
	b.put(t, record.KindEvent, record.AppendBatch(nil, &batch), 1)
	b.publish(t, "a", 5)
	b.stored(t, 5)
	deadline := time.Now().Add(patience)
	for {
		hours, err := b.client.Usage(t.Context(), "shop~00000000", time.Time{}, time.Time{})
		if err != nil {
			t.Fatal(err)
		}
		used := map[string]clickhouse.UsageHour{}
		for _, h := range hours {
			used[h.Measure] = h
		}
		if used["logs"].Records == 5 && used["events"].Records == 1 && used["events"].Bytes == uint64(e.Size()) {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("usage is %+v", hours)
		}
		<-time.After(20 * time.Millisecond)
	}
	page, err := b.client.Events(t.Context(), clickhouse.EventQuery{Project: "shop~00000000"})
	if err != nil || len(page.Events) != 1 || page.Events[0].Title != "live" || page.Events[0].Tags["v"] != "42" {
		t.Fatalf("events: %+v, %v", page, err)
	}
}

func TestFailedInsertIsRetriedUntilItSucceeds(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	var tries atomic.Int32
	sink := &faulty{Sink: b.client, before: func() error {
		if tries.Add(1) <= 3 {
			return errors.New("connection refused")
		}
		return nil
	}}
	b.run(t, b.writer(t, quick(), sink).Run)
	b.publish(t, "a", 10)
	checkOnce(t, b.stored(t, 10), 10)
	if tries.Load() != 4 {
		t.Errorf("%d attempts", tries.Load())
	}
}

func TestLostAnswerDoublesNothing(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	var tries atomic.Int32
	sink := &faulty{Sink: b.client, after: func() error {
		if tries.Add(1)%2 == 1 {
			return errors.New("connection reset")
		}
		return nil
	}}
	b.run(t, b.writer(t, quick(), sink).Run)
	const messages = 10
	for i := range messages {
		b.publish(t, fmt.Sprint("message ", i), 60)
	}
	b.waitStored(t)
	checkOnce(t, b.lines(t), messages*60)
}

// waitStored waits until the ledger has reached the end of every stream.
func (b *bench) waitStored(t *testing.T) {
	t.Helper()
	for deadline := time.Now().Add(patience); ; {
		behind := b.behind(t)
		if behind == "" {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal(behind)
		}
		<-time.After(20 * time.Millisecond)
	}
}

// positions returns the positions of all readers.
func (b *bench) positions(t *testing.T) map[string]ledger.Position {
	t.Helper()
	return answered(t, func() (map[string]ledger.Position, error) { return b.ledger.Positions(t.Context()) })
}

// behind returns a stream that is not committed to its end.
func (b *bench) behind(t *testing.T) string {
	t.Helper()
	positions := b.positions(t)
	for _, name := range append(b.topology.Streams(record.KindLog), b.topology.Streams(record.KindEvent)...) {
		info := answered(t, func() (stream.Info, error) { return b.topology.Info(t.Context(), name) })
		if p := positions[ledger.WriterKey(name)]; p.Committed != info.LastSeq || p.Intent != nil {
			return fmt.Sprintf("%s: committed %d of %d", name, p.Committed, info.LastSeq)
		}
	}
	return ""
}

// The writer dies after its rows are stored and before it commits. The next one
// inserts the same range, although more messages have arrived.
func TestNextWriterFinishesTheIntentWithTheSameRange(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	stored := make(chan struct{}, 1) // one: the first insert tells, the test listens once
	dying := &faulty{Sink: b.client, after: func() error {
		select {
		case stored <- struct{}{}:
		default:
		}
		return errors.New("the process dies here")
	}, count: func() error { return errors.New("the count fails") }}
	cfg := quick()
	cfg.flushTimeout = time.Millisecond
	stop := b.run(t, b.writer(t, cfg, dying).Run)
	b.publish(t, "before", 40)
	wait(t, "the first insert", stored)
	stop()
	for i := range 5 {
		b.publish(t, fmt.Sprint("after ", i), 40)
	}
	b.run(t, b.writer(t, quick(), b.client).Run)
	b.waitStored(t)
	checkOnce(t, b.lines(t), 6*40)
}

func TestUndecodableMessageAloneBecomesADeadLetter(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.publish(t, "before", 5)
	b.put(t, record.KindLog, []byte("no section at all, and long enough not to be one"), 1)
	var events record.Batch
	events.Reset(record.KindEvent, "shop~00000000", 30)
	events.AppendEvent(&record.Event{Channel: "c", Title: "on the wrong stream"})
	b.put(t, record.KindLog, record.AppendBatch(nil, &events), 1)
	b.publish(t, "after", 5)
	b.run(t, b.writer(t, quick(), b.client).Run)
	b.waitStored(t)
	checkOnce(t, b.lines(t), 10)
	info := answered(t, func() (stream.Info, error) { return b.topology.Info(t.Context(), stream.DeadStream) })
	if info.Messages != 2 {
		t.Fatalf("dead letters: %+v", info)
	}
}

func TestStopFlushesTheBatch(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	cfg := defaults()
	cfg.batch.Age, cfg.batch.Idle, cfg.flushTimeout = time.Hour, time.Hour, patience
	w := b.writer(t, cfg, b.client)
	taken := make(chan struct{})
	worker, tell := w.shards[0].workers[0], sync.OnceFunc(func() { close(taken) })
	open := worker.open
	worker.open = func(ctx context.Context, from uint64) (source, error) {
		s, err := open(ctx, from)
		return &attentive{source: s, tell: tell}, err
	}
	stop := b.run(t, w.Run)
	b.publish(t, "a", 20)
	wait(t, "the message to be in the batch", taken)
	stop() // nothing is flushed because of its age; only the stop does it
	checkOnce(t, b.lines(t), 20)
}

// attentive signals when the next message is requested after one, which is in the
// batch then.
type attentive struct {
	source
	came bool
	tell func()
}

func (a *attentive) Next(ctx context.Context) (stream.Delivery, error) {
	if a.came {
		a.tell()
	}
	d, err := a.source.Next(ctx)
	a.came = a.came || err == nil
	return d, err
}

func TestLostQueueStopsTheStreamAndSaysSo(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	position, err := b.ledger.TakeOver(t.Context(), "w.LOGS_0")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.ledger.Commit(t.Context(), "w.LOGS_0", position, 1000, time.Time{}); err != nil {
		t.Fatal(err)
	}
	w := b.writer(t, quick(), b.client)
	b.run(t, w.Run)
	b.publish(t, "a", 1)
	b.alarm(t, w, "LOGS_0", "lost")
	if lines := b.lines(t); len(lines) != 0 {
		t.Fatalf("stored with sequences that were used before: %q", lines)
	}
}

func testLogger(t *testing.T) *slog.Logger {
	return slog.New(slog.NewTextHandler(t.Output(), nil))
}
