package clickhouse

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	ch "github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/logboom/logboom/pkg/record"
)

func TestErrorsThatTellOfADamagedPart(t *testing.T) {
	t.Parallel()
	for code, want := range map[int32]bool{246: true, 40: true, 33: true, 228: true, 76: true, 60: false, 241: false, 159: false} {
		err := fmt.Errorf("count: %w", &ch.Exception{Code: code})
		if got := Damaged(err); got != want {
			t.Errorf("code %d: %v", code, got)
		}
	}
	if Damaged(os.ErrDeadlineExceeded) {
		t.Error("a deadline is no damage")
	}
}

// eachInAPart inserts a log under each sequence, each into a part of its own.
func eachInAPart(t *testing.T, client *Client, sequences ...uint64) {
	t.Helper()
	if err := client.conn.Exec(t.Context(), "SYSTEM STOP MERGES logs"); err != nil {
		t.Fatal(err)
	}
	for _, seq := range sequences {
		var block LogBlock
		for idx := range uint32(seq) {
			block.Append(Row{Seq: seq, Idx: idx, Received: time.Now().UnixNano(), Project: project, RetentionDays: 30}, &record.Log{Data: "a"})
		}
		if err := client.InsertLogs(t.Context(), fmt.Sprint(seq), &block); err != nil {
			t.Fatal(err)
		}
	}
}

func TestPartWithAnEmptyFileIsFoundAndTakenOut(t *testing.T) {
	t.Parallel()
	client := migrated(t, "")
	eachInAPart(t, client, 1, 2, 3)
	if bad, err := client.Unreadable(t.Context(), time.Hour); err != nil || len(bad) != 0 {
		t.Fatalf("unreadable: %v, %v", bad, err)
	}
	empty(t, client, "20")
	bad, err := client.Unreadable(t.Context(), time.Hour)
	if err != nil || len(bad) != 1 || bad[0].Table != "logs" || bad[0].Rows == 0 || time.Since(bad[0].ReceivedMin) > time.Hour {
		t.Fatalf("unreadable: %+v, %v", bad, err)
	}
	for range 2 { // another writer may do the same
		if err := client.Detach(t.Context(), bad[0].Table, bad[0].Name); err != nil {
			t.Fatal(err)
		}
	}
	aside, err := client.SetAside(t.Context())
	if err != nil || len(aside) != 1 || aside[0].Name != bad[0].Name || aside[0].Broken || aside[0].InUse {
		t.Fatalf("set aside: %+v, %v", aside, err)
	}
	whole := Range{Kind: record.KindLog, To: 9, ReceivedMax: time.Now().Add(time.Hour).UnixNano()}
	if counts, err := client.CountMessages(t.Context(), whole); err != nil || len(counts) != 2 {
		t.Errorf("messages: %v, %v", counts, err)
	}
}

// empty empties the marks of a part of logs, as an error of the disk does that
// the engine swallows.
func empty(t *testing.T, client *Client, prefix string) {
	t.Helper()
	var folder string
	err := client.each(t.Context(), "SELECT path FROM system.parts WHERE database = currentDatabase() AND table = 'logs' AND active AND startsWith(name, {prefix:String}) LIMIT 1",
		[]any{ch.Named("prefix", prefix)}, func(rows driver.Rows) (bool, error) { return true, rows.Scan(&folder) })
	if err != nil {
		t.Fatal(err)
	}
	marks, err := filepath.Glob(filepath.Join(folder, "data.cmrk*"))
	if err != nil || len(marks) != 1 {
		t.Fatalf("marks in %s: %v (%v)", folder, marks, err)
	}
	if err := os.Truncate(marks[0], 0); err != nil {
		t.Fatal(err)
	}
}

func TestDetachedPartComesBackWhenItIsAttached(t *testing.T) {
	t.Parallel()
	client := migrated(t, "")
	eachInAPart(t, client, 1, 2)
	made, err := client.partsSince(t.Context(), time.Hour)
	if err != nil || len(made) != 2 {
		t.Fatalf("parts: %v, %v", made, err)
	}
	if err := client.Detach(t.Context(), "logs", made[0].Name); err != nil {
		t.Fatal(err)
	}
	if err := client.Attach(t.Context(), "logs", made[0].Name); err != nil {
		t.Fatal(err)
	}
	whole := Range{Kind: record.KindLog, To: 9, ReceivedMax: time.Now().Add(time.Hour).UnixNano()}
	if counts, err := client.CountMessages(t.Context(), whole); err != nil || counts[1] != 1 || counts[2] != 2 {
		t.Errorf("messages: %v, %v", counts, err)
	}
}

func TestUsageIsToldByBatch(t *testing.T) {
	t.Parallel()
	client := migrated(t, "")
	hour := time.Now().Truncate(time.Hour)
	rows := []UsageRow{
		{Project: project, Hour: hour, Measure: "logs", Records: 5, Stream: "LOGS_1", Seq: 3},
		{Project: project, Hour: hour, Measure: "dropped", Reason: "x", Records: 2, Stream: "LOGS_1", Seq: 3},
		{Project: project, Hour: hour, Measure: "logs", Records: 7, Stream: "LOGS_1", Seq: 9},
		{Project: project, Hour: hour, Measure: "logs", Records: 9, Stream: "LOGS_2", Seq: 9},
	}
	for try := range 2 { // the same rows again replace themselves
		if err := client.InsertUsage(t.Context(), fmt.Sprint(try), rows); err != nil {
			t.Fatal(err)
		}
	}
	batches, err := client.UsageBatches(t.Context(), "LOGS_1", 1)
	if err != nil || len(batches) != 2 || batches[3] != 7 || batches[9] != 7 {
		t.Errorf("batches: %v, %v", batches, err)
	}
}
