package writer

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/logboom/logboom/pkg/clickhouse"
	"github.com/logboom/logboom/pkg/stream"
)

// ask runs a query as an operator would; its answer is words.
func (b *bench) ask(t *testing.T, query string) []string {
	t.Helper()
	u, err := url.Parse(b.url)
	if err != nil {
		t.Fatal(err)
	}
	u.RawQuery, u.Path = url.Values{"database": {strings.TrimPrefix(u.Path, "/")}}.Encode(), "/"
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, u.String(), strings.NewReader(query))
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusOK {
		t.Fatalf("%s: %d %s %v", query, answer.StatusCode, text, err)
	}
	return strings.Fields(string(text))
}

// healing is a writer that looks after the tables, often, and does not audit: an
// audit that met rows twice would be repeated in an hour.
func (b *bench) healing(t *testing.T, sink Sink) *Writer {
	t.Helper()
	w := b.writer(t, quick(), sink)
	w.deps.Tables = b.client
	for _, shard := range w.shards {
		for _, worker := range shard.workers {
			worker.deps.Tables = b.client
		}
	}
	w.healEvery, w.cfg.AuditEvery = 50*time.Millisecond, 0
	return w
}

// folders are the folders of a table's parts in use, the oldest part first.
func (b *bench) folders(t *testing.T, table string) []string {
	t.Helper()
	return b.ask(t, "SELECT path FROM system.parts WHERE database = currentDatabase() AND active AND table = '"+table+"' ORDER BY min_block_number")
}

// keepParts has ClickHouse merge no parts of a table by itself. A part that a
// test has looked up is there then when the test comes to it. Unlike SYSTEM STOP
// MERGES it lets rows be deleted.
func (b *bench) keepParts(t *testing.T, table string) {
	t.Helper()
	b.execute(t, "ALTER TABLE "+table+" MODIFY SETTING max_bytes_to_merge_at_max_space_in_pool = 1, max_bytes_to_merge_at_min_space_in_pool = 1")
}

// spoil makes a part unreadable, as an error of the disk does that the engine
// has swallowed: a file of it is empty.
func (b *bench) spoil(t *testing.T, folder string) {
	t.Helper()
	marks, err := filepath.Glob(filepath.Join(folder, "data.cmrk*"))
	if err != nil || len(marks) != 1 {
		t.Fatalf("marks in %s: %v (%v)", folder, marks, err)
	}
	if err := os.Truncate(marks[0], 0); err != nil {
		t.Fatal(err)
	}
	b.ask(t, "SYSTEM CLEAR MARK CACHE")
}

// mended waits until the rows of a lost part have been stored again.
func (b *bench) mended(t *testing.T, rows int) {
	t.Helper()
	eventually(t, "the rows to be stored again", func() bool {
		return slices.Equal(b.ask(t, "SELECT count() >= "+strconv.Itoa(rows)+" FROM logs"), []string{"1"})
	})
	checkOnce(t, b.lines(t), rows)
}

func TestPartThatCannotBeReadIsTakenOutAndItsRowsAreStoredAgain(t *testing.T) {
	t.Parallel()
	b := newBenchOf(t, 2)
	b.keepParts(t, "logs")
	w := b.healing(t, b.client)
	b.run(t, w.Run)
	for i := range 6 {
		b.publish(t, strconv.Itoa(i), 30)
	}
	b.settled(t)
	folder := b.folders(t, "logs")[0]
	b.spoil(t, folder)
	eventually(t, "the part to be out of use", func() bool {
		w.doubtParts() // as a count that failed does
		return !slices.Contains(b.folders(t, "logs"), folder)
	})
	b.mended(t, 180)
	if found := b.usage(t); found != 180 {
		t.Errorf("usage says that %d records came", found)
	}
}

