package writer

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/logboom/logboom/pkg/clickhouse"
)

// measureDropped is the usage table's word for records that were refused.
const measureDropped = "dropped"

// usageKey is what usage is rolled up by.
type usageKey struct {
	project string
	hour    int64 // Unix seconds of its begin
	measure string
	reason  string
}

// usage is what the batch in hand brought each project, by hour of receipt.
type usage map[usageKey]*tally

type tally struct {
	records, bytes uint64
}

func (u usage) count(key usageKey, records, bytes uint64) {
	t := u[key]
	if t == nil {
		t = &tally{}
		key.project, key.reason = strings.Clone(key.project), strings.Clone(key.reason) // the section's text is borrowed
		u[key] = t
	}
	t.records += records
	t.bytes += bytes
}

// rows are those of the usage table, for a batch that begins at from. Sent
// again they replace themselves, for the batch is in their key. With a reason
// they say that the batch's records were dropped for it.
func (u usage) rows(stream string, from uint64, dead string) []clickhouse.UsageRow {
	rows := make([]clickhouse.UsageRow, 0, len(u))
	for key, t := range u {
		if dead != "" && key.measure != measureDropped {
			key.measure, key.reason = measureDropped, dead
		}
		rows = append(rows, clickhouse.UsageRow{
			Project: key.project,
			Hour:    time.Unix(key.hour, 0).UTC(),
			Measure: key.measure,
			Reason:  key.reason,
			Records: t.records,
			Bytes:   t.bytes,
			Stream:  stream,
			Seq:     from,
		})
	}
	slices.SortFunc(rows, func(a, b clickhouse.UsageRow) int {
		return cmp.Or(cmp.Compare(a.Project, b.Project), a.Hour.Compare(b.Hour), cmp.Compare(a.Measure, b.Measure), cmp.Compare(a.Reason, b.Reason))
	})
	return rows
}

func hour(nanoseconds int64) int64 {
	seconds := nanoseconds / int64(time.Second)
	return seconds - seconds%3600
}
