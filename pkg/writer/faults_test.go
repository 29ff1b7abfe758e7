package writer

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	ch "github.com/ClickHouse/clickhouse-go/v2"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/logboom/logboom/pkg/clickhouse"
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

// once is true the first time.
func once() func() bool {
	var done atomic.Bool
	return func() bool { return done.CompareAndSwap(false, true) }
}

// What a crash between the token's log and the part's rename leaves: the token
// is known, the rows are gone, and a retry with the token is answered with ok.
func TestRowsLostUnderAKnownTokenAreStoredUnderAnother(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	first := once()
	sink := &faulty{Sink: b.client, after: func() error {
		if !first() {
			return nil
		}
		b.execute(t, "DELETE FROM logs WHERE 1")
		return errors.New("connection reset")
	}}
	b.publish(t, "a", 40)
	b.run(t, b.writer(t, quick(), sink).Run)
	b.settled(t)
	checkOnce(t, b.lines(t), 40)
}

func TestPartOfAnInsertStopsTheStreamUntilItIsRemoved(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	first := once()
	sink := &faulty{Sink: b.client, after: func() error {
		if !first() {
			return nil
		}
		b.execute(t, "DELETE FROM logs WHERE _idx >= 10")
		return errors.New("connection reset")
	}}
	b.publish(t, "a", 40)
	w := b.writer(t, quick(), sink)
	stop := b.run(t, w.Run)
	alarm := b.alarm(t, w)
	if !strings.Contains(alarm, "LOGS_0") || !strings.Contains(alarm, "10 of 40 rows") {
		t.Fatalf("the alarm is %q", alarm)
	}
	stop()
	_, remedy, _ := strings.Cut(alarm, "DELETE")
	remedy, _, _ = strings.Cut(remedy, ";")
	b.execute(t, "DELETE"+remedy) // as the alarm says
	b.run(t, b.writer(t, quick(), b.client).Run)
	b.settled(t)
	checkOnce(t, b.lines(t), 40)
}

