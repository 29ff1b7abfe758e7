package clickhouse

import (
	"fmt"
	"testing"
	"time"
)

// BenchmarkUsage reads the usage of a month in which 1,000 projects sent logs in
// every hour over four streams: of one project, of all projects, and the hour
// that a writer reads when it starts on a stream.
func BenchmarkUsage(b *testing.B) {
	const projects, hours, streams = 1000, 720, 4
	client := migrated(b, "")
	month := time.Now().UTC().AddDate(0, -1, 0).Truncate(24 * time.Hour)
	for s := range streams {
		fill := fmt.Sprintf(`INSERT INTO usage (project, hour, measure, reason, records, bytes, _stream, _seq)
SELECT concat('project-', toString(number %% %d), '~0123abcd'), toDateTime(%d + 3600 * intDiv(number, %d), 'UTC'), 'logs', '', 1 + number %% 1000, 100 * number, 'LOGS_%d', number
FROM numbers(%d)`, projects, month.Unix(), projects, s, projects*hours)
		if err := client.conn.Exec(b.Context(), fill); err != nil {
			b.Fatal(err)
		}
	}
	// Merges have left one part for each day; the last day is still in several.
	if err := client.conn.Exec(b.Context(), "OPTIMIZE TABLE usage FINAL"); err != nil {
		b.Fatal(err)
	}
	for _, question := range []struct {
		name string
		ask  func() (int, error)
		want int
	}{
		{"project", func() (int, error) {
			found, err := client.Usage(b.Context(), "project-7~0123abcd", month, time.Time{})
			return len(found), err
		}, hours},
		{"all", func() (int, error) {
			found, err := client.ProjectSizes(b.Context(), month)
			return len(found), err
		}, maxProjectSizes},
		{"hour", func() (int, error) {
			found, err := client.UsageOf(b.Context(), "LOGS_0", month.Add(hours/2*time.Hour))
			return len(found), err
		}, projects},
	} {
		b.Run(question.name, func(b *testing.B) {
			for b.Loop() {
				if n, err := question.ask(); err != nil || n != question.want {
					b.Fatalf("%d rows, want %d: %v", n, question.want, err)
				}
			}
		})
	}
}
