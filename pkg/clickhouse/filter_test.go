package clickhouse

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"pgregory.net/rapid"

	"github.com/logboom/logboom/pkg/query"
	"github.com/logboom/logboom/pkg/record"
)

// pieces are what texts and queries are made of: few, so that they meet.
func pieces() *rapid.Generator[string] {
	return rapid.SampledFrom([]string{
		"a", "ab", "B", "AB", "7", "42", "7.5", "-3", "1e3", "ä", "Ä", "ß", "σ", "Σ", "ς", "K", "K", "ſ", "日本", "İ", "ı", "…", "🪵", "é",
		" ", "  ", "-", "_", ".", ",", ":", "=", "/", "\\", "'", "%", "\n", "\t", "+", "x1", "error", "WARN", "\u00a0", "\u2028", "$", "^", "[", "|", "{", "}", "?",
	})
}

func texts() *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		return strings.Join(rapid.SliceOfN(pieces(), 0, 5).Draw(t, "pieces"), "")
	})
}

func randomLogs() *rapid.Generator[record.Log] {
	return rapid.Custom(func(t *rapid.T) record.Log {
		l := record.Log{
			Timestamp: noon, Data: texts().Draw(t, "data"), Application: texts().Draw(t, "application"), Severity: texts().Draw(t, "severity"),
			SeverityNumber: rapid.Uint8Range(0, 24).Draw(t, "number"), Host: texts().Draw(t, "host"), Source: texts().Draw(t, "source"),
		}
		for _, key := range []string{"k", "key.two", "odd key"} {
			if rapid.Bool().Draw(t, "has") {
				l.Metadata = append(l.Metadata, record.Pair{Key: key, Value: texts().Draw(t, "value")})
			}
		}
		return l
	})
}

// quote writes a text as queries quote it.
func quote(text string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(text) + `"`
}

// bare keeps of a text what may stand without quotes.
func bare(text string) string {
	return strings.Map(func(r rune) rune {
		if strings.ContainsRune(" \t\n\u00a0\u2028()\"*", r) {
			return 'x'
		}
		return r
	}, "w"+text)[1:]
}

func randomTerms() *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		text := texts().Filter(func(s string) bool { return s != "" }).Draw(t, "text")
		field := rapid.SampledFrom([]string{"app", "severity", "host", "source", "k", "metadata.key.two", `metadata."odd key"`, "nokey"}).Draw(t, "field")
		operator := rapid.SampledFrom([]string{">", ">=", "<", "<="}).Draw(t, "operator")
		number := rapid.SampledFrom([]string{"7", "7.5", "42", "-3", "1000", "0"}).Draw(t, "number")
		pattern := rapid.SampledFrom([]string{"a.b", "^a", "b$", "(?i)ä", "[^a]B", `\bab\b`, "a|7", `\s`, "(?-s)^.*$", `\pL{2}`, "(?m)^ab$", "x??1", "(?U)a+", `\/`, `(?P<n>a)7`, "[[:alpha:]]{2}", `\Q.\E`, "日.", "(?i)k"}).Draw(t, "pattern")
		forms := []string{
			bare(text), bare(text) + "*", quote(text), "/" + pattern + "/", field + ":" + bare(text), field + ":" + bare(text) + "*", field + ":" + quote(text), field + `:""`,
			field + ":*", field + "!=" + quote(text), field + operator + number, "severity" + operator + "warn", "id:0-1-" + number, field + ":(" + quote(text) + " OR " + bare(text) + "*)",
		}
		return rapid.SampledFrom(forms).Draw(t, "form")
	})
}

func randomQueries(depth int) *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		if depth == 0 || rapid.IntRange(0, 2).Draw(t, "kind") == 0 {
			return randomTerms().Draw(t, "term")
		}
		left, right := randomQueries(depth-1).Draw(t, "left"), randomQueries(depth-1).Draw(t, "right")
		return rapid.SampledFrom([]string{left + " " + right, "(" + left + ") OR " + right, "NOT (" + left + ")", left + " AND -(" + right + ")"}).Draw(t, "joint")
	})
}

