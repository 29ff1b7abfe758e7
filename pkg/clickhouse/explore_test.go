package clickhouse

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/logboom/logboom/pkg/query"
	"github.com/logboom/logboom/pkg/record"
)

// store inserts logs as one message of a shard.
func store(tb testing.TB, client *Client, project string, shard uint8, seq uint64, received int64, logs ...record.Log) {
	tb.Helper()
	var block LogBlock
	for i := range logs {
		block.Append(Row{Shard: shard, Seq: seq, Idx: uint32(i), Received: received, Project: project}, &logs[i])
	}
	if err := client.InsertLogs(tb.Context(), fmt.Sprint(project, shard, seq), &block); err != nil {
		tb.Fatal(err)
	}
}

// TestEveryReadIsOfOneProject checks that the statements that read records for
// people have the scope's mark behind each table.
func TestEveryReadIsOfOneProject(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"logs", "events", "histogram", "facets", "facet_pairs", "context_at", "context_before", "context_after", "tail_heads", "tail", "tail_count"} {
		text := statement(name)
		if n := strings.Count(text, "WHERE "+scopeMark+"\n"); n == 0 || n != strings.Count(text, "FROM logs\n")+strings.Count(text, "FROM events\n") {
			t.Errorf("sql/%s.sql does not restrict each table to the scope", name)
		}
		sql, _ := allTimes(project, query.All(record.KindLog).AndText("x")).statement(name)
		for _, part := range []string{"WHERE project = {project:String}\n", "timestamp >= fromUnixTimestamp64Nano({first:Int64}, 'UTC')\n", "timestamp <= fromUnixTimestamp64Nano({last:Int64}, 'UTC')\n", "AND position(lower(data), {q0:String}) > 0"} {
			if strings.Count(sql, part) != strings.Count(text, scopeMark) {
				t.Errorf("sql/%s.sql does not contain %q for each table", name, part)
			}
		}
	}
}

