package writer

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/logboom/logboom/pkg/clickhouse"
	"github.com/logboom/logboom/pkg/record"
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
	b.run(t, w.Run)
	b.publish(t, "a", 30)
	b.settled(t)
	audit := func(doubled, ahead float64, result string) {
		t.Helper()
		if found, err := w.auditStream(t.Context(), w.shards[0].workers[0]); err != nil || found != (doubled > 0) {
			t.Errorf("the audit found %v: %v", found, err)
		}
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
	b.client.Close()
	if _, err := w.auditStream(t.Context(), w.shards[0].workers[0]); err == nil {
		t.Error("ClickHouse is away, and the audit passed")
	}
	if got := testutil.ToFloat64(w.metrics.audits.WithLabelValues("LOGS_0", "failed")); got != 1 {
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
	<-time.After(20 * time.Millisecond) // it is to be this old at least
	b.publish(t, "c", 1)
	positions, err := b.topology.Ledger().Positions(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	w.tidyStream(t.Context(), w.shards[0].workers[0], positions)
	messages, records := testutil.ToFloat64(w.metrics.lagMessages.WithLabelValues("LOGS_0")), testutil.ToFloat64(w.metrics.lagRecords.WithLabelValues("LOGS_0"))
	seconds := testutil.ToFloat64(w.metrics.lagSeconds.WithLabelValues("LOGS_0"))
	if messages != 2 || records != 60 || seconds < .02 || seconds > 30 {
		t.Errorf("the lag is %v messages, %v records, %v s", messages, records, seconds)
	}
}
