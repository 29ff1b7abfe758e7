package query_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/logboom/logboom/pkg/clickhouse"
	"github.com/logboom/logboom/pkg/embedded/engine/enginetest"
	"github.com/logboom/logboom/pkg/query"
	"github.com/logboom/logboom/pkg/record"
)

func TestMain(m *testing.M) { enginetest.Main(m) }

const project = "demo~k3x9qa7d"

var noon = time.Now().UTC().Truncate(24 * time.Hour).Add(-12 * time.Hour).UnixNano()

// openStore returns a client of a database of its own, with all tables. The
// timeouts are for a machine that runs other tests too.
func openStore(t *testing.T) *clickhouse.Client {
	t.Helper()
	client, err := clickhouse.Open(clickhouse.Config{URL: enginetest.URL(t), DialTimeout: time.Minute, InsertTimeout: time.Minute, ReadTimeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := client.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	return client
}

// pieces are the parts of random texts and queries. There are few, so that queries
// find something.
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

// bare replaces the characters of a text that need quotes.
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

func quote(text string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(text) + `"`
}

func TestClickHouseFindsTheLogsThatMatch(t *testing.T) {
	t.Parallel()
	client := openStore(t)
	var block clickhouse.LogBlock
	records := make([]query.Record, 600)
	for i := range records {
		l := randomLogs().Example(i)
		block.Append(clickhouse.Row{Seq: 1, Idx: uint32(i), Received: noon, Project: project}, &l)
		records[i] = asRecord(i, l)
	}
	if err := client.InsertLogs(t.Context(), "random", &block); err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(rt *rapid.T) {
		text := randomQueries(2).Draw(rt, "query")
		q, err := query.Parse(record.KindLog, text)
		if err != nil {
			return // such as a single dash before a star; Parse has tests of its own
		}
		page, err := client.Logs(t.Context(), clickhouse.LogQuery{Project: project, Filter: q, Limit: 1000})
		if err != nil {
			rt.Fatalf("%q: %v\n%s", text, err, q.Compile().SQL)
		}
		found := map[string]bool{}
		for _, l := range page.Logs {
			found[l.ID.String()] = true
		}
		for i := range records {
			if r := &records[i]; query.Match(q, r) != found[r.ID] {
				rt.Fatalf("%q: found %v, matches %v: %+q\n%s", text, found[r.ID], !found[r.ID], fmt.Sprint(*r), q.Compile().SQL)
			}
		}
	})
}

func TestClickHouseFindsTheEventsThatMatch(t *testing.T) {
	t.Parallel()
	client := openStore(t)
	var block clickhouse.EventBlock
	records := make([]query.Record, 300)
	for i := range records {
		l := randomLogs().Example(i)
		e := record.Event{Timestamp: noon, Channel: l.Application, Title: l.Data, Description: l.Host, Tags: l.Metadata}
		block.Append(clickhouse.Row{Seq: 1, Idx: uint32(i), Received: noon, Project: project}, &e)
		records[i] = asRecord(i, l)
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
		var want, got []string
		for i := range records {
			if query.Match(q, &records[i]) {
				want = append(want, records[i].ID)
			}
		}
		page, err := client.Events(t.Context(), clickhouse.EventQuery{Project: project, Filter: q, Limit: 1000})
		for _, e := range page.Events {
			got = append(got, e.ID.String())
		}
		slices.Sort(want)
		slices.Sort(got)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%q finds %d events, %d match: %v", text, len(got), len(want), err)
		}
	}
}

func asRecord(idx int, l record.Log) query.Record {
	pairs := map[string]string{}
	for _, p := range l.Metadata {
		pairs[p.Key] = p.Value
	}
	return query.Record{
		ID: fmt.Sprintf("0-1-%d", idx), Data: l.Data, Application: l.Application, Severity: l.Severity,
		SeverityNumber: l.SeverityNumber, Host: l.Host, Source: l.Source, Pairs: pairs,
	}
}