// found are the positions of the logs that ClickHouse finds.
func found(t *rapid.T, client *Client, text string, q query.Query) []uint32 {
	t.Helper()
	list := []uint32{}
	err := client.read(t.Context(), "logs", everything(project, q), page{limit: maxLimit, before: beforeAll}.arguments(), func(rows driver.Rows) (bool, error) {
		var one StoredLog
		err := one.scan(rows)
		list = append(list, one.ID.Idx)
		return true, err
	})
	if err != nil {
		t.Fatalf("%q: %v\n%s", text, err, q.Compile().SQL)
	}
	slices.Sort(list)
	return list
}

func TestClickHouseFindsWhatMatches(t *testing.T) {
	t.Parallel()
	client := migrated(t, "")
	var block LogBlock
	records := make([]query.Record, 600)
	for i := range records {
		l := randomLogs().Example(i)
		row := Row{Seq: 1, Idx: uint32(i), Received: noon, Project: project}
		block.Append(row, &l)
		records[i] = asRecord(row, l)
	}
	if err := client.InsertLogs(t.Context(), "random", &block); err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(rt *rapid.T) {
		text := randomQueries(2).Draw(rt, "query")
		q, err := query.Parse(record.KindLog, text)
		if err != nil {
			return // such as a lone dash before a star; Parse has tests of its own
		}
		want := []uint32{}
		for i := range records {
			if q.Match(&records[i]) {
				want = append(want, uint32(i))
			}
		}
		if got := found(rt, client, text, q); !slices.Equal(got, want) {
			rt.Fatalf("%q finds %d logs, %d match; they differ first in %s\n%s", text, len(got), len(want), firstDifference(records, got, want), q.Compile().SQL)
		}
	})
}

func TestClickHouseFindsTheEventsThatMatch(t *testing.T) {
	t.Parallel()
	client := migrated(t, "")
	var block EventBlock
	records := make([]query.Record, 300)
	for i := range records {
		l := randomLogs().Example(i)
		e := record.Event{Timestamp: noon, Channel: l.Application, Title: l.Data, Description: l.Host, Tags: l.Metadata}
		row := Row{Seq: 1, Idx: uint32(i), Received: noon, Project: project}
		block.Append(row, &e)
		records[i] = asRecord(row, l)
		records[i].Channel, records[i].Title, records[i].Description = e.Channel, e.Title, e.Description
	}
	if err := client.InsertEvents(t.Context(), "random", &block); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{
		"ab", "7-42", "ä", "a*", `"b7"`, "/a.?b/", "NOT ab", "channel:ab", "title:a*", "description:*", "description>5", "k:*", "tags.k:ab", `tags."odd key"!=ab`, "id:0-1-7", "ab OR k:a*", "title:ä OR channel:σ",
	} {
		q, err := query.Parse(record.KindEvent, text)
		if err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		want := 0
		for i := range records {
			if q.Match(&records[i]) {
				want++
			}
		}
		page, err := client.Events(t.Context(), EventQuery{Project: project, Filter: q, Limit: maxLimit})
		if err != nil || len(page.Events) != want {
			t.Errorf("%q finds %d events, %d match: %v", text, len(page.Events), want, err)
		}
	}
}

func asRecord(row Row, l record.Log) query.Record {
	pairs := map[string]string{}
	for _, p := range l.Metadata {
		pairs[p.Key] = p.Value
	}
	return query.Record{
		Shard: row.Shard, Seq: row.Seq, Idx: row.Idx, Data: l.Data, Application: l.Application, Severity: l.Severity,
		SeverityNumber: l.SeverityNumber, Host: l.Host, Source: l.Source, Pairs: pairs,
	}
}

func firstDifference(records []query.Record, got, want []uint32) string {
	for i := range records {
		if slices.Contains(got, uint32(i)) != slices.Contains(want, uint32(i)) {
			return fmt.Sprintf("%+q", fmt.Sprint(records[i]))
		}
	}
	return "their order"
}

