package api

import (
	"net/http"
	"net/url"
	"reflect"
	"testing"
	"time"

	"github.com/logboom/logboom/pkg/clickhouse"
)

func TestUsageIsCountedByHourAndInTotal(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	s := b.server()
	mine, theirs := b.Project(t, "mine"), b.Project(t, "theirs")
	now := time.Now().UTC().Truncate(time.Hour)
	first, second := now.Add(-3*time.Hour), now.Add(-time.Hour)
	row := func(project, measure, reason string, hour time.Time, records uint64) clickhouse.UsageRow {
		return clickhouse.UsageRow{Project: project, Measure: measure, Reason: reason, Hour: hour, Records: records, Bytes: 10 * records, Stream: "LOGS_0", Seq: 1}
	}
	rows := []clickhouse.UsageRow{
		row(mine.ID, "logs", "", first, 5), row(mine.ID, "events", "", first, 2), row(mine.ID, "dropped", "rate", first, 7),
		row(mine.ID, "dropped", "daily_records", first, 1), row(mine.ID, "logs", "", second, 30), row(mine.ID, "dropped", "undecodable", second, 4),
		row(mine.ID, "logs", "", now.Add(-30*24*time.Hour), 1000), row(theirs.ID, "logs", "", first, 900),
	}
	if err := b.Client.InsertUsage(t.Context(), mine.ID, rows); err != nil {
		t.Fatal(err)
	}
	one := usageCount{
		Accepted: 7, Stored: 7, Dropped: map[string]uint64{"rate": 7, "daily_records": 1},
		Logs: usageAmount{5, 50}, Events: usageAmount{2, 20},
	}
	two := usageCount{Accepted: 34, Stored: 30, Dropped: map[string]uint64{"undecodable": 4}, Logs: usageAmount{30, 300}}
	both := usageCount{
		Accepted: 41, Stored: 37, Dropped: map[string]uint64{"rate": 7, "daily_records": 1, "undecodable": 4},
		Logs: usageAmount{35, 350}, Events: one.Events,
	}

	got := decoded[usageAnswer](t, b.do(t, s, http.MethodGet, apiRoot+"/projects/mine/usage", ""))
	if want := []usageHour{{first, one}, {second, two}}; !reflect.DeepEqual(got.Hours, want) || !reflect.DeepEqual(got.Totals, both) {
		t.Errorf("got  %+v\nwant %+v and %+v", got, want, both)
	}
	query := url.Values{"from": {second.Add(time.Minute).Format(time.RFC3339)}, "to": {second.Add(2 * time.Minute).Format(time.RFC3339)}}
	got = decoded[usageAnswer](t, b.do(t, s, http.MethodGet, apiRoot+"/projects/mine/usage?"+query.Encode(), ""))
	want := usageAnswer{From: second, To: second.Add(time.Hour), Hours: []usageHour{{second, two}}, Totals: two}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("a part of an hour: got  %+v\nwant %+v", got, want)
	}
}