func TestHistogramCountsByTimeAndSeverity(t *testing.T) {
	t.Parallel()
	client := migrated(t, "")
	var logs []record.Log
	for i, number := range []uint8{0, 1, 4, 5, 9, 12, 13, 17, 20, 21, 24, 99} {
		logs = append(logs, record.Log{Timestamp: noon + int64(i)*int64(time.Second), SeverityNumber: number, Data: fmt.Sprint("line ", i%2)})
	}
	store(t, client, project, 0, 1, noon, logs...)
	store(t, client, "theirs", 0, 2, noon, logs...)
	q := HistogramQuery{Project: project, From: time.Unix(0, noon), To: time.Unix(0, noon).Add(12 * time.Second), Buckets: 4}
	h, err := client.Histogram(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	want := SeverityCounts{Unknown: 2, Trace: 2, Debug: 1, Info: 2, Warn: 1, Error: 2, Fatal: 2}
	if h.Total != 12 || h.Severities != want || len(h.Buckets) != 4 || h.Width != 3 {
		t.Errorf("got %+v", h)
	}
	for i, b := range h.Buckets {
		if b.Count != 3 || !b.Time.Equal(q.From.Add(time.Duration(i)*3*time.Second)) {
			t.Errorf("bucket %d: %+v", i, b)
		}
	}
	q.Filter, q.From = parsed(t, "1"), q.From.Add(time.Second)
	if h, err = client.Histogram(t.Context(), q); err != nil || h.Total != 6 {
		t.Errorf("filtered, from the second line: %+v, %v", h, err)
	}
}

// ClickHouse, which bounds their memory, compiles the largest expressions that
// package query accepts.
func TestLargeExpressionsAreCompiledByClickHouse(t *testing.T) {
	t.Parallel()
	client := migrated(t, "")
	store(t, client, project, 0, 1, noon, line("Größe"))
	for _, text := range []string{`\pL{1000}`, `(\pL|\pN){500}`, `[^a]{1000}`, `(?i)[\pL\pN\pS]{200}`, `.{1000}`, `(a|b|c|d|e|f){1000}`, `\pL{10}\PN{10}`, `\pL{15}`, `\PL{14}`, `(?i)[\pL\pN\pS]{8}`, `\w{900}`, `\S{1000}[^x]{900}`, `[äöüßÄÖÜ]{1000}`, `(?i)ä{1000}`, `(?i)[k-s]{1000}`, `((a{10}){10}){10}`, `\PL{300}\pL{300}\p{Greek}{300}`, `(?i)(größe|ähre){100}`} {
		q, err := query.Parse(record.KindLog, "/"+text+"/")
		if err != nil {
			t.Logf("%s: %v", text, err)
			continue
		}
		if _, err := client.Logs(t.Context(), LogQuery{Project: project, Filter: q}); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestHistogramRefusesInvalidBucketsAndTimes(t *testing.T) {
	t.Parallel()
	client := opened(t, Config{URL: "http://127.0.0.1:1/nowhere"}) // it is never connected
	from, to := time.Unix(0, noon), time.Unix(0, noon+10)
	for name, q := range map[string]HistogramQuery{
		"none":          {From: from, To: to},
		"too many":      {From: from, To: to, Buckets: MaxBuckets + 1},
		"no time":       {From: to, To: from, Buckets: 1},
		"no begin":      {To: to, Buckets: 1},
		"all the years": {From: minTime, To: maxTime, Buckets: 1},
	} {
		var invalid *InvalidError
		if _, err := client.Histogram(t.Context(), q); !errors.As(err, &invalid) {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

func TestFacetsListTheMostFrequentValuesFirst(t *testing.T) {
	t.Parallel()
	client := migrated(t, "")
	var logs []record.Log
	for i := range 60 {
		l := record.Log{Timestamp: noon + int64(i), Application: fmt.Sprint("app-", i%2), Severity: "INFO", Data: "x"}
		l.Metadata = append(l.Metadata, record.Pair{Key: "n", Value: fmt.Sprint(i)})
		if i%3 == 0 {
			l.Severity, l.Host = "ERROR", "web-1"
			l.Metadata = append(l.Metadata, record.Pair{Key: "user", Value: fmt.Sprint("u", i%2)})
		}
		logs = append(logs, l)
	}
	store(t, client, project, 0, 1, noon, logs...)
	store(t, client, "theirs", 0, 2, noon, logs...)
	f, err := client.Facets(t.Context(), FacetQuery{Project: project})
	if err != nil {
		t.Fatal(err)
	}
	if f.Total != 60 || fmt.Sprint(f.Applications, f.Severities, f.Hosts, f.Sources) != "[{app-0 30} {app-1 30}] [{INFO 40} {ERROR 20}] [{web-1 20}] []" {
		t.Errorf("got %+v", f)
	}
	if len(f.Metadata) != 2 || f.Metadata[0].Key != "n" || f.Metadata[0].Count != 60 || len(f.Metadata[0].Values) != maxKeyValues ||
		fmt.Sprint(f.Metadata[1]) != "{user 20 false [{u0 10} {u1 10}]}" {
		t.Errorf("metadata %+v", f.Metadata)
	}
	f, err = client.Facets(t.Context(), FacetQuery{Project: project, Filter: parsed(t, "host:web-1 app:app-1"), To: time.Unix(0, noon+10)})
	if err != nil || f.Total != 2 || fmt.Sprint(f.Severities) != "[{ERROR 2}]" {
		t.Errorf("filtered: %+v, %v", f, err)
	}
}

func TestFacetsListNoValuesOfAKeyWithTooMany(t *testing.T) {
	t.Parallel()
	client := migrated(t, "")
	logs := make([]record.Log, manyValues+1)
	for i := range logs {
		logs[i] = record.Log{Timestamp: noon, Metadata: []record.Pair{{Key: "request", Value: fmt.Sprint(i)}, {Key: "zone", Value: "b"}}}
	}
	store(t, client, project, 0, 1, noon, logs...)
	f, err := client.Facets(t.Context(), FacetQuery{Project: project})
	if want := fmt.Sprintf("[{request %d true []} {zone %d false [{b %d}]}]", len(logs), len(logs), len(logs)); err != nil || fmt.Sprint(f.Metadata) != want {
		t.Errorf("got %v, %v, want %s", f.Metadata, err, want)
	}
}

func TestContextHasLogsOfTheSameApplicationAndHost(t *testing.T) {
	t.Parallel()
	client := migrated(t, "")
	var logs []record.Log
	for i := range 20 {
		logs = append(logs, record.Log{Timestamp: noon + int64(i/4), Application: "api", Host: fmt.Sprint("web-", i%2), Data: fmt.Sprint(i)})
	}
	store(t, client, project, 3, 7, noon, logs...)
	store(t, client, "theirs", 3, 8, noon, logs...)
	around, err := client.Context(t.Context(), ContextQuery{Project: project, ID: record.RowID{Shard: 3, Seq: 7, Idx: 10}, Before: 3, After: 50})
	if err != nil {
		t.Fatal(err)
	}
	if lines(around.Before) != "4 6 8" || around.Log.Data != "10" || lines(around.After) != "12 14 16 18" {
		t.Errorf("before %s, at %s, after %s", lines(around.Before), around.Log.Data, lines(around.After))
	}
	if _, err := client.Context(t.Context(), ContextQuery{Project: project, ID: record.RowID{Shard: 3, Seq: 8, Idx: 10}}); !errors.Is(err, ErrNoLog) {
		t.Errorf("a log of another project: error %v", err)
	}
	var invalid *InvalidError
	if _, err := client.Context(t.Context(), ContextQuery{Project: project, After: MaxContext + 1}); !errors.As(err, &invalid) || invalid.Field != "after" {
		t.Errorf("too many: error %v", err)
	}
}

func lines(logs []StoredLog) string {
	var list []string
	for _, l := range logs {
		list = append(list, l.Data)
	}
	return strings.Join(list, " ")
}

// tailed returns the lines of a Follow.
func tailed(list []TailedLog) string {
	var logs []StoredLog
	for _, l := range list {
		logs = append(logs, l.Log)
	}
	return lines(logs)
}

func line(text string) record.Log { return record.Log{Timestamp: noon, Data: text} }

func TestTailReturnsEachLogOnceInTheOrderOfArrival(t *testing.T) {
	t.Parallel()
	client := migrated(t, "")
	now := time.Unix(0, noon)
	store(t, client, project, 1, 5, noon, line("old"))
	mark, err := client.Tail(t.Context(), project, now)
	if err != nil {
		t.Fatal(err)
	}
	follow := func(m TailMark, filter query.Query, limit int) Tailed {
		t.Helper()
		m.slow = false // also on a slow machine
		got, err := client.Follow(t.Context(), project, filter, m, limit, now)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	if got := follow(mark, query.Query{}, 10); len(got.Logs) != 0 {
		t.Errorf("without new logs it returns %s", tailed(got.Logs))
	}
	store(t, client, project, 1, 6, noon+2, line("b1"), line("b2"))
	store(t, client, project, 0, 1, noon+1, line("a1"))
	store(t, client, "theirs", 2, 1, noon+1, line("theirs"))
	got := follow(mark, query.Query{}, 10)
	if tailed(got.Logs) != "a1 b1 b2" || got.Dropped != 0 {
		t.Errorf("got %s, dropped %d", tailed(got.Logs), got.Dropped)
	}
	if again := follow(got.Next, query.Query{}, 10); len(again.Logs) != 0 {
		t.Errorf("returned again: %s", tailed(again.Logs))
	}
	for i, want := range []string{"b1 b2", "b2", ""} { // resumed after each log
		m, err := ParseTailMark(got.Logs[i].Mark.String(), now)
		if err != nil {
			t.Fatal(err)
		}
		if rest := follow(m, query.Query{}, 10); tailed(rest.Logs) != want {
			t.Errorf("after %s: %s, want %s", got.Logs[i].Log.Data, tailed(rest.Logs), want)
		}
	}
	if few := follow(mark, query.Query{}, 2); tailed(few.Logs) != "b1 b2" || few.Dropped != 1 {
		t.Errorf("at most 2: %s, dropped %d", tailed(few.Logs), few.Dropped)
	}
	if some := follow(mark, parsed(t, "b1 OR a1"), 10); tailed(some.Logs) != "a1 b1" || some.Next.String() != got.Next.String() {
		t.Errorf("filtered: %s, then %s", tailed(some.Logs), some.Next)
	}
}

func TestTailOfABusyProjectSoonFindsAnotherShard(t *testing.T) {
	t.Parallel()
	client := migrated(t, "")
	now := time.Unix(0, noon)
	store(t, client, project, 1, 500, noon, line("old"))
	mark, err := client.Tail(t.Context(), project, now)
	if err != nil {
		t.Fatal(err)
	}
	store(t, client, project, 0, 1, noon, line("a1"))
	store(t, client, project, 1, 501, noon, line("b1"))
	got := []string{}
	for mark.reads = 1; mark.reads <= fullReadEvery; {
		mark.slow = true
		found, err := client.Follow(t.Context(), project, query.Query{}, mark, 1000, now)
		if err != nil {
			t.Fatal(err)
		}
		got, mark = append(got, tailed(found.Logs)), found.Next
	}
	if want := []string{"b1", "", "", "a1"}; !slices.Equal(got, want) {
		t.Errorf("the reads return %q, want %q", got, want)
	}
}

func TestTailOfDaysReadsTheLastHour(t *testing.T) {
	t.Parallel()
	now := time.Unix(0, noon)
	m, err := ParseTailMark("5_0-1-2", now)
	if err != nil || m.since != now.Add(-tailReach).UnixNano() {
		t.Errorf("an old mark begins at %d, error %v", m.since, err)
	}
	m.forget(now)
	if m.since != now.Add(-tailSlack).UnixNano() {
		t.Errorf("it continues from %d", m.since)
	}
}

func FuzzParseTailMark(f *testing.F) {
	for _, seed := range []string{"", "1", "1_0-1-2", "1_255-18446744073709551615-4294967295_0-1-1", "-5", "1_", "_", "1_0-1-2_0-1-1"} {
		f.Add(seed)
	}
	now := time.Unix(0, noon)
	f.Fuzz(func(t *testing.T, text string) {
		m, err := ParseTailMark(text, now)
		if err != nil {
			return
		}
		again, err := ParseTailMark(m.String(), now)
		if err != nil || again.String() != m.String() {
			t.Errorf("%q was parsed as %s, and that as %s: %v", text, m, again, err)
		}
	})
}

func TestMarksShareNoMemory(t *testing.T) {
	t.Parallel()
	m := TailMark{since: 1}
	m.advance(record.RowID{Shard: 1, Seq: 5, Idx: 5})
	list := withMarks(m.clone(), []StoredLog{{ID: record.RowID{Shard: 1, Seq: 6, Idx: 0}}, {ID: record.RowID{Shard: 0, Seq: 1, Idx: 0}}})
	got := []string{m.String(), list[0].Mark.String(), list[1].Mark.String()}
	if want := []string{"1_1-5-5", "1_1-6-0", "1_0-1-0_1-6-0"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
