package clickhouse

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/logboom/logboom/pkg/record"
)

func TestEraseTakesOneProjectsRowsAndNoFreshOnes(t *testing.T) {
	t.Parallel()
	client := migrated(t, "")
	old, fresh := time.Now().Add(-time.Hour), time.Now()
	var logs LogBlock
	var events EventBlock
	for i, name := range []string{"gone~1", "kept~1"} {
		for j, at := range []time.Time{old, fresh} {
			row := Row{Seq: uint64(2*i + j + 1), Received: at.UnixNano(), Project: name, RetentionDays: 30}
			logs.Append(row, &record.Log{Timestamp: at.UnixNano(), Data: fmt.Sprint(name, j)})
			events.Append(row, &record.Event{Timestamp: at.UnixNano(), Channel: "c", Title: "t"})
		}
	}
	usage := []UsageRow{
		{Project: "gone~1", Hour: old, Measure: "logs", Records: 2, Stream: "LOGS_0", Seq: 1},
		{Project: "kept~1", Hour: old, Measure: "logs", Records: 2, Stream: "LOGS_0", Seq: 1},
	}
	for _, err := range []error{
		client.InsertLogs(t.Context(), "l", &logs), client.InsertEvents(t.Context(), "e", &events), client.InsertUsage(t.Context(), "u", usage),
		client.Erase(t.Context(), "gone~1"), client.Erase(t.Context(), "gone~1"),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string]struct{ rows, hours int }{"gone~1": {1, 0}, "kept~1": {2, 1}} {
		l, err := client.Logs(t.Context(), LogQuery{Project: name})
		if err != nil {
			t.Fatal(err)
		}
		e, err := client.Events(t.Context(), EventQuery{Project: name})
		if err != nil {
			t.Fatal(err)
		}
		u, err := client.Usage(t.Context(), name, time.Time{}, time.Time{})
		if err != nil {
			t.Fatal(err)
		}
		if len(l.Logs) != want.rows || len(e.Events) != want.rows || len(u) != want.hours {
			t.Errorf("%s has %d logs, %d events, %d hours of usage; %+v was wanted", name, len(l.Logs), len(e.Events), len(u), want)
		}
	}
}

// copies inserts a message of so many rows under each token, into a part each.
func copies(t *testing.T, client *Client, m Message, rows int, tokens ...string) {
	t.Helper()
	for _, token := range tokens {
		var block LogBlock
		for idx := range rows {
			block.Append(Row{Seq: m.Seq, Idx: uint32(idx), Received: m.Received, Project: project, RetentionDays: 30}, &record.Log{Data: fmt.Sprint(m.Seq, idx)})
		}
		if err := client.InsertLogs(t.Context(), token, &block); err != nil {
			t.Fatal(err)
		}
	}
}

// messages are of today and, from the third on, of yesterday.
func messages(n int) []Message {
	all, now := make([]Message, n), time.Now()
	for i := range all {
		at := now
		if i >= 2 {
			at = at.AddDate(0, 0, -1)
		}
		all[i] = Message{Seq: uint64(i + 1), Received: at.UnixNano()}
	}
	return all
}

func threeDays() Range {
	return Range{
		Kind: record.KindLog, To: 1000,
		ReceivedMin: time.Now().AddDate(0, 0, -3).UnixNano(), ReceivedMax: time.Now().AddDate(0, 0, 1).UnixNano(),
	}
}

func TestMessagesWithARowTwiceAreNamed(t *testing.T) {
	t.Parallel()
	client := migrated(t, "")
	all := messages(4)
	for i, m := range all {
		copies(t, client, m, 10, fmt.Sprint("a", i))
	}
	if found, err := client.Doubled(t.Context(), threeDays(), 10); err != nil || len(found) != 0 {
		t.Fatalf("nothing is doubled, and %v is: %v", found, err)
	}
	copies(t, client, all[1], 10, "b1")
	copies(t, client, all[3], 3, "b3") // a part of it
	if err := client.conn.Exec(t.Context(), "DELETE FROM logs WHERE _seq = 2 AND _idx >= 5"); err != nil {
		t.Fatal(err) // then it has as many rows as it should, and each of them twice
	}
	found, err := client.Doubled(t.Context(), threeDays(), 10)
	if err != nil || !slices.Equal(found, []Message{all[1], all[3]}) {
		t.Fatalf("doubled: %v, %v", found, err)
	}
	if found, err = client.Doubled(t.Context(), threeDays(), 1); err != nil || !slices.Equal(found, all[1:2]) {
		t.Errorf("the first that is doubled: %v, %v", found, err)
	}
}

