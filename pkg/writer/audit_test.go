package writer

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/logboom/logboom/pkg/clickhouse"
	"github.com/logboom/logboom/pkg/record"
	"github.com/logboom/logboom/pkg/stream"
)

// insert puts rows into ClickHouse behind the writer's back.
func (b *bench) insert(t *testing.T, token string, seq uint64, rows int) {
	t.Helper()
	var block clickhouse.LogBlock
	for i := range rows {
		row := clickhouse.Row{Seq: seq, Idx: uint32(i), Received: time.Now().UnixNano(), Project: "shop~00000000"}
		block.Append(row, &record.Log{Timestamp: row.Received, Data: "from elsewhere"})
	}
	if err := b.client.InsertLogs(t.Context(), token, &block); err != nil {
		t.Fatal(err)
	}
}

func TestAuditFindsRowsTwiceAndAheadOfTheLedger(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	w := b.writer(t, quick(), b.client)
	stop := b.run(t, w.Run)
	b.publish(t, "a", 30)
	b.settled(t)
	stop() // it audits by itself, now and then
	audit := func(doubled, ahead float64, result string) {
		t.Helper()
		answered(t, func() (struct{}, error) { return struct{}{}, w.auditStream(t.Context(), w.shards[0].workers[0]) })
		if got := testutil.ToFloat64(w.metrics.doubled.WithLabelValues("LOGS_0")); got != doubled {
			t.Errorf("%v rows are doubled, want %v", got, doubled)
		}
		if got := testutil.ToFloat64(w.metrics.ahead.WithLabelValues("LOGS_0")); got != ahead {
			t.Errorf("%v messages are ahead, want %v", got, ahead)
		}
		if got := testutil.ToFloat64(w.metrics.audits.WithLabelValues("LOGS_0", result)); got == 0 {
			t.Errorf("no audit %s", result)
		}
	}
	audit(0, 0, "passed")
	b.insert(t, "x", 1, 10)
	audit(10, 0, "found")
	b.insert(t, "y", 5, 1)
	audit(10, 4, "found")
	failures := w.metrics.audits.WithLabelValues("LOGS_0", "failed")
	before := testutil.ToFloat64(failures)
	b.client.Close()
	if err := w.auditStream(t.Context(), w.shards[0].workers[0]); err == nil {
		t.Error("ClickHouse is away, and the audit passed")
	}
	if got := testutil.ToFloat64(failures) - before; got != 1 {
		t.Errorf("%v audits failed", got)
	}
}

func TestLagIsToldInMessagesRecordsAndSeconds(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	w := b.writer(t, quick(), b.client)
	stop := b.run(t, w.Run)
	b.publish(t, "a", 30)
	b.settled(t)
	stop()
	b.publish(t, "b", 1)
	b.publish(t, "c", 1)
	oldest := answered(t, func() (stream.Mark, error) { return b.topology.First(t.Context(), "LOGS_0", 2) })
	gauge := func(lag *prometheus.GaugeVec) float64 { return testutil.ToFloat64(lag.WithLabelValues("LOGS_0")) }
	for deadline := time.Now().Add(patience); ; {
		asked := time.Now()
		w.tidyStream(t.Context(), w.shards[0].workers[0], b.positions(t))
		messages, records, seconds := gauge(w.metrics.lagMessages), gauge(w.metrics.lagRecords), gauge(w.metrics.lagSeconds)
		if messages == 2 && records == 60 && seconds >= asked.Sub(oldest.Time).Seconds() && seconds <= time.Since(oldest.Time).Seconds() {
			return
		}
		if asked.After(deadline) { // it tells nothing where the queue takes long to answer
			t.Fatalf("the lag is %v messages, %v records, %v s", messages, records, seconds)
		}
	}
}
