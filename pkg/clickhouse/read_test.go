package clickhouse

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/logboom/logboom/pkg/query"
	"github.com/logboom/logboom/pkg/record"
)

// allLogs reads all logs of a project, page by page.
func allLogs(t *testing.T, client *Client, project string, limit int) []StoredLog {
	t.Helper()
	logs, err := pages(t, client, LogQuery{Project: project, Limit: limit})
	if err != nil {
		t.Fatal(err)
	}
	return logs
}

func pages(t *testing.T, client *Client, q LogQuery) ([]StoredLog, error) {
	t.Helper()
	var all []StoredLog
	for {
		page, err := client.Logs(t.Context(), q)
		if err != nil {
			return nil, err
		}
		if page.Next != "" && len(page.Logs) == 0 {
			return nil, errors.New("an empty page has a next one")
		}
		all = append(all, page.Logs...)
		if page.Next == "" {
			return all, nil
		}
		q.Cursor = page.Next
	}
}

// parsed returns the filter of a query.
func parsed(tb testing.TB, text string) query.Query {
	tb.Helper()
	q, err := query.Parse(record.KindLog, text)
	if err != nil {
		tb.Fatalf("%q: %v", text, err)
	}
	return q
}

// quoted returns the filter of a text that may be anywhere. It leaves out NUL
// bytes, which a query must not contain.
func quoted(tb testing.TB, text string) query.Query {
	tb.Helper()
	kept := ""
	for part := range strings.SplitSeq(text, "\x00") {
		kept = max(kept, part)
	}
	if kept == "" {
		return query.Query{} // every text contains it
	}
	return query.All(record.KindLog).AndText(kept)
}

// newestFirst compares in the order of pages.
func newestFirst(a, b StoredLog) int {
	return cmp.Or(
		b.Timestamp.Compare(a.Timestamp),
		cmp.Compare(b.ID.Shard, a.ID.Shard),
		cmp.Compare(b.ID.Seq, a.ID.Seq),
		cmp.Compare(b.ID.Idx, a.ID.Idx),
	)
}

func TestPagesTogetherListAllRowsInOrder(t *testing.T) {
	t.Parallel()
	client := migrated(t, "")
	run := 0
	rapid.Check(t, func(rt *rapid.T) {
		run++
		project := fmt.Sprintf("run~%08d", run)
		n := rapid.IntRange(0, 40).Draw(rt, "rows")
		limit := rapid.IntRange(3, 20).Draw(rt, "limit")
		blocks := rapid.IntRange(1, 2).Draw(rt, "blocks")
		var want []StoredLog
		for b := range blocks {
			var block LogBlock
			for i := range n {
				// Few distinct timestamps: most pages end between equal ones.
				l := record.Log{Timestamp: noon + rapid.Int64Range(0, 3).Draw(rt, "time"), Metadata: []record.Pair{}}
				id := record.RowID{Shard: uint8(rapid.IntRange(0, 2).Draw(rt, "shard")), Seq: uint64(b), Idx: uint32(i)}
				block.Append(Row{Shard: id.Shard, Seq: id.Seq, Idx: id.Idx, Received: noon, Project: project}, &l)
				want = append(want, asStored(id, l))
			}
			if err := client.InsertLogs(t.Context(), fmt.Sprintf("%d-%d", run, b), &block); err != nil {
				rt.Fatal(err)
			}
		}
		slices.SortFunc(want, newestFirst)
		got, err := pages(t, client, LogQuery{Project: project, Limit: limit})
		if err != nil {
			rt.Fatal(err)
		}
		if !slices.EqualFunc(got, want, func(a, b StoredLog) bool { return newestFirst(a, b) == 0 }) {
			rt.Fatalf("pages of %d gave %d of %d rows, or another order", limit, len(got), len(want))
		}
	})
}

