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
	for code, want := range map[int32]bool{246: true, 40: true, 33: true, 228: true, 76: true, 49: true, 395: true, 60: false, 241: false, 159: false} {
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
			block.Append(Row{Seq: seq, Idx: idx, Received: noon, Project: project, RetentionDays: 30}, &record.Log{Data: "a"})
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
	empty(t, client)
	bad, err := client.Unreadable(t.Context(), time.Hour)
	if err != nil || len(bad) != 1 || bad[0].Table != "logs" || bad[0].Rows == 0 || !bad[0].ReceivedMin.Equal(time.Unix(0, noon)) {
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
func empty(t *testing.T, client *Client) {
	t.Helper()
	var folder string
	err := client.each(t.Context(), "SELECT path FROM system.parts WHERE database = currentDatabase() AND table = 'logs' AND active ORDER BY name LIMIT 1",
		nil, func(rows driver.Rows) (bool, error) { return true, rows.Scan(&folder) })
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

// ClickHouse takes a column whose file is empty for one that was added after the
// part was made, and a merge then writes its defaults into a part that nothing
// is wrong with.
func TestColumnThatWasLostIsNeitherReadNorMerged(t *testing.T) {
	t.Parallel()
	client := migrated(t, "")
	execute(t, client, `ALTER TABLE logs MODIFY SETTING min_bytes_for_wide_part = 1, vertical_merge_algorithm_min_rows_to_activate = 1,
		max_bytes_to_merge_at_max_space_in_pool = 1`) // a file a column, and no merge but those asked for
	insertWide(t, client, 1)
	folder := partFolder(t, client)
	insertWide(t, client, 2)
	files, err := filepath.Glob(filepath.Join(folder, "*.bin"))
	if err != nil || len(files) < 14 {
		t.Fatalf("files in %s: %v (%v)", folder, files, err)
	}
	for _, file := range files {
		whole, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if len(whole) == 0 { // all of its values are defaults, which a file beside it says
			continue
		}
		rewrite(t, file, nil)
		name := filepath.Base(file)
		if err := readWhole(t, client); !Damaged(err) {
			t.Errorf("%s is empty: a read said %v", name, err)
		}
		if err := client.conn.Exec(t.Context(), mergeAll); !Damaged(err) {
			t.Errorf("%s is empty: a merge said %v", name, err)
		}
		rewrite(t, file, whole)
	}
	execute(t, client, mergeAll)
	if err := readWhole(t, client); err != nil {
		t.Error(err)
	}
}

const mergeAll = "OPTIMIZE TABLE logs FINAL SETTINGS optimize_throw_if_noop = 1"

func execute(t *testing.T, client *Client, statement string) {
	t.Helper()
	if err := client.conn.Exec(t.Context(), statement); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

func rewrite(t *testing.T, file string, content []byte) {
	t.Helper()
	if err := os.WriteFile(file, content, 0o600); err != nil {
		t.Fatal(err)
	}
}

// insertWide inserts logs that have something in every column.
func insertWide(t *testing.T, client *Client, seq uint64) {
	t.Helper()
	var block LogBlock
	for idx := range uint32(1000) {
		block.Append(Row{Shard: 1, Seq: seq, Idx: idx, Received: noon, Project: project, RetentionDays: 30}, &record.Log{
			Timestamp: noon, Application: "shop", SeverityNumber: 9, Severity: "info", Data: fmt.Sprint("order ", idx),
			Metadata: []record.Pair{{Key: "k", Value: "v"}}, Host: "h", Source: "stdout",
		})
	}
	if err := client.InsertLogs(t.Context(), fmt.Sprint(seq), &block); err != nil {
		t.Fatal(err)
	}
}

// partFolder is the folder of the only part of logs.
func partFolder(t *testing.T, client *Client) (folder string) {
	t.Helper()
	err := client.each(t.Context(), "SELECT path FROM system.parts WHERE database = currentDatabase() AND table = 'logs' AND active", nil,
		func(rows driver.Rows) (bool, error) { return true, rows.Scan(&folder) })
	if err != nil || folder == "" {
		t.Fatalf("no part of logs: %v", err)
	}
	return folder
}

// readWhole reads every column of every row.
func readWhole(t *testing.T, client *Client) error {
	t.Helper()
	return client.each(t.Context(), "SELECT toUInt64(count()) FROM logs WHERE NOT ignore(*)", nil, func(rows driver.Rows) (bool, error) {
		var n uint64
		err := rows.Scan(&n)
		if err == nil && n != 2000 {
			t.Errorf("%d rows, want 2000", n)
		}
		return true, err
	})
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
