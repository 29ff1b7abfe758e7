package writer

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/logboom/logboom/pkg/clickhouse"
	"github.com/logboom/logboom/pkg/ledger"
	"github.com/logboom/logboom/pkg/record"
	"github.com/logboom/logboom/pkg/stream"
)

// copyMessage inserts so many rows of the message 1 of LOGS_0 again, as a
// message with that sequence.
func (b *bench) copyMessage(t *testing.T, seq uint64, rows int) {
	t.Helper()
	first := answered(t, func() (stream.Place, error) { return b.topology.First(t.Context(), "LOGS_0", 1) })
	var block clickhouse.LogBlock
	for i := range rows {
		row := clickhouse.Row{Seq: seq, Idx: uint32(i), Received: first.Time.UnixNano(), Project: "shop~00000000"}
		block.Append(row, &record.Log{Timestamp: row.Received, Data: "from elsewhere"})
	}
	if err := b.client.InsertLogs(t.Context(), fmt.Sprint(seq, "-", rows), &block); err != nil {
		t.Fatal(err)
	}
}

// auditor returns a writer that has stored one message of 30 rows and ended.
func (b *bench) auditor(t *testing.T) *Writer {
	t.Helper()
	w := b.writer(t, quick(), b.client)
	w.auditConfirm = time.Millisecond
	stop := b.run(t, w.Run)
	b.publish(t, "a", 30)
	b.waitStored(t)
	stop()
	return w
}

// checkAudit makes an audit and compares what it reports of LOGS_0.
func checkAudit(t *testing.T, w *Writer, missing, doubled, ahead float64, result string) {
	t.Helper()
	results := w.metrics.audits.WithLabelValues(result)
	before := testutil.ToFloat64(results)
	answered(t, func() (struct{}, error) { return struct{}{}, w.auditOnce(t.Context()) })
	if got := testutil.ToFloat64(results); got != before+1 {
		t.Errorf("no audit %s", result)
	}
	for name, c := range map[string]struct {
		gauge *prometheus.GaugeVec
		want  float64
	}{"rows missing": {w.metrics.missing, missing}, "rows doubled": {w.metrics.doubled, doubled}, "messages ahead": {w.metrics.ahead, ahead}} {
		if got := testutil.ToFloat64(c.gauge.WithLabelValues("LOGS_0")); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

func TestAuditFindsRowsDoubledAndAheadOfTheLedger(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	w := b.auditor(t)
	checkAudit(t, w, 0, 0, 0, "passed")
	b.copyMessage(t, 1, 10)
	checkAudit(t, w, 0, 10, 0, "found")
	b.copyMessage(t, 5, 1)
	checkAudit(t, w, 0, 10, 4, "found")
	failures := w.metrics.audits.WithLabelValues("failed")
	before := testutil.ToFloat64(failures)
	b.client.Close()
	if err := w.auditOnce(t.Context()); err == nil {
		t.Error("ClickHouse is away, and the audit passed")
	}
	if got := testutil.ToFloat64(failures) - before; got != 1 {
		t.Errorf("%v audits failed", got)
	}
}

func TestAuditFindsMissingRowsAlsoBesideDoubledOnes(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	w := b.auditor(t)
	b.execute(t, "DELETE FROM logs WHERE _idx >= 20")
	checkAudit(t, w, 10, 0, 0, "found")
	recorded := answered(t, func() (ledger.Audit, error) { return ledger.LastAudit(t.Context(), b.js) })
	if want := (ledger.AuditFinding{Stream: "LOGS_0", Missing: 10, From: 1, To: 1}); len(recorded.Findings) != 1 || recorded.Findings[0] != want || recorded.At.IsZero() {
		t.Errorf("recorded: %+v", recorded)
	}
	b.copyMessage(t, 1, 5)
	checkAudit(t, w, 10, 5, 0, "found")
	b.execute(t, "DELETE FROM logs WHERE 1")
	checkAudit(t, w, 30, 0, 0, "found")
}

func TestAuditRaisesNoAlarmForADeletedProject(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	w := b.auditor(t)
	b.execute(t, "DELETE FROM logs WHERE 1") // the rows are too young for Erase
	if err := b.client.Erase(t.Context(), "shop~00000000"); err != nil {
		t.Fatal(err)
	}
	late := clickhouse.UsageRow{Project: "shop~00000000", Hour: time.Now(), Measure: "logs", Records: 31, Stream: "LOGS_0", Seq: 2}
	if err := b.client.InsertUsage(t.Context(), "late", []clickhouse.UsageRow{late}); err != nil {
		t.Fatal(err)
	}
	checkAudit(t, w, 0, 0, 0, "passed")
}

// The runbook's statement works as it is printed.
func TestStatementOfTheRunbookRemovesDoubledRows(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	w := b.auditor(t)
	b.copyMessage(t, 1, 10)
	runbook, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	statement := regexp.MustCompile(`(?s)DELETE FROM logs WHERE \(_part, _part_offset\).*?;`).FindString(string(runbook))
	first := answered(t, func() (stream.Place, error) { return b.topology.First(t.Context(), "LOGS_0", 1) })
	day := regexp.MustCompile(`\d{4}-\d{2}-\d{2}`).ReplaceAllString(statement, first.Time.UTC().Format(time.DateOnly))
	b.execute(t, strings.TrimSuffix(day, ";"))
	checkAudit(t, w, 0, 0, 0, "passed")
	if lines := b.lines(t); len(lines) != 30 {
		t.Errorf("%d rows are left, want 30", len(lines))
	}
}

func TestWriterOfTheFirstShardAudits(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	cfg := quick()
	cfg.auditEvery = 50 * time.Millisecond
	w := b.writer(t, cfg, b.client)
	b.run(t, w.Run)
	eventually(t, "an audit", func() bool { return testutil.ToFloat64(w.metrics.audits.WithLabelValues("passed")) > 0 })
}

func TestLagIsRecordedInMessagesRecordsAndSeconds(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	w := b.writer(t, quick(), b.client)
	stop := b.run(t, w.Run)
	b.publish(t, "a", 30)
	b.waitStored(t)
	stop()
	b.publish(t, "b", 1)
	b.publish(t, "c", 1)
	oldest := answered(t, func() (stream.Place, error) { return b.topology.First(t.Context(), "LOGS_0", 2) })
	gauge := func(lag *prometheus.GaugeVec) float64 { return testutil.ToFloat64(lag.WithLabelValues("LOGS_0")) }
	for deadline := time.Now().Add(patience); ; {
		asked := time.Now()
		w.purgeStream(t.Context(), w.shards[0].workers[0], b.positions(t))
		messages, records, seconds := gauge(w.metrics.lagMessages), gauge(w.metrics.lagRecords), gauge(w.metrics.lagSeconds)
		if messages == 2 && records == 60 && seconds >= asked.Sub(oldest.Time).Seconds() && seconds <= time.Since(oldest.Time).Seconds() {
			return
		}
		if asked.After(deadline) { // nothing is recorded if the queue takes long to answer
			t.Fatalf("the lag is %v messages, %v records, %v s", messages, records, seconds)
		}
	}
}