func TestPageListsItsTimesAndFilterOnly(t *testing.T) {
	t.Parallel()
	client := migrated(t, "")
	var block LogBlock
	for i, data := range []string{"Connection REFUSED", "ÄRGER mit Öl", "100% of a_b", "nothing"} {
		l := record.Log{Timestamp: noon + int64(i), Data: data}
		block.Append(Row{Idx: uint32(i), Received: noon, Project: project}, &l)
	}
	if err := client.InsertLogs(t.Context(), "texts", &block); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name string
		q    LogQuery
		want []uint32
	}{
		{"all", LogQuery{}, []uint32{3, 2, 1, 0}},
		{"from is included", LogQuery{From: time.Unix(0, noon+2)}, []uint32{3, 2}},
		{"to is not", LogQuery{To: time.Unix(0, noon+2)}, []uint32{1, 0}},
		{"both", LogQuery{From: time.Unix(0, noon+1), To: time.Unix(0, noon+2)}, []uint32{1}},
		{"from the year 1 to 9999", LogQuery{From: time.Time{}.Add(1), To: time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)}, []uint32{3, 2, 1, 0}},
		{"part of a word, any case", LogQuery{Filter: quoted(t, "efuse")}, []uint32{0}},
		{"beyond ASCII", LogQuery{Filter: quoted(t, "ärger MIT ö")}, []uint32{1}},
		{"no wildcards", LogQuery{Filter: quoted(t, "0% of a_b")}, []uint32{2}},
		{"not there", LogQuery{Filter: quoted(t, "%")}, []uint32{2}},
		{"another project", LogQuery{Project: "demo~"}, nil},
	}
	for _, test := range tests {
		test.q.Project = cmp.Or(test.q.Project, project)
		page, err := client.Logs(t.Context(), test.q)
		if err != nil {
			t.Errorf("%s: %v", test.name, err)
			continue
		}
		var got []uint32
		for _, l := range page.Logs {
			got = append(got, l.ID.Idx)
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("%s: rows %v, want %v", test.name, got, test.want)
		}
	}
}

func TestHostileTextReadsOnlyRowsOfItsProject(t *testing.T) {
	t.Parallel()
	client := migrated(t, "")
	texts := append(oddTexts()[:11], "' OR 1=1 --", "') OR ('1'='1", "x' UNION ALL SELECT * FROM logs --", "`", "{project:String}", "%", "_", "\\'")
	var block LogBlock
	for i, text := range texts {
		l := record.Log{Timestamp: noon, Data: "data: " + text}
		block.Append(Row{Seq: 1, Idx: uint32(i), Received: noon, Project: "p" + text}, &l)
	}
	if err := client.InsertLogs(t.Context(), "it's a token", &block); err != nil {
		t.Fatal(err)
	}
	for i, text := range texts {
		page, err := client.Logs(t.Context(), LogQuery{Project: "p" + text, Filter: quoted(t, text)})
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		if len(page.Logs) != 1 || page.Logs[0].ID.Idx != uint32(i) {
			t.Errorf("%q read %d rows, want its own one", text, len(page.Logs))
		}
		page, err = client.Logs(t.Context(), LogQuery{Project: "nobody", Filter: quoted(t, text)})
		if err != nil || len(page.Logs) != 0 {
			t.Errorf("%q read %d rows of others, error %v", text, len(page.Logs), err)
		}
	}
}

func TestInvalidQueriesNameTheField(t *testing.T) {
	t.Parallel()
	client := opened(t, Config{URL: "http://127.0.0.1:1/nowhere"}) // it is never connected
	good := cursor(record.KindLog, project, position{noon, record.RowID{Shard: 1, Seq: 2, Idx: 3}})
	changed := []byte(good)
	changed[5] ^= 1
	tests := []struct {
		name  string
		q     LogQuery
		field string
	}{
		{"too many", LogQuery{Limit: maxLimit + 1}, "limit"},
		{"negative", LogQuery{Limit: -1}, "limit"},
		{"no cursor", LogQuery{Cursor: "'; DROP TABLE logs"}, "cursor"},
		{"a cut cursor", LogQuery{Cursor: good[:len(good)-2]}, "cursor"},
		{"a changed cursor", LogQuery{Cursor: string(changed)}, "cursor"},
		{"an endless cursor", LogQuery{Cursor: strings.Repeat("A", 1<<20)}, "cursor"},
		{"a cursor of events", LogQuery{Cursor: cursor(record.KindEvent, project, position{})}, "cursor"},
		{"a cursor of another project", LogQuery{Cursor: cursor(record.KindLog, "shop~x", position{})}, "cursor"},
	}
	for _, test := range tests {
		test.q.Project = project
		_, err := client.Logs(t.Context(), test.q)
		var invalid *InvalidError
		if !errors.As(err, &invalid) || invalid.Field != test.field {
			t.Errorf("%s: error %v, want one of field %s", test.name, err, test.field)
		}
	}
}

