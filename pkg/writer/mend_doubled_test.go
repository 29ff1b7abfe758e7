package writer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/logboom/logboom/pkg/clickhouse"
	"github.com/logboom/logboom/pkg/stream"
)

// double stores rows once more, as a folder does that ClickHouse finds when it
// starts.
func (b *bench) double(t *testing.T, where string) {
	t.Helper()
	b.execute(t, "INSERT INTO logs SELECT * FROM logs WHERE "+where+" SETTINGS insert_deduplicate = 0")
}

// auditing is a writer that looks after the tables and audits, both often.
func (b *bench) auditing(t *testing.T, sink Sink) *Writer {
	t.Helper()
	w := b.healing(t, sink)
	w.cfg.AuditEvery = 200 * time.Millisecond
	return w
}

// filled stores so many messages of 20 rows, and nobody works them then.
func (b *bench) filled(t *testing.T, messages int) {
	t.Helper()
	stop := b.run(t, b.writer(t, quick(), b.client).Run)
	for i := range messages {
		b.publish(t, strconv.Itoa(i), 20)
	}
	b.settled(t)
	stop()
}

// onceAgain waits until the rows are there once and the mending is at its end.
func (b *bench) onceAgain(t *testing.T, w *Writer, rows int) {
	t.Helper()
	eventually(t, "the rows to be there once", func() bool {
		return slices.Equal(b.ask(t, "SELECT count(), uniqExact(_seq, _idx) FROM logs"), []string{strconv.Itoa(rows), strconv.Itoa(rows)}) &&
			len(b.mendings(t)) == 0
	})
	checkOnce(t, b.lines(t), rows)
	eventually(t, "the alarm to be over", func() bool { return testutil.ToFloat64(w.metrics.doubled.WithLabelValues("LOGS_0")) == 0 })
}

// orderDoubled has LOGS_0 mended from a message on, and is the ledger's key of it.
func (b *bench) orderDoubled(t *testing.T, from uint64) string {
	t.Helper()
	return answered(t, func() (string, error) { return orderDoubled(t.Context(), b.topology.Ledger(), "LOGS_0", from) })
}

// mendings is the keys of the mendings that are not at their end.
func (b *bench) mendings(t *testing.T) (keys []string) {
	t.Helper()
	for key, position := range b.positions(t) {
		if strings.Contains(key, mendMark) && position.CommittedAt.IsZero() {
			keys = append(keys, key)
		}
	}
	return keys
}

func TestRowsThatAreThereTwiceAreReplacedFromTheQueue(t *testing.T) {
	t.Parallel()
	for name, double := range map[string]func(t *testing.T, b *bench){
		"in parts of their own": func(t *testing.T, b *bench) {
			b.keepParts(t, "logs")
			b.double(t, "_seq IN (2, 3, 7)")
		},
		"in one part": func(t *testing.T, b *bench) {
			b.double(t, "_seq < 5")
			b.execute(t, "OPTIMIZE TABLE logs FINAL")
		},
		"four times": func(t *testing.T, b *bench) {
			b.double(t, "_seq >= 6")
			b.double(t, "_seq >= 6")
		},
		"in part": func(t *testing.T, b *bench) { b.double(t, "_seq = 4 AND _idx < 7") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.filled(t, 8)
			double(t, b)
			w := b.auditing(t, b.client)
			b.run(t, w.Run)
			b.onceAgain(t, w, 160)
			if found := b.usage(t); found != 160 {
				t.Errorf("usage says that %d records came", found)
			}
		})
	}
}

// What arrives goes on being stored meanwhile, and parts are merged.
func TestDoubledRowsAreReplacedWhileOthersArrive(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.filled(t, 15)
	b.double(t, "_seq % 3 != 0") // five deletions, during each of which the stream waits
	w := b.auditing(t, b.client)
	b.run(t, w.Run)
	for i := range 30 {
		b.publish(t, fmt.Sprint("later ", i), 20)
	}
	b.settled(t)
	b.onceAgain(t, w, 900)
}

// A stream that lost a part has rows twice as well: neither keeps the other from
// being mended.
func TestLostPartIsMendedBesideRowsThatAreThereTwice(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.keepParts(t, "logs")
	b.filled(t, 4)
	b.setAside(t, "logs")
	stop := b.run(t, b.writer(t, quick(), b.client).Run)
	for i := range 4 {
		b.publish(t, fmt.Sprint("kept ", i), 20)
	}
	b.settled(t)
	stop()
	b.double(t, "_seq IN (5, 6, 8)")
	w := b.healing(t, b.client) // the mending is what meets the rows
	b.run(t, w.Run)
	b.onceAgain(t, w, 160)
}