// usage is how many logs the usage table has.
func (b *bench) usage(t *testing.T) (records uint64) {
	t.Helper()
	hours, err := b.client.Usage(t.Context(), "shop~00000000", time.Time{}, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	for _, hour := range hours {
		records += hour.Records
	}
	return records
}

// A count that fails over a part brings the part to the healer's attention, and
// goes on once it is out of use.
func TestCountThatMeetsAnUnreadablePartGoesOnOnceItIsOut(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.insertSpoilt(t, func(folder string) { b.spoil(t, folder) })
}

// ClickHouse would read 0 for each sequence that was lost, and none of the rows
// would be found by it.
func TestCountThatMeetsAPartWithoutSequencesGoesOnOnceItIsOut(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.execute(t, "ALTER TABLE logs MODIFY SETTING min_bytes_for_wide_part = 1")
	b.insertSpoilt(t, func(folder string) {
		if err := os.Truncate(filepath.Join(folder, "_seq.bin"), 0); err != nil {
			t.Fatal(err)
		}
	})
}

// insertSpoilt has the first insert end in doubt, with a part that is spoilt, and
// waits until everything is stored.
func (b *bench) insertSpoilt(t *testing.T, spoil func(folder string)) {
	t.Helper()
	b.keepParts(t, "logs")
	sink := b.answersOnceTooLate(func() {
		for _, folder := range b.folders(t, "logs") {
			spoil(folder)
		}
	})
	b.publish(t, "a", 40)
	b.run(t, b.healing(t, sink).Run)
	b.settled(t)
	b.mended(t, 40)
}

// setAside puts the parts of a table, which keepParts keeps, aside as ClickHouse
// does when it starts.
func (b *bench) setAside(t *testing.T, table string) {
	t.Helper()
	for _, folder := range b.folders(t, table) {
		name := filepath.Base(folder)
		b.execute(t, "ALTER TABLE "+table+" DETACH PART '"+name+"'")
		aside := filepath.Join(filepath.Dir(filepath.Clean(folder)), "detached")
		if err := os.Rename(filepath.Join(aside, name), filepath.Join(aside, "broken-on-start_"+name)); err != nil {
			t.Fatal(err)
		}
	}
}

func TestRowsOfPartsThatWereSetAsideAreStoredAgain(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.keepParts(t, "logs")
	stop := b.run(t, b.writer(t, quick(), b.client).Run)
	for i := range 4 {
		b.publish(t, strconv.Itoa(i), 25)
	}
	b.settled(t)
	stop()
	b.setAside(t, "logs")
	b.publish(t, "later", 25)
	w := b.healing(t, b.client)
	b.run(t, w.Run)
	b.mended(t, 125)
	if got := testutil.ToFloat64(w.metrics.setAside); got == 0 {
		t.Error("the metric does not tell of the parts")
	}
}

// An insert of a mending that is in doubt is settled like any other.
func TestMendingSurvivesFailedInserts(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.keepParts(t, "logs")
	stop := b.run(t, b.writer(t, quick(), b.client).Run)
	for i := range 3 {
		b.publish(t, strconv.Itoa(i), 20)
	}
	b.settled(t)
	stop()
	b.setAside(t, "logs")
	times := 0
	sink := &faulty{Sink: b.client, after: func() error {
		if times++; times <= 2 {
			return errors.New("connection reset")
		}
		return nil
	}}
	b.run(t, b.healing(t, sink).Run)
	b.mended(t, 60)
}

// What was erased of a message, or deleted by hand, is no reason to store the
// message again.
func TestMendingLeavesErasedRowsAlone(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.keepParts(t, "logs")
	stop := b.run(t, b.writer(t, quick(), b.client).Run)
	b.publish(t, "whole", 20)
	b.settled(t)
	b.setAside(t, "logs")
	b.publish(t, "half", 20)
	b.settled(t)
	stop()
	b.execute(t, "DELETE FROM logs WHERE data LIKE 'half%' AND _idx >= 10")
	b.run(t, b.healing(t, b.client).Run)
	b.mended(t, 30)
}

func TestPartsOfUsageThatWereSetAsideArePutBack(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.keepParts(t, "usage")
	w := b.healing(t, b.client)
	b.run(t, w.Run)
	b.publish(t, "a", 40)
	b.settled(t)
	b.setAside(t, "usage")
	eventually(t, "usage to be back", func() bool { return b.usage(t) == 40 })
}

// A part that the healer took for unreadable, and that is not, leaves nothing
// behind that would keep the queue from being purged.
func TestOrderForAPartThatIsGoodIsWithdrawn(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	w := b.healing(t, b.client)
	h := newHealer(w)
	answered(t, func() (any, error) {
		return nil, h.order(t.Context(), clickhouse.Part{Table: "logs", Name: "20260101_1_1_0"})
	})
	if done("LOGS_0", b.positions(t)) != 0 {
		t.Error("the queue would not keep its messages")
	}
	for range strayLooks {
		h.withdraw(t.Context(), nil, b.positions(t))
	}
	if need, _ := mending("LOGS_0", b.positions(t)); need < 1<<63 {
		t.Errorf("the queue keeps everything from %d on", need)
	}
}

// What the queue no longer has could not be stored again: the part is left for
// a person to look at.
func TestUnreadablePartThatTheQueueCannotReplaceStaysInUse(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.keepParts(t, "logs")
	stop := b.run(t, b.writer(t, quick(), b.client).Run)
	b.publish(t, "gone", 10)
	b.settled(t)
	stop()
	b.purge(t)
	before := b.folders(t, "logs")
	b.spoil(t, before[0])
	w := b.healing(t, b.client)
	h := newHealer(w)
	for range 3 {
		answered(t, func() (any, error) {
			w.doubtParts()
			return nil, h.look(t.Context())
		})
	}
	if after := b.folders(t, "logs"); !slices.Equal(after, before) || !h.hopeless["logs/"+filepath.Base(before[0])] {
		t.Errorf("parts in use: %q, before %q; given up: %v", after, before, h.hopeless)
	}
}

// broken is ClickHouse with a part of an earlier day beside its table.
type broken struct {
	*clickhouse.Client
	attached []string
}

func (b *broken) Attach(_ context.Context, table, part string) error {
	b.attached = append(b.attached, table+"/"+part)
	return nil
}

func TestPartOfADayThatIsOverIsPutBack(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.run(t, b.writer(t, quick(), b.client).Run)
	b.publish(t, "a", 10)
	b.settled(t)
	positions := b.positions(t)
	received := positions[stream.WriterKey("LOGS_0")].CommittedAt
	yesterday, today := clickhouse.Partition(received.AddDate(0, 0, -1).UnixNano()), clickhouse.Partition(received.UnixNano())
	for name, c := range map[string]struct {
		part clickhouse.SetAside
		back bool
	}{
		"of an earlier day":  {clickhouse.SetAside{Table: "logs", Name: "p", Partition: yesterday, Broken: true}, true},
		"of today":           {clickhouse.SetAside{Table: "logs", Name: "p", Partition: today, Broken: true}, false},
		"in use in parts":    {clickhouse.SetAside{Table: "logs", Name: "p", Partition: yesterday, Broken: true, Overlapped: true}, false},
		"detached by hand":   {clickhouse.SetAside{Table: "logs", Name: "p", Partition: yesterday}, false},
		"of another service": {clickhouse.SetAside{Table: "deliveries", Name: "p", Partition: yesterday, Broken: true}, false},
	} {
		tables := &broken{Client: b.client}
		w := b.writer(t, quick(), b.client)
		w.deps.Tables = tables
		h := newHealer(w)
		back := h.putBack(t.Context(), c.part, positions)
		if c.back && !back { // the queue's answer may have taken too long
			eventually(t, name+" to be put back", func() bool { return h.putBack(t.Context(), c.part, positions) })
			back = true
		}
		if back != c.back || len(tables.attached) > 0 != c.back {
			t.Errorf("%s: put back %v, %v", name, back, tables.attached)
		}
	}
}

// Usage of a part that is gone comes back, from the queue or from what the
// writer has in mind. The newest part has all that came before it, too.
func TestUsageThatWasLostIsStoredAgain(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.keepParts(t, "usage")
	w := b.healing(t, b.client)
	b.run(t, w.Run)
	for i := range 5 {
		b.publish(t, strconv.Itoa(i), 10+i)
		b.settled(t)
	}
	folders := b.folders(t, "usage")
	lost := folders[len(folders)-2:]
	for _, folder := range lost {
		b.spoil(t, folder)
	}
	eventually(t, "the parts to be out of use", func() bool {
		w.doubtParts()
		now := b.folders(t, "usage")
		return !slices.Contains(now, lost[0]) && !slices.Contains(now, lost[1])
	})
	eventually(t, "usage to be whole", func() bool { return b.usage(t) == 60 })
}