func TestPageOfLargeRowsEndsEarly(t *testing.T) {
	t.Parallel()
	client := migrated(t, "")
	var block LogBlock
	for i := range 20 {
		l := record.Log{Timestamp: noon + int64(i), Data: strings.Repeat("y", 1<<20)}
		block.Append(Row{Idx: uint32(i), Received: noon, Project: project}, &l)
	}
	if err := client.InsertLogs(t.Context(), "huge", &block); err != nil {
		t.Fatal(err)
	}
	page, err := client.Logs(t.Context(), LogQuery{Project: project})
	if err != nil {
		t.Fatal(err)
	}
	if len(page.Logs) > 9 || page.Next == "" {
		t.Errorf("a page has %d rows of 1 MiB and next %q", len(page.Logs), page.Next)
	}
	if all := allLogs(t, client, project, 0); len(all) != 20 {
		t.Errorf("all pages have %d rows, want 20", len(all))
	}
}

func TestReadOfTooManyRowsIsRefused(t *testing.T) {
	t.Parallel()
	client := migrated(t, "")
	var block LogBlock
	fill(&block, 0, 1, noon, 1000)
	if err := client.InsertLogs(t.Context(), "many", &block); err != nil {
		t.Fatal(err)
	}
	config := client.config
	config.MaxReadRows = 10
	narrow := opened(t, config)
	if _, err := narrow.Logs(t.Context(), LogQuery{Project: project}); !errors.Is(err, ErrTooExpensive) {
		t.Errorf("error %v, want %v", err, ErrTooExpensive)
	}
}

func TestReadsCannotWrite(t *testing.T) {
	t.Parallel()
	client := migrated(t, "")
	for _, sql := range []string{
		"INSERT INTO usage (project) SELECT 'x'",
		"DROP TABLE logs",
		"CREATE TABLE other (a UInt8) ENGINE = Memory",
	} {
		if err := client.each(t.Context(), sql, nil, nil); err == nil {
			t.Errorf("%s: a read was allowed to do it", sql)
		}
	}
}

func TestLogIsEncodedAsTheAPIShowsIt(t *testing.T) {
	t.Parallel()
	l := StoredLog{ID: record.RowID{Shard: 2, Seq: 1048576, Idx: 17}, Timestamp: time.Date(2026, 11, 20, 12, 0, 0, 1, time.UTC), Metadata: map[string]string{}}
	got, err := json.Marshal(LogPage{Logs: []StoredLog{l}})
	if err != nil {
		t.Fatal(err)
	}
	want := `{"logs":[{"id":"2-1048576-17","timestamp":"2026-11-20T12:00:00.000000001Z","application":"","severity":"",` +
		`"severity_number":0,"data":"","metadata":{},"host":"","source":""}],"next":""}`
	if string(got) != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestEmptyProjectHasAnEmptyPage(t *testing.T) {
	t.Parallel()
	client := migrated(t, "")
	logs, err := client.Logs(t.Context(), LogQuery{Project: project})
	if err != nil || logs.Logs == nil || len(logs.Logs) != 0 || logs.Next != "" {
		t.Errorf("got %v, %v", logs, err)
	}
	events, err := client.Events(t.Context(), EventQuery{Project: project})
	if err != nil || events.Events == nil || len(events.Events) != 0 || events.Next != "" {
		t.Errorf("got %v, %v", events, err)
	}
}

func FuzzParseCursor(f *testing.F) {
	f.Add("demo~1", "")
	f.Add("demo~1", "AAAA")
	f.Add("demo~1", cursor(record.KindLog, "demo~1", position{-1, record.RowID{Shard: 1, Seq: 2, Idx: 3}}))
	f.Add("demo~1", "Af__________AQA\rAAAAAAAACAAAAA0eWdxQgfekn")
	f.Fuzz(func(t *testing.T, project, text string) {
		p, err := parseCursor(record.KindLog, project, text)
		if err != nil || text == "" {
			return
		}
		if again := cursor(record.KindLog, project, p); again != text {
			t.Errorf("%q was parsed as %v, which is %q", text, p, again)
		}
	})
}
