package clickhouse

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

func TestUsageIsTheLargestCountOfAStream(t *testing.T) {
	t.Parallel()
	client := migrated(t, "")
	hour := time.Unix(0, noon).UTC()
	row := func(hours int, measure, stream string, seq, records uint64) UsageRow {
		at := hour.Add(time.Duration(hours)*time.Hour + 59*time.Minute)
		return UsageRow{Project: project, Hour: at, Measure: measure, Records: records, Bytes: 100 * records, Stream: stream, Seq: seq}
	}
	batches := [][]UsageRow{
		{row(0, "logs", "LOGS_0", 1, 5), row(1, "logs", "LOGS_0", 1, 2)},
		{row(0, "logs", "LOGS_1", 1, 10)},
		{row(0, "logs", "LOGS_0", 9, 25), row(0, "events", "EVENTS_0", 9, 1)},
		{{Project: "other~1", Hour: hour, Measure: "logs", Records: 1000, Stream: "LOGS_0", Seq: 1}},
	}
	for round := range 3 { // an older row that comes late changes nothing
		for i, rows := range batches {
			if err := client.InsertUsage(t.Context(), fmt.Sprintf("%d-r%d", i, round), rows); err != nil {
				t.Fatal(err)
			}
		}
	}
	got, err := client.Usage(t.Context(), project, time.Time{}, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	want := []UsageHour{
		{hour, "events", "", 1, 100},
		{hour, "logs", "", 35, 3500},
		{hour.Add(time.Hour), "logs", "", 2, 200},
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
	got, err = client.Usage(t.Context(), project, hour.Add(90*time.Minute), hour.Add(2*time.Hour))
	if err != nil || !slices.Equal(got, want[2:]) {
		t.Errorf("the last hour: got %v, %v, want %v", got, err, want[2:])
	}
	known, err := client.UsageOf(t.Context(), "LOGS_0", hour.Add(time.Minute))
	slices.SortFunc(known, func(a, b UsageRow) int { return int(a.Records) - int(b.Records) })
	if err != nil || len(known) != 2 || known[0] != (UsageRow{Project: project, Hour: hour, Measure: "logs", Records: 25, Bytes: 2500, Stream: "LOGS_0", Seq: 9}) || known[1].Project != "other~1" {
		t.Errorf("of the stream's hour: %+v, %v", known, err)
	}
}
