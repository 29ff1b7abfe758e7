package writer

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	ch "github.com/ClickHouse/clickhouse-go/v2"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/logboom/logboom/pkg/clickhouse"
	"github.com/logboom/logboom/pkg/ledger"
	"github.com/logboom/logboom/pkg/record"
	"github.com/logboom/logboom/pkg/stream"
)

// execute runs a statement as an operator would.
func (b *bench) execute(t *testing.T, statement string) {
	t.Helper()
	u, err := url.Parse(b.url)
	if err != nil {
		t.Fatal(err)
	}
	database := strings.TrimPrefix(u.Path, "/")
	u.Path, u.RawQuery = "/", url.Values{"database": {database}, "mutations_sync": {"1"}}.Encode()
	request, err := http.NewRequestWithContext(context.WithoutCancel(t.Context()), http.MethodPost, u.String(), strings.NewReader(statement))
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if text, err := io.ReadAll(answer.Body); err != nil || answer.StatusCode != http.StatusOK {
		t.Fatalf("%s: %d %s %v", statement, answer.StatusCode, text, err)
	}
}

// once returns a function that returns true the first time.
func once() func() bool {
	var done atomic.Bool
	return func() bool { return done.CompareAndSwap(false, true) }
}

// losesOneAnswer returns a ClickHouse that stores a batch and then calls meanwhile
// and loses its answer, once.
func (b *bench) losesOneAnswer(meanwhile func()) *faulty {
	first := once()
	return &faulty{Sink: b.client, after: func() error {
		if !first() {
			return nil
		}
		meanwhile()
		return errors.New("connection reset")
	}}
}

// A crash between the token's log and the part's rename leaves a known token without
// rows: a retry with the token is acknowledged and stores nothing.
func TestRowsLostUnderAKnownTokenAreStoredUnderAnother(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	sink := b.losesOneAnswer(func() { b.execute(t, "DELETE FROM logs WHERE 1") })
	b.publish(t, "a", 40)
	b.run(t, b.writer(t, quick(), sink).Run)
	b.waitStored(t)
	checkOnce(t, b.lines(t), 40)
}

func TestPartOfAnInsertStopsTheStreamUntilItIsRemoved(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	sink := b.losesOneAnswer(func() { b.execute(t, "DELETE FROM logs WHERE _idx >= 10") })
	b.publish(t, "a", 40)
	w := b.writer(t, quick(), sink)
	stop := b.run(t, w.Run)
	alarm := b.alarm(t, w, "LOGS_0", "10 of 40 rows")
	stop()
	_, remedy, _ := strings.Cut(alarm, "DELETE")
	remedy, _, _ = strings.Cut(remedy, ";")
	b.execute(t, "DELETE"+remedy) // as the error says
	b.run(t, b.writer(t, quick(), b.client).Run)
	b.waitStored(t)
	checkOnce(t, b.lines(t), 40)
}

// alarm waits until the writer is not ready because of an error with these words,
// and returns the error. Another error may come before, such as a slow answer of
// the queue.
func (b *bench) alarm(t *testing.T, w *Writer, words ...string) string {
	t.Helper()
	for deadline := time.Now().Add(patience); ; <-time.After(10 * time.Millisecond) {
		err := w.Ready(t.Context())
		if err != nil && !slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(err.Error(), word) }) {
			return err.Error()
		}
		if time.Now().After(deadline) {
			t.Fatalf("the writer's error does not have %q: %v", words, err)
		}
	}
}

