package clickhouse

import (
	"fmt"
	"testing"
	"time"

	"github.com/logboom/logboom/pkg/record"
)

func TestEraseDeletesTheOldRowsOfOneProject(t *testing.T) {
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