// plan is how ClickHouse reads for a query, with the indexes that it uses.
func plan(t *testing.T, client *Client, q query.Query) string {
	t.Helper()
	condition := q.Compile()
	arguments := append(namedScope(everything(project, q)), page{limit: 10, before: beforeAll}.arguments()...)
	var b strings.Builder
	err := client.each(t.Context(), "EXPLAIN indexes = 1 "+filtered(statement("logs"), condition), arguments, func(rows driver.Rows) (bool, error) {
		var line string
		err := rows.Scan(&line)
		b.WriteString(line + "\n")
		return true, err
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestSearchesUseTheIndexes(t *testing.T) {
	t.Parallel()
	client := migrated(t, "")
	var block LogBlock
	fill(&block, 0, 1, noon, 1000)
	if err := client.InsertLogs(t.Context(), "some", &block); err != nil {
		t.Fatal(err)
	}
	merge(t, client)
	for text, index := range map[string]string{
		"quixotic":             "data_words",
		"Req-3810":             "data_words",
		"quixotic OR picayune": "data_words",
		`"the Quixotic one"`:   "data_words",
		"trace_id:4bf92f":      "metadata_values",
		"trace_id:(a OR b)":    "metadata_values",
		"id:0-77-1":            "seq_range",
	} {
		got := plan(t, client, parsed(t, text))
		if !strings.Contains(got, "Name: "+index) || !strings.Contains(got, "PrimaryKey") {
			t.Errorf("%q does not use %s:\n%s", text, index, got)
		}
	}
}

// merge makes one part of the logs table's, with all its indexes.
func merge(t *testing.T, client *Client) {
	t.Helper()
	if err := client.conn.Exec(t.Context(), "OPTIMIZE TABLE logs FINAL"); err != nil {
		t.Fatal(err)
	}
}

// An insert leaves the indexes of words to the first merge. Nothing may depend
// on them but the time that a search takes.
func TestWordsAreFoundBeforeTheirIndexIsBuilt(t *testing.T) {
	t.Parallel()
	for way, parameters := range ways {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			client := migrated(t, parameters)
			var block LogBlock
			fill(&block, 0, 1, noon, 1000)
			l := record.Log{Timestamp: noon, Data: "a Quixotic line", Metadata: []record.Pair{{Key: "trace_id", Value: "4bf92f"}}}
			block.Append(Row{Seq: 2, Received: noon, Project: project}, &l)
			if err := client.InsertLogs(t.Context(), "fresh", &block); err != nil {
				t.Fatal(err)
			}
			checkFound(t, client)
			if built := builtIndexes(t, client); built != "seq_range" {
				t.Errorf("an insert built %q, want seq_range alone", built)
			}
			merge(t, client)
			checkFound(t, client)
			if built := builtIndexes(t, client); built != "data_words metadata_values seq_range" {
				t.Errorf("a merge built %q, want all three indexes", built)
			}
		})
	}
}

// checkFound looks for the one line with a rare word, in each way.
func checkFound(t *testing.T, client *Client) {
	t.Helper()
	for _, text := range []string{"quixotic", `"a quixotic"`, "trace_id:4bf92f", "id:0-2-0"} {
		page, err := client.Logs(t.Context(), LogQuery{Project: project, Filter: parsed(t, text)})
		if err != nil || len(page.Logs) != 1 || page.Logs[0].ID.Seq != 2 {
			t.Errorf("%q finds %d logs, want the one of message 2: %v", text, len(page.Logs), err)
		}
	}
}

// builtIndexes are the indexes that parts of the logs table have, by name.
func builtIndexes(t *testing.T, client *Client) string {
	t.Helper()
	var built string
	query := `SELECT arrayStringConcat(arraySort(groupArrayIf(name, data_compressed_bytes > 0)), ' ')
		FROM system.data_skipping_indices WHERE database = currentDatabase() AND table = 'logs'`
	if err := client.conn.QueryRow(t.Context(), query).Scan(&built); err != nil {
		t.Fatal(err)
	}
	return built
}