// Rows that were erased, and such whose retention has passed, are no reason to
// touch what is left of a message.
func TestMessageWithFewerRowsIsLeftAlone(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.filled(t, 4)
	b.execute(t, "DELETE FROM logs WHERE _seq = 2 AND _idx >= 5 OR _seq = 3")
	b.double(t, "_seq = 4")
	w := b.auditing(t, b.client)
	b.run(t, w.Run)
	b.onceAgain(t, w, 45)
}

func TestDoubledRowsOfWhatTheQueueNoLongerHasStay(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.filled(t, 3)
	b.double(t, "_seq = 2")
	b.purge(t)
	w := b.auditing(t, b.client)
	b.run(t, w.Run)
	eventually(t, "the alarm", func() bool { return testutil.ToFloat64(w.metrics.doubled.WithLabelValues("LOGS_0")) == 20 })
	a := newAuditor(w)
	a.look(t.Context())
	if keys, rows := b.mendings(t), b.ask(t, "SELECT count() FROM logs"); len(keys) != 0 || rows[0] != "80" {
		t.Errorf("ordered: %v, %s rows of 80 are left", keys, rows)
	}
	b.execute(t, `DELETE FROM logs WHERE (_part, _part_offset) IN (
		SELECT _part, _part_offset FROM (
			SELECT _part, _part_offset, row_number() OVER (PARTITION BY _shard, _seq, _recv, _idx ORDER BY _part, _part_offset) AS copy
			FROM logs WHERE toDate(_recv) >= today() - 1)
		WHERE copy > 1)`) // as the decision says
	checkOnce(t, b.lines(t), 60)
}

// Rows that have another time of receipt are of another message, whose sequence
// a queue that was lost has used again.
func TestDoubledRowsOfAnotherMessageStay(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.filled(t, 3)
	b.insert(t, "x", 2, 5)
	b.double(t, "data = 'from elsewhere'")
	b.double(t, "_seq = 3")
	b.run(t, b.auditing(t, b.client).Run)
	eventually(t, "message 3 to be replaced", func() bool {
		return slices.Equal(b.ask(t, "SELECT countIf(_seq = 3), countIf(_seq = 2) FROM logs"), []string{"20", "30"}) && len(b.mendings(t)) == 0
	})
}

// ClickHouse was started anew while a batch was on its way, and found what it
// had stored of it before its error.
func TestBatchThatIsThereTwiceIsReplaced(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	sink := b.answersOnceTooLate(func() { b.double(t, "1") })
	b.publish(t, "a", 40)
	w := b.healing(t, sink)
	b.run(t, w.Run)
	b.settled(t)
	b.onceAgain(t, w, 40)
}

// More rows than wanted that are no copies are for a person to look at.
func TestBatchWithForeignRowsStopsTheStream(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	sink := b.answersOnceTooLate(func() {
		b.execute(t, "INSERT INTO logs SELECT * REPLACE (_idx + 1000 AS _idx) FROM logs SETTINGS insert_deduplicate = 0")
	})
	b.publish(t, "a", 40)
	w := b.healing(t, sink)
	b.run(t, w.Run)
	b.alarm(t, w, "80 rows where 40 are wanted")
}

// rewritten is ClickHouse with something to happen between the look for parts
// and the deletion.
type rewritten struct {
	*clickhouse.Client
	between func() // after the look
	erased  atomic.Int32
	fails   int32 // deletions that are not answered
	refuses bool  // all deletions
}

func (r *rewritten) PartsOf(ctx context.Context, in clickhouse.Range) (map[string][]string, error) {
	parts, err := r.Client.PartsOf(ctx, in)
	if r.between != nil && len(parts) > 0 {
		r.between()
	}
	return parts, err
}

func (r *rewritten) EraseRange(ctx context.Context, in clickhouse.Range, parts map[string][]string) error {
	if r.refuses {
		return errors.New("connection refused")
	}
	n := r.erased.Add(1)
	if err := r.Client.EraseRange(ctx, in, parts); err != nil || n > r.fails {
		return err
	}
	return errors.New("connection reset")
}

// over has a writer look after these tables.
func over(w *Writer, tables Tables) *Writer {
	w.deps.Tables = tables
	for _, shard := range w.shards {
		for _, worker := range shard.workers {
			worker.deps.Tables = tables
		}
	}
	return w
}

