package clickhouse

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/logboom/logboom/pkg/record"
)

// The bound on rows must not apply: an incomplete answer would let a queue use
// sequences again.
func TestLastStoredIncludesRowsAndUsage(t *testing.T) {
	t.Parallel()
	client := migrated(t, "")
	client.config.MaxReadRows = 1
	var logs LogBlock
	fill(&logs, 1, 40, noon, 3)
	fill(&logs, 2, 7, noon, 1)
	var events EventBlock
	events.Append(Row{Shard: 1, Seq: 90, Received: noon, Project: project}, &record.Event{Channel: "c", Title: "t"})
	dead := UsageRow{Hour: time.Unix(0, noon), Project: project, Measure: "dropped", Reason: "poison", Records: 1, Stream: "LOGS_1", Seq: 44}
	for _, err := range []error{
		client.InsertLogs(t.Context(), "l", &logs), client.InsertEvents(t.Context(), "e", &events), client.InsertUsage(t.Context(), "u", []UsageRow{dead}),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		kind        record.Kind
		shard       int
		above       uint64
		stored, row uint64
	}{
		{record.KindLog, 1, 0, 44, 40}, {record.KindLog, 1, 43, 44, 0}, {record.KindLog, 1, 44, 0, 0}, {record.KindLog, 2, 6, 7, 7}, {record.KindLog, 2, 7, 0, 0},
		{record.KindLog, 0, 0, 0, 0}, {record.KindEvent, 1, 0, 90, 90}, {record.KindEvent, 1, 90, 0, 0},
	} {
		if got, err := client.LastStored(t.Context(), c.kind, c.shard, c.above); err != nil || got != c.stored {
			t.Errorf("%s of shard %d above %d: %d, %v; want %d", c.kind, c.shard, c.above, got, err, c.stored)
		}
		if got, err := client.LastRow(t.Context(), c.kind, c.shard, c.above); err != nil || got != c.row {
			t.Errorf("rows of %s of shard %d above %d: %d, %v; want %d", c.kind, c.shard, c.above, got, err, c.row)
		}
	}
}

func TestLastStoredFailsWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	client := migrated(t, "")
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := client.LastStored(ended, record.KindLog, 0, 0); err == nil {
		t.Error("no answer counts as nothing stored")
	}
	for _, shard := range []int{-1, 256} {
		if _, err := client.LastStored(t.Context(), record.KindLog, shard, 0); err == nil {
			t.Errorf("there is a shard %d", shard)
		}
	}
}

// storeCounted inserts so many rows of a message that the queue received at a time, and
// their usage.
func storeCounted(t *testing.T, client *Client, name string, seq uint64, at time.Time, rows int) {
	t.Helper()
	var logs LogBlock
	for i := range rows {
		logs.Append(Row{Shard: 1, Seq: seq, Idx: uint32(i), Received: at.UnixNano(), Project: name, RetentionDays: 30}, &record.Log{Timestamp: at.UnixNano(), Data: "x"})
	}
	usage := UsageRow{Project: name, Hour: at, Measure: "logs", Records: uint64(rows), Stream: "LOGS_1", Seq: seq}
	token := fmt.Sprint(name, seq)
	if err := errors.Join(client.InsertLogs(t.Context(), token, &logs), client.InsertUsage(t.Context(), token, []UsageRow{usage})); err != nil {
		t.Fatal(err)
	}
}

func TestCountedAndStoredRowsAgreeByStreamAndHour(t *testing.T) {
	t.Parallel()
	client := migrated(t, "")
	client.config.MaxReadRows = 1 // must not apply
	hour := time.Unix(0, noon).Truncate(time.Hour)
	storeCounted(t, client, "a~1", 4, hour.Add(-time.Nanosecond), 2)
	storeCounted(t, client, "a~1", 5, hour, 10)
	storeCounted(t, client, "b~1", 7, hour.Add(time.Hour-time.Nanosecond), 5)
	storeCounted(t, client, "gone~1", 8, hour, 3)
	at := StreamHour{"LOGS_1", hour.Unix()}
	check := func(step string, counted, stored HourRows) {
		t.Helper()
		gotCounted, errCounted := client.CountedRows(t.Context(), hour)
		gotStored, errStored := client.StoredRows(t.Context(), hour)
		if err := errors.Join(errCounted, errStored); err != nil {
			t.Fatal(err)
		}
		if len(gotCounted) != 1 || gotCounted[at] != counted || len(gotStored) != 1 || gotStored[at] != stored {
			t.Errorf("%s: counted %v, stored %v", step, gotCounted, gotStored)
		}
	}
	check("all is there", HourRows{Rows: 18, LastSeq: 8}, HourRows{Rows: 18, FirstSeq: 5, LastSeq: 8})
	if err := client.Erase(t.Context(), "gone~1"); err != nil {
		t.Fatal(err)
	}
	// The writer counts a late message together with those before it.
	late := UsageRow{Project: "gone~1", Hour: hour, Measure: "logs", Records: 4, Stream: "LOGS_1", Seq: 9}
	if err := client.InsertUsage(t.Context(), "late", []UsageRow{late}); err != nil {
		t.Fatal(err)
	}
	check("a project is deleted", HourRows{Rows: 15, LastSeq: 7}, HourRows{Rows: 15, FirstSeq: 5, LastSeq: 7})
	if err := client.conn.Exec(t.Context(), "DELETE FROM logs WHERE _seq = 5 AND _idx < 4"); err != nil {
		t.Fatal(err)
	}
	check("rows are missing", HourRows{Rows: 15, LastSeq: 7}, HourRows{Rows: 11, FirstSeq: 5, LastSeq: 7})
}

func TestPartsThatClickHousePutAsideAreCounted(t *testing.T) {
	t.Parallel()
	client := migrated(t, "")
	storeCounted(t, client, "a~1", 1, time.Unix(0, noon), 1)
	if err := client.conn.Exec(t.Context(), "ALTER TABLE logs DETACH PARTITION '"+time.Unix(0, noon).UTC().Format(time.DateOnly)+"'"); err != nil {
		t.Fatal(err)
	}
	if n, err := client.BrokenParts(t.Context()); err != nil || n != 0 {
		t.Errorf("%d parts, %v: one that a person detached is not broken", n, err)
	}
}