func TestRefusedMessageBecomesADeadLetterAndNeighboursAreStored(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for i := range 6 {
		b.publish(t, strings.Repeat("m", i+1), 1<<i) // its own power of two
	}
	const poison = 1 << 3
	sink := poisoned{Sink: b.client, rows: poison}
	b.run(t, b.writer(t, quick(), sink).Run)
	b.waitStored(t)
	checkOnce(t, b.lines(t), 63-poison)
	letters := answered(t, func() ([]stream.Delivery, error) { return b.topology.ReadRange(t.Context(), stream.DeadStream, 1, 1) })
	if letters[0].Subject != "dead.LOGS_0.incorrect_data.4" {
		t.Fatalf("dead letters: %+v", letters)
	}
	hours, err := b.client.Usage(t.Context(), "shop~00000000", time.Time{}, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	used := map[string]uint64{}
	for _, h := range hours {
		used[h.Measure+" "+h.Reason] += h.Records
	}
	if used["logs "] != 63-poison || used["dropped incorrect_data"] != poison || len(used) != 2 {
		t.Errorf("usage is %v", used)
	}
}

// poisoned refuses blocks with the message of so many rows.
type poisoned struct {
	Sink
	rows int
}

func (p poisoned) InsertLogs(ctx context.Context, token string, block *clickhouse.LogBlock) error {
	if block.Rows()&p.rows != 0 {
		return &ch.Exception{Code: 117, Message: "incorrect data"}
	}
	return p.Sink.InsertLogs(ctx, token, block)
}

// shifted moves messages from one on to the next day, and those before it to one
// day, at whatever time the test runs.
type shifted struct {
	Queue
	noon time.Time
	from uint64
}

func (s shifted) at(seq uint64) time.Time {
	if seq >= s.from {
		return s.noon.Add(24*time.Hour + time.Duration(seq))
	}
	return s.noon.Add(time.Duration(seq))
}

func (s shifted) move(d stream.Delivery) stream.Delivery {
	d.Time = s.at(d.Seq)
	return d
}

func (s shifted) First(ctx context.Context, name string, from uint64) (stream.Place, error) {
	mark, err := s.Queue.First(ctx, name, from)
	mark.Time = s.at(mark.Seq)
	return mark, err
}

func (s shifted) ReadRange(ctx context.Context, name string, from, to uint64) ([]stream.Delivery, error) {
	deliveries, err := s.Queue.ReadRange(ctx, name, from, to)
	for i := range deliveries {
		deliveries[i] = s.move(deliveries[i])
	}
	return deliveries, err
}

type shiftedSource struct {
	source
	shifted
}

func (s shiftedSource) Next(ctx context.Context) (stream.Delivery, error) {
	d, err := s.source.Next(ctx)
	return s.move(d), err
}

// A batch over midnight: each partition is stored once, whatever earlier attempts
// have stored.
func TestOnlyTheMissingPartitionIsInserted(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for i := range 4 {
		b.publish(t, strings.Repeat("m", i+1), 10)
	}
	var tries atomic.Int32
	sink := &faulty{Sink: b.client, before: func() error {
		if n := tries.Add(1); n == 2 || n == 3 {
			return errors.New("connection reset")
		}
		return nil
	}}
	cfg := quick()
	cfg.batch.Rows, cfg.batch.Age, cfg.batch.Idle = 40, time.Hour, time.Hour // all four are one batch
	w := b.writer(t, cfg, sink)
	night := shifted{Queue: b.topology, noon: time.Now().UTC().Truncate(24 * time.Hour).Add(12 * time.Hour), from: 3}
	worker := w.shards[0].workers[0]
	worker.deps.Queue = night
	open := worker.open
	worker.open = func(ctx context.Context, from uint64) (source, error) {
		s, err := open(ctx, from)
		return shiftedSource{s, night}, err
	}
	b.run(t, w.Run)
	b.waitStored(t)
	checkOnce(t, b.lines(t), 40)
	if tries.Load() != 4 {
		t.Errorf("%d inserts, want one of the first day and three of the second", tries.Load())
	}
}

func TestQueueThatGrewAgainAfterALossStopsTheStream(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for i := range 3 {
		b.publish(t, strings.Repeat("m", i+1), 1)
	}
	position, err := b.ledger.TakeOver(t.Context(), "w.LOGS_0")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.ledger.Commit(t.Context(), "w.LOGS_0", position, 2, time.Now().Add(-time.Hour)); err != nil {
		t.Fatal(err)
	}
	w := b.writer(t, quick(), b.client)
	b.run(t, w.Run)
	b.alarm(t, w, "lost or restored", "--seq 3")
	if lines := b.lines(t); len(lines) != 0 {
		t.Errorf("stored: %q", lines)
	}
}

// The end of the remedy for a lost queue: the sequences continue, and none is used
// again.
func TestStreamWithRaisedSequencesIsStored(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	position, err := b.ledger.TakeOver(t.Context(), "w.LOGS_0")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.ledger.Commit(t.Context(), "w.LOGS_0", position, 10, time.Now().Add(-time.Hour)); err != nil {
		t.Fatal(err)
	}
	b.publish(t, "lost", 1)
	b.purge(t, jetstream.WithPurgeSequence(11))
	b.publish(t, "after", 5)
	b.run(t, b.writer(t, quick(), b.client).Run)
	b.waitStored(t)
	checkOnce(t, b.lines(t), 5)
}

// purge removes messages of LOGS_0 as an operator does.
func (b *bench) purge(t *testing.T, what ...jetstream.StreamPurgeOpt) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	s, err := b.js.Stream(ctx, "LOGS_0")
	if err == nil {
		err = s.Purge(ctx, what...)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestCountsOfRefusedRecordsBecomeUsage(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	var drops record.Batch
	drops.Reset(record.KindDrop, "shop~00000000", 0)
	drops.AppendDrop(&record.Drop{Time: time.Now().UnixNano(), Reason: "daily_records", Records: 700, Bytes: 9000})
	b.put(t, record.KindLog, record.AppendBatch(nil, &drops), 1)
	b.run(t, b.writer(t, quick(), b.client).Run)
	b.waitStored(t)
	hours, err := b.client.Usage(t.Context(), "shop~00000000", time.Time{}, time.Time{})
	if err != nil || len(hours) != 1 || hours[0].Measure != "dropped" || hours[0].Reason != "daily_records" || hours[0].Records != 700 || hours[0].Bytes != 9000 {
		t.Fatalf("usage is %+v, %v", hours, err)
	}
}

func TestTransientRefusalsAreRetried(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	codes := []int32{252, 242, 243, 241, 202, 159, 319, 216, 210}
	var tries atomic.Int32
	sink := &faulty{Sink: b.client, before: func() error {
		if n := int(tries.Add(1)); n <= len(codes) {
			return &ch.Exception{Code: codes[n-1], Message: "not now"}
		}
		return nil
	}}
	b.publish(t, "a", 10)
	b.run(t, b.writer(t, quick(), sink).Run)
	b.waitStored(t)
	checkOnce(t, b.lines(t), 10)
}

// An intent of an old version has only the range and the hash.
func TestIntentWithoutItsRowsIsFinished(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for i := range 3 {
		b.publish(t, strings.Repeat("m", i+1), 10)
	}
	deliveries := answered(t, func() ([]stream.Delivery, error) { return b.topology.ReadRange(t.Context(), "LOGS_0", 1, 2) })
	digest := sha256.New()
	for _, d := range deliveries {
		digest.Write(d.Data)
	}
	b.intend(t, ledger.Intent{From: 1, To: 2, Hash: hex.EncodeToString(digest.Sum(nil)[:8])})
	b.run(t, b.writer(t, quick(), b.client).Run)
	b.waitStored(t)
	checkOnce(t, b.lines(t), 30)
}

// intend leaves an intent in the ledger, as a writer that died does.
func (b *bench) intend(t *testing.T, in ledger.Intent) {
	t.Helper()
	position, err := b.ledger.TakeOver(t.Context(), "w.LOGS_0")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.ledger.Intend(t.Context(), "w.LOGS_0", position, in); err != nil {
		t.Fatal(err)
	}
}

func TestIntentThatCannotBeFinishedStopsTheStream(t *testing.T) {
	t.Parallel()
	for text, in := range map[string]ledger.Intent{
		"a newer version":       {From: 1, To: 1, Hash: "x", Schema: rowsVersion + 1},
		"not what was intended": {From: 1, To: 1, Hash: "x", Schema: rowsVersion},
		"the ledger is at 7":    {From: 1, To: 7, Hash: "x", Schema: rowsVersion},
	} {
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.publish(t, "a", 10)
			b.intend(t, in)
			w := b.writer(t, quick(), b.client)
			b.run(t, w.Run)
			b.alarm(t, w, text)
			if lines := b.lines(t); len(lines) != 0 {
				t.Errorf("stored: %q", lines)
			}
		})
	}
}