// eraseAll erases a range as the writer does.
func eraseAll(t *testing.T, client *Client, r Range) {
	t.Helper()
	for range 20 {
		parts, err := client.PartsOf(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		if len(parts) == 0 {
			return
		}
		if err := client.EraseRange(t.Context(), r, parts); err != nil {
			t.Fatal(err)
		}
	}
	t.Fatal("the rows do not go")
}

func countAll(t *testing.T, client *Client) map[uint64]uint64 {
	t.Helper()
	counts, err := client.CountMessages(t.Context(), threeDays())
	if err != nil {
		t.Fatal(err)
	}
	return counts
}

func TestRangeIsErasedInAllItsPartitionsAndNothingBeside(t *testing.T) {
	t.Parallel()
	client := migrated(t, "")
	for i, m := range messages(5) {
		copies(t, client, m, 10, fmt.Sprint("a", i), fmt.Sprint("b", i))
	}
	r := threeDays()
	r.From, r.To = 2, 4
	eraseAll(t, client, r)
	if counts := countAll(t, client); !maps.Equal(counts, map[uint64]uint64{1: 20, 5: 20}) {
		t.Errorf("left: %v", counts)
	}
}

// A writer that was paused before it sent its deletion, while another one has
// deleted and stored again.
func TestErasureThatArrivesLateTakesNothingThatCameSince(t *testing.T) {
	t.Parallel()
	client := migrated(t, "")
	m := messages(1)[0]
	copies(t, client, m, 10, "a", "b")
	seen, err := client.PartsOf(t.Context(), threeDays())
	if err != nil {
		t.Fatal(err)
	}
	eraseAll(t, client, threeDays())
	copies(t, client, m, 10, "c")
	if err := client.EraseRange(t.Context(), threeDays(), seen); err != nil {
		t.Fatal(err)
	}
	if counts := countAll(t, client); counts[m.Seq] != 10 {
		t.Errorf("%d rows are left of 10", counts[m.Seq])
	}
}

// A deletion that was taken on and could not be carried out is so later, and
// still takes nothing that came since.
func TestErasureThatIsCarriedOutLateTakesNothingThatCameSince(t *testing.T) {
	t.Parallel()
	client := migrated(t, "")
	m := messages(1)[0]
	copies(t, client, m, 10, "a", "b")
	seen, err := client.PartsOf(t.Context(), threeDays())
	if err != nil {
		t.Fatal(err)
	}
	run := func(ctx context.Context, statement string) {
		t.Helper()
		if err := client.conn.Exec(ctx, statement); err != nil {
			t.Fatal(err)
		}
	}
	run(t.Context(), "SYSTEM STOP MERGES logs") // and what rewrites parts
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	answer := make(chan error, 1) // one: it is asked for once
	go func() { answer <- client.EraseRange(ctx, threeDays(), seen) }()
	eventually(t, "the deletion is taken on", func() bool { return pendingMutations(t, client) == 1 })
	cancel()
	if err := <-answer; err == nil {
		t.Fatal("it was carried out at once")
	}
	copies(t, client, m, 10, "c")
	run(t.Context(), "SYSTEM START MERGES logs")
	eraseThen := threeDays()
	eraseThen.To = 0 // of no message: it comes after the one before
	if err := client.EraseRange(t.Context(), eraseThen, map[string][]string{Partition(m.Received): {"none"}}); err != nil {
		t.Fatal(err)
	}
	if counts := countAll(t, client); counts[m.Seq] != 10 {
		t.Errorf("%d rows are left of 10", counts[m.Seq])
	}
}

// pendingMutations is how many deletions from logs wait to be carried out.
func pendingMutations(t *testing.T, client *Client) (n uint64) {
	t.Helper()
	query := "SELECT count() FROM system.mutations WHERE database = currentDatabase() AND table = 'logs' AND NOT is_done"
	if err := client.conn.QueryRow(t.Context(), query).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func TestUptimeIsTold(t *testing.T) {
	t.Parallel()
	up, err := migrated(t, "").Uptime(t.Context())
	if err != nil || up < 0 || up > 24*time.Hour {
		t.Errorf("the uptime is %s: %v", up, err)
	}
}
