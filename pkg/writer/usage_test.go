package writer

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/logboom/logboom/pkg/clickhouse"
	"github.com/logboom/logboom/pkg/ledger"
)

// book is a usage table of one stream.
type book struct {
	Sink
	rows  []clickhouse.UsageRow
	asked int
	err   error
}

func (b *book) UsageOf(_ context.Context, _ string, hour time.Time) (found []clickhouse.UsageRow, err error) {
	b.asked++
	for _, r := range b.rows {
		if r.Hour.Equal(hour) {
			found = append(found, r)
		}
	}
	return found, b.err
}

func logsOf(project string, hour int64, records uint64) (usageKey, tally) {
	return usageKey{project: project, hour: hour, measure: "logs"}, tally{records, 10 * records}
}

func usageOf(project string, hour int64, records uint64) usage {
	key, t := logsOf(project, hour, records)
	return usage{key: t}
}

// stored adds a batch's usage to the sums and describes the rows.
func stored(t *testing.T, s *sums, table *book, to uint64, added usage) (text string) {
	t.Helper()
	if err := s.load(t.Context(), table, "LOGS_0", added); err != nil {
		t.Fatal(err)
	}
	for _, r := range s.add("LOGS_0", to, added) {
		text += fmt.Sprintf("%s %d@%d ", r.Project, r.Records, r.Seq)
	}
	return strings.TrimSpace(text)
}

func TestUsageContinuesFromTheTable(t *testing.T) {
	t.Parallel()
	hour := time.Unix(7200, 0).UTC()
	table := &book{rows: []clickhouse.UsageRow{{Project: "a", Hour: hour, Measure: "logs", Records: 5, Bytes: 50, Stream: "LOGS_0", Seq: 9}}}
	known := newSums(time.Unix(7200, 0))
	both := usageOf("a", 7200, 2)
	both.add(usageKey{project: "b", hour: 7200, measure: "logs"}, 3, 30)
	for _, step := range []struct {
		to   uint64
		with usage
		want string
	}{
		{9, both, "b 3@9"}, // a's part was stored before the writer died, b's was not
		{12, both, "a 7@12 b 6@12"},
		{12, both, ""},
		{20, usageOf("a", 10_800, 1), "a 1@20"},
		{21, usageOf("a", 18_000, 1), "a 1@21"}, // it began after the stream was taken over
	} {
		if got := stored(t, &known, table, step.to, step.with); got != step.want {
			t.Errorf("up to %d: %q, want %q", step.to, got, step.want)
		}
	}
	if table.asked != 2 {
		t.Errorf("the table was read %d times for two hours", table.asked)
	}
}

func TestUsageThatCannotBeReadIsNotGuessed(t *testing.T) {
	t.Parallel()
	known, away := newSums(time.Now()), errors.New("away")
	if err := known.load(t.Context(), &book{err: away}, "LOGS_0", usageOf("a", 7200, 1)); !errors.Is(err, away) || len(known.hours) != 0 {
		t.Errorf("%v, known: %v", err, known)
	}
}

func TestOldHoursOfUsageAreForgotten(t *testing.T) {
	t.Parallel()
	known, table := newSums(time.Unix(3600, 0)), &book{}
	for h := range int64(100) {
		stored(t, &known, table, uint64(h+1), usageOf("a", 3600*(h+1), 1))
		known.forget()
	}
	if len(known.hours) != usageHours || known.hours[3600*100] == nil || known.hours[3600*99] == nil {
		t.Errorf("%d hours are kept", len(known.hours))
	}
	if table.asked != 2 {
		t.Errorf("the table was read for %d hours, all but two of which began after the stream was taken over", table.asked)
	}
	stored(t, &known, table, 101, usageOf("a", 3600*50, 1))
	if table.asked != 3 {
		t.Errorf("an hour that was forgotten was not read again")
	}
}

func TestUsageOfADeadLetterIsOneRowByReason(t *testing.T) {
	t.Parallel()
	brought := usageOf("a", 7200, 4)
	brought.add(usageKey{project: "a", hour: 7200, measure: "events"}, 2, 7)
	brought.add(usageKey{project: "a", hour: 7200, measure: measureDropped, reason: "rate"}, 9, 0)
	got := brought.of(&ledger.Intent{From: 3, To: 3, Dead: "too_odd"})
	want := usage{
		{"a", 7200, measureDropped, "too_odd"}: {6, 47},
		{"a", 7200, measureDropped, "rate"}:    {9, 0},
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%v, want %v", got, want)
	}
	if added := (usage{}).of(&ledger.Intent{}); len(added) != 0 {
		t.Errorf("a batch of nothing adds %v", added)
	}
}

// The table has one row per project, hour and stream, however many batches and
// writers there were.
func TestUsageOfManyBatchesIsOneRow(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for writers := range 2 {
		stop := b.run(t, b.writer(t, quick(), b.client).Run)
		for i := range 3 {
			b.publish(t, fmt.Sprint(writers, i), 10)
			b.waitStored(t)
		}
		stop()
	}
	b.execute(t, "OPTIMIZE TABLE usage FINAL")
	at := time.Now()
	var rows []clickhouse.UsageRow
	for _, hour := range []time.Time{at.Add(-time.Hour), at} { // the hour may have changed meanwhile
		found, err := b.client.UsageOf(t.Context(), "LOGS_0", hour)
		if err != nil {
			t.Fatal(err)
		}
		rows = append(rows, found...)
	}
	count := map[string]uint64{}
	for _, r := range rows {
		count[r.Measure] += r.Records
	}
	if count["logs"] != 60 || count[measureBatches] != 6 || len(rows) > 4 {
		t.Errorf("usage is %+v", rows)
	}
}
