package notify

import (
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/logboom/logboom/pkg/record"
	"github.com/logboom/logboom/pkg/stream"
)

// BenchmarkMatchLogs measures the reading of the streams of logs: messages of
// 1,000 lines of which none raises an alert, or all do.
func BenchmarkMatchLogs(b *testing.B) {
	for name, wanted := range map[string]map[string]uint8{"skipped": {"other~1": 17}, "matched": {"shop~1": 17}} {
		b.Run(name, func(b *testing.B) {
			var batch record.Batch
			batch.Reset(record.KindLog, "shop~1", 30)
			size := 0
			for i := range 1000 {
				l := record.Log{Timestamp: time.Now().UnixNano(), Application: "web", Severity: "ERROR", SeverityNumber: 17,
					Data: fmt.Sprintf("user %d timed out after %dms while reading from upstream 10.0.0.%d, request 4bf92f3577b34da6", i, i*7, i%255)}
				size += l.Size()
				batch.AppendLog(&l)
			}
			message := record.AppendBatch(nil, &batch)
			n := &Notifier{timing: defaultTiming(), deps: Deps{Logger: slog.New(slog.DiscardHandler)}, metrics: newMetrics(prometheus.NewRegistry())}
			m := logMatcher{groups: newGroups(n, &logRules{lowest: wanted})}
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for i := range b.N {
				m.match(stream.Delivery{Stream: "LOGS_0", Seq: uint64(i + 1), Time: time.Now(), Data: message})
			}
		})
	}
}