// alarm waits until the writer is unready, and is why.
func (b *bench) alarm(t *testing.T, w *Writer) string {
	t.Helper()
	for deadline := time.Now().Add(patience); ; {
		if err := w.Ready(t.Context()); err != nil {
			return err.Error()
		}
		if time.Now().After(deadline) {
			t.Fatal("the writer is ready")
		}
		<-time.After(10 * time.Millisecond)
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
	b.settled(t)
	checkOnce(t, b.lines(t), 63-poison)
	letters, err := b.topology.Refetch(t.Context(), stream.DeadStream, 1, 1)
	if err != nil || letters[0].Subject != "dead.LOGS_0.incorrect_data.4" {
		t.Fatalf("dead letters: %+v, %v", letters, err)
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

// poisoned refuses blocks that hold the message with so many rows.
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

// shifted moves the messages from one on into the next day.
type shifted struct {
	Queue
	from uint64
}

func (s shifted) move(d stream.Delivery) stream.Delivery {
	if d.Seq >= s.from {
		d.Time = d.Time.Add(24 * time.Hour)
	}
	return d
}

func (s shifted) Refetch(ctx context.Context, name string, from, to uint64) ([]stream.Delivery, error) {
	deliveries, err := s.Queue.Refetch(ctx, name, from, to)
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

// A batch over midnight: each partition is stored once, whatever the tries
// before have left of them.
func TestPartitionThatIsMissingIsStoredAlone(t *testing.T) {
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
	w := b.writer(t, quick(), sink)
	night := shifted{Queue: b.topology, from: 3}
	worker := w.shards[0].workers[0]
	worker.deps.Queue = night
	open := worker.open
	worker.open = func(ctx context.Context, from uint64) (source, error) {
		s, err := open(ctx, from)
		return shiftedSource{s, night}, err
	}
	b.run(t, w.Run)
	b.settled(t)
	checkOnce(t, b.lines(t), 40)
	if tries.Load() != 4 {
		t.Errorf("%d inserts, want one of the first day and three of the second", tries.Load())
	}
}

func TestQueueThatGrewAgainAfterItWasLostStopsTheStream(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for i := range 3 {
		b.publish(t, strings.Repeat("m", i+1), 1)
	}
	ledger := b.topology.Ledger()
	position, err := ledger.TakeOver(t.Context(), "w.LOGS_0")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ledger.CommitAt(t.Context(), "w.LOGS_0", position, 2, time.Now().Add(-time.Hour)); err != nil {
		t.Fatal(err)
	}
	w := b.writer(t, quick(), b.client)
	b.run(t, w.Run)
	if alarm := b.alarm(t, w); !strings.Contains(alarm, "lost or restored") || !strings.Contains(alarm, "--seq 3") {
		t.Errorf("the alarm is %q", alarm)
	}
	if lines := b.lines(t); len(lines) != 0 {
		t.Errorf("stored: %q", lines)
	}
}

// The rest of the remedy for a lost queue: the sequences go on, none is used
// again.
func TestStreamMovedOnByHandGoesOn(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	ledger := b.topology.Ledger()
	position, err := ledger.TakeOver(t.Context(), "w.LOGS_0")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ledger.CommitAt(t.Context(), "w.LOGS_0", position, 10, time.Now().Add(-time.Hour)); err != nil {
		t.Fatal(err)
	}
	b.publish(t, "lost", 1)
	s, err := b.js.Stream(t.Context(), "LOGS_0")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Purge(t.Context(), jetstream.WithPurgeSequence(11)); err != nil {
		t.Fatal(err)
	}
	b.publish(t, "after", 5)
	b.run(t, b.writer(t, quick(), b.client).Run)
	b.settled(t)
	checkOnce(t, b.lines(t), 5)
}

func TestCountsOfRefusedRecordsBecomeUsage(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	var drops record.Batch
	drops.Reset(record.KindDrop, "shop~00000000", 0)
	drops.AppendDrop(&record.Drop{Time: time.Now().UnixNano(), Reason: "daily_records", Records: 700, Bytes: 9000})
	b.put(t, stream.Logs, record.AppendBatch(nil, &drops), 1)
	b.run(t, b.writer(t, quick(), b.client).Run)
	b.settled(t)
	hours, err := b.client.Usage(t.Context(), "shop~00000000", time.Time{}, time.Time{})
	if err != nil || len(hours) != 1 || hours[0].Measure != "dropped" || hours[0].Reason != "daily_records" || hours[0].Records != 700 || hours[0].Bytes != 9000 {
		t.Fatalf("usage is %+v, %v", hours, err)
	}
}

func TestClickHouseThatRefusesForNowIsWaitedFor(t *testing.T) {
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
	b.settled(t)
	checkOnce(t, b.lines(t), 10)
}

// An intent of before the rows were recorded in it has the cut and the hash.
func TestIntentWithoutItsRowsIsFinished(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for i := range 3 {
		b.publish(t, strings.Repeat("m", i+1), 10)
	}
	deliveries, err := b.topology.Refetch(t.Context(), "LOGS_0", 1, 2)
	if err != nil {
		t.Fatal(err)
	}
	digest := sha256.New()
	for _, d := range deliveries {
		digest.Write(d.Data)
	}
	b.intend(t, stream.Intent{From: 1, To: 2, Hash: hex.EncodeToString(digest.Sum(nil)[:8])})
	b.run(t, b.writer(t, quick(), b.client).Run)
	b.settled(t)
	checkOnce(t, b.lines(t), 30)
}

// intend leaves an intent in the ledger, as a writer that died.
func (b *bench) intend(t *testing.T, in stream.Intent) {
	t.Helper()
	ledger := b.topology.Ledger()
	position, err := ledger.TakeOver(t.Context(), "w.LOGS_0")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ledger.Intend(t.Context(), "w.LOGS_0", position, in); err != nil {
		t.Fatal(err)
	}
}

func TestIntentThatCannotBeFinishedStopsTheStream(t *testing.T) {
	t.Parallel()
	for text, in := range map[string]stream.Intent{
		"a newer version":          {From: 1, To: 1, Hash: "x", Schema: rowsVersion + 1},
		"not what was intended":    {From: 1, To: 1, Hash: "x", Schema: rowsVersion},
		"the ledger knows it to 7": {From: 1, To: 7, Hash: "x", Schema: rowsVersion},
	} {
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.publish(t, "a", 10)
			b.intend(t, in)
			w := b.writer(t, quick(), b.client)
			b.run(t, w.Run)
			if alarm := b.alarm(t, w); !strings.Contains(alarm, text) {
				t.Errorf("the alarm is %q", alarm)
			}
			if lines := b.lines(t); len(lines) != 0 {
				t.Errorf("stored: %q", lines)
			}
		})
	}
}