// A mender that is paused before it deletes, while another one takes over.
func TestMenderThatWasTakenOverDeletesNothing(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.filled(t, 2)
	b.double(t, "_seq = 1")
	reader := b.orderDoubled(t, 1)
	tables := &rewritten{Client: b.client}
	tables.between = func() {
		if _, err := b.topology.Ledger().TakeOver(t.Context(), reader); err != nil {
			t.Error(err)
		}
	}
	worker := over(b.writer(t, quick(), b.client), tables).shards[0].workers[0]
	var err error
	if worker.position, err = b.topology.Ledger().TakeOver(t.Context(), worker.reader); err != nil {
		t.Fatal(err)
	}
	_, part, _ := strings.Cut(reader, mendMark)
	eventually(t, "the mender to be fenced", func() bool {
		err := worker.mendAfter(t.Context(), wound{table: "logs", part: part, stream: "LOGS_0"})
		return errors.Is(err, stream.ErrFenced)
	})
	if tables.erased.Load() != 0 {
		t.Errorf("%d deletions", tables.erased.Load())
	}
	w := b.healing(t, b.client)
	b.run(t, w.Run)
	b.onceAgain(t, w, 40)
}

// A stream whose mender was killed may find its rows in one copy, because only
// one of two parts was rewritten: the deletion of the other may still come.
func TestMenderBeginsWithTheDeletionAgain(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.keepParts(t, "logs")
	b.filled(t, 2)
	b.double(t, "_seq = 1")
	reader := b.orderDoubled(t, 1)
	w := over(b.healing(t, b.client), &rewritten{Client: b.client, refuses: true})
	stop := b.run(t, w.Run)
	eventually(t, "the intent", func() bool { return b.positions(t)[reader].Intent != nil })
	stop()
	b.execute(t, "DELETE FROM logs WHERE _seq = 1 AND (_part, _part_offset) IN (SELECT _part, _part_offset FROM logs WHERE _seq = 1 ORDER BY _part DESC, _part_offset DESC LIMIT 20)")
	if rows := b.ask(t, "SELECT count() FROM logs"); rows[0] != "40" {
		t.Fatalf("%s rows are left", rows[0])
	}
	tables := &rewritten{Client: b.client}
	w = over(b.healing(t, b.client), tables)
	b.run(t, w.Run)
	b.onceAgain(t, w, 40)
	if tables.erased.Load() == 0 {
		t.Error("nothing was deleted")
	}
}

func TestDeletionWithoutAnAnswerIsMadeSure(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.filled(t, 3)
	b.double(t, "1")
	tables := &rewritten{Client: b.client, fails: 1}
	w := over(b.auditing(t, b.client), tables)
	b.run(t, w.Run)
	b.onceAgain(t, w, 60)
}

// Parts that are merged between the look and the deletion are looked for again.
func TestPartsThatAreMergedBeforeTheDeletionAreFoundAgain(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.filled(t, 3)
	b.double(t, "1")
	first := once()
	tables := &rewritten{Client: b.client, between: func() {
		if first() {
			b.execute(t, "OPTIMIZE TABLE logs FINAL")
		}
	}}
	w := over(b.auditing(t, b.client), tables)
	b.run(t, w.Run)
	b.onceAgain(t, w, 60)
	if tables.erased.Load() < 2 {
		t.Errorf("%d deletions", tables.erased.Load())
	}
}

func TestOrderForDoubledRowsStandsOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.filled(t, 9)
	first := b.orderDoubled(t, 5)
	positions := b.positions(t)
	if done("LOGS_0", positions) != 4 {
		t.Error("the queue would not keep the messages")
	}
	w := b.healing(t, b.client)
	h := newHealer(w)
	for range strayLooks + 1 { // no part belongs to it, and still it stands
		h.withdraw(t.Context(), nil, positions)
	}
	if later := b.orderDoubled(t, 7); later != first {
		t.Errorf("a second order %s beside %s", later, first)
	}
	if earlier := b.orderDoubled(t, 2); earlier == first {
		t.Error("the order does not reach back to message 2")
	}
}

// Whoever restores ClickHouse alone sets the streams back.
func TestMendingOfAStreamThatWasSetBackComesToItsEnd(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.filled(t, 3)
	b.orderDoubled(t, 9)
	w := b.healing(t, b.client)
	b.run(t, w.Run)
	b.onceAgain(t, w, 60)
}
