package browser

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/logboom/logboom/pkg/clickhouse"
)

// usedProject is a project with two days of usage.
type usedProject struct {
	name     string
	usual    int    // records an hour; 0 means that it has no records yet
	settings string // the body for the JSON API; "" leaves the defaults
	lost     uint64 // records lost to the daily quota in the newest hour
	silent   int    // hours since the last record
}

// usedProjects are projects in each state that the list of projects shows. No
// daily quota is nearly used, because a day's usage depends on the time of day.
// One monthly quota is used to a known part.
var usedProjects = []usedProject{
	{name: "shop-checkout", usual: 1_700_000, settings: `{"daily_records":60000000}`, lost: 3412},
	{name: "shop-search", usual: 790_000},
	{name: "warehouse", usual: 4_000_000, settings: `{"monthly_bytes":20000000000}`},
	{name: "mobile-api", usual: 400_000},
	{name: "billing-cron", usual: 9_000, silent: 4},
	{name: "returns-portal"},
}

// createUsedProjects creates the projects and inserts their usage into the
// tables, as if ingest and writer had worked for two days.
func (i *installation) createUsedProjects(t *testing.T) {
	t.Helper()
	client, err := clickhouse.Open(clickhouse.Config{URL: i.engine.URL()})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	for _, p := range usedProjects {
		var created struct{ ID string }
		i.mustCallAPI(t, http.MethodPost, "/projects", fmt.Sprintf(`{"name":%q}`, p.name), &created)
		if p.settings != "" {
			i.mustCallAPI(t, http.MethodPut, "/projects/"+p.name+"/settings", p.settings, nil)
		}
		if err := client.InsertUsage(t.Context(), p.name, p.rows(created.ID)); err != nil {
			t.Fatal(err)
		}
	}
}

// hourly holds the records of each hour of a day, in percent of the usual number.
var hourly = []int{62, 58, 55, 61, 70, 84, 96, 104, 110, 118, 112, 106, 99, 95, 101, 97, 105, 113, 128, 120, 111, 102, 94, 88}

func (p usedProject) rows(projectID string) []clickhouse.UsageRow {
	if p.usual == 0 {
		return nil
	}
	now := time.Now().UTC().Truncate(time.Hour)
	bytes := uint64(0)
	if strings.Contains(p.settings, "monthly_bytes") {
		bytes = 16_800_000_000 // all in the newest hour, which is in the current month
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
	if next := now.Add(time.Hour); bytes > 0 && next.Month() != now.Month() { // the month may end before the test opens the page
		rows = append(rows, clickhouse.UsageRow{Project: projectID, Hour: next, Measure: "logs", Bytes: bytes, Stream: "LOGS_0", Seq: 49})
	}
	if p.lost > 0 {
		rows = append(rows, clickhouse.UsageRow{Project: projectID, Hour: now, Measure: "dropped", Reason: "daily_records", Records: p.lost, Stream: "LOGS_0", Seq: 48})
	}
	return rows
}
