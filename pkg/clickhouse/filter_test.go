package clickhouse

import (
	"strings"
	"testing"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/logboom/logboom/pkg/query"
	"github.com/logboom/logboom/pkg/record"
)

// plan returns how ClickHouse reads for a query, with the indexes that it uses.
func plan(t *testing.T, client *Client, q query.Query) string {
	t.Helper()
	sql, arguments := allTimes(project, q).statement("logs")
	arguments = append(arguments, newest.arguments(10)...)
	var b strings.Builder
	err := client.each(t.Context(), "EXPLAIN indexes = 1 "+sql, arguments, func(rows driver.Rows) (bool, error) {
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

// merge merges the parts of the logs table into one, with all its indexes.
func merge(t *testing.T, client *Client) {
	t.Helper()
	if err := client.conn.Exec(t.Context(), "OPTIMIZE TABLE logs FINAL"); err != nil {
		t.Fatal(err)
	}
}

// The first merge builds the word indexes, an insert does not. Only the speed of a
// search may depend on them.
func TestWordsAreFoundBeforeTheirIndexIsBuilt(t *testing.T) {
	t.Parallel()
	for way, parameters := range encodings {
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

// checkFound searches the one line with a rare word, in each way.
func checkFound(t *testing.T, client *Client) {
	t.Helper()
	for _, text := range []string{"quixotic", `"a quixotic"`, "trace_id:4bf92f", "id:0-2-0"} {
		page, err := client.Logs(t.Context(), LogQuery{Project: project, Filter: parsed(t, text)})
		if err != nil || len(page.Logs) != 1 || page.Logs[0].ID.Seq != 2 {
			t.Errorf("%q finds %d logs, want the one of message 2: %v", text, len(page.Logs), err)
		}
	}
}

// builtIndexes returns the names of the indexes that parts of the logs table have.
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
