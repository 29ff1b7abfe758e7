package clickhouse

import (
	"context"
	"testing"
	"time"

	"github.com/logboom/logboom/pkg/record"
)

// One row is more than the client may read otherwise, which must not matter:
// an answer that stops half-way would let a queue use places again.
func TestLastStoredIsOfRowsAndOfUsage(t *testing.T) {
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

func TestLastStoredIsAnErrorWhereNobodyKnows(t *testing.T) {
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
