package browser

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/logboom/logboom/pkg/clickhouse"
)

// past is a project with a day behind it.
type past struct {
	name     string
	usual    int    // records an hour; 0: it has none yet
	settings string // of the project, as the JSON API takes them
	lost     uint64 // to the daily quota, in the newest hour
	silent   int    // hours
}

// pasts are projects in each state of the list. The day's quotas are far away,
// and the month's used to a part that is known: what counts for a day begins at
// midnight.
var pasts = []past{
	{name: "shop-checkout", usual: 1_700_000, settings: `{"daily_records":60000000}`, lost: 3412},
	{name: "shop-search", usual: 790_000},
	{name: "warehouse", usual: 4_000_000, settings: `{"monthly_bytes":20000000000}`},
	{name: "mobile-api", usual: 400_000},
	{name: "billing-cron", usual: 9_000, silent: 4},
	{name: "returns-portal"},
}

// makePast makes the projects and puts their usage into the tables, as if
// ingest and writer had been at work for a day.
func (i *installation) makePast(t *testing.T) {
	t.Helper()
	client, err := clickhouse.Open(clickhouse.Config{URL: i.engine.URL()})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	for _, p := range pasts {
		var made struct{ ID string }
		i.call(t, http.MethodPost, "/projects", fmt.Sprintf(`{"name":%q}`, p.name), &made)
		if p.settings != "" {
			i.call(t, http.MethodPut, "/projects/"+p.name+"/settings", p.settings, nil)
		}
		if err := client.InsertUsage(t.Context(), p.name, p.rows(made.ID)); err != nil {
			t.Fatal(err)
		}
	}
}

// hourly is how a day goes, in percent of the usual.
var hourly = []int{62, 58, 55, 61, 70, 84, 96, 104, 110, 118, 112, 106, 99, 95, 101, 97, 105, 113, 128, 120, 111, 102, 94, 88}

func (p past) rows(projectID string) []clickhouse.UsageRow {
	if p.usual == 0 {
		return nil
	}
	now := time.Now().UTC().Truncate(time.Hour)
	bytes := uint64(0)
	if strings.Contains(p.settings, "monthly_bytes") {
		bytes = 16_800_000_000 // in the newest hour, which is in this month
	}
	var rows []clickhouse.UsageRow
	for ago := p.silent; ago < 48; ago++ {
		records := uint64(p.usual * hourly[ago%24] / 100)
		row := clickhouse.UsageRow{Project: projectID, Hour: now.Add(-time.Duration(ago) * time.Hour), Measure: "logs", Records: records, Bytes: records * 110, Stream: "LOGS_0", Seq: uint64(ago)}
		switch {
		case bytes > 0 && ago == 0:
			row.Bytes = bytes
		case bytes > 0:
			row.Bytes = 0
		}
		rows = append(rows, row)
	}
	if next := now.Add(time.Hour); bytes > 0 && next.Month() != now.Month() { // the month may end before the page is looked at
		rows = append(rows, clickhouse.UsageRow{Project: projectID, Hour: next, Measure: "logs", Bytes: bytes, Stream: "LOGS_0", Seq: 49})
	}
	if p.lost > 0 {
		rows = append(rows, clickhouse.UsageRow{Project: projectID, Hour: now, Measure: "dropped", Reason: "daily_records", Records: p.lost, Stream: "LOGS_0", Seq: 48})
	}
	return rows
}
