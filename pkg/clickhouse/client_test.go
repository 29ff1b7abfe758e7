package clickhouse

import (
	"context"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	ch "github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"go.uber.org/goleak"

	"github.com/logboom/logboom/pkg/embedded/engine/enginetest"
	"github.com/logboom/logboom/pkg/query"
	"github.com/logboom/logboom/pkg/record"
)

func TestURLsAreUnderstood(t *testing.T) {
	t.Parallel()
	tests := []struct {
		url    string
		addr   string
		secure bool
	}{
		{"http://127.0.0.1:8123/logboom", "127.0.0.1:8123", false},
		{"http://db/logboom", "db:8123", false},
		{"https://db/logboom", "db:8443", true},
		{"https://[::1]:9440/logboom?compress=lz4", "[::1]:9440", true},
	}
	for _, test := range tests {
		options, err := parseURL(test.url)
		if err != nil {
			t.Errorf("%s: %v", test.url, err)
			continue
		}
		if options.Protocol != ch.HTTP || options.Addr[0] != test.addr || (options.TLS != nil) != test.secure || options.Auth.Database != "logboom" || (options.TransportFunc != nil) != strings.Contains(test.url, "lz4") {
			t.Errorf("%s: %v %v, TLS %v, database %q, compressed %v", test.url, options.Protocol, options.Addr, options.TLS != nil, options.Auth.Database, options.TransportFunc != nil)
		}
	}
}

func TestBadSettingsAreRefusedByName(t *testing.T) {
	t.Parallel()
	good := "http://127.0.0.1/logboom"
	tests := []struct {
		config Config
		names  string
	}{
		{Config{URL: ""}, "url"},
		{Config{URL: "127.0.0.1:8123"}, "url"},
		{Config{URL: "tcp://127.0.0.1/logboom"}, "scheme"},
		{Config{URL: "clickhouse://127.0.0.1:9000/logboom"}, "HTTP port"},
		{Config{URL: "http://127.0.0.1/"}, "database"},
		{Config{URL: "http://127.0.0.1/a`b"}, "database"},
		{Config{URL: "http://127.0.0.1/a/b"}, "database"},
		{Config{URL: "http://127.0.0.1/" + strings.Repeat("x", 65)}, "database"},
		{Config{URL: good + "?max_execution_time=0"}, "max_execution_time"},
		{Config{URL: good + "?compress=gzip"}, "compress"},
		{Config{URL: good, DialTimeout: -1}, "dial timeout"},
		{Config{URL: good, InsertTimeout: -1}, "insert timeout"},
		{Config{URL: good, ReadTimeout: -time.Second}, "read timeout"},
		{Config{URL: good, MaxReadRows: -1}, "read rows"},
	}
	for _, test := range tests {
		_, err := Open(test.config)
		if err == nil || !strings.Contains(err.Error(), test.names) {
			t.Errorf("%+v: error %v does not name %q", test.config, err, test.names)
		}
	}
}

func TestMigrateCreatesTheDatabase(t *testing.T) {
	t.Parallel()
	address := enginetest.URL(t)
	address = strings.TrimSuffix(address, path.Base(address)) + path.Base(address) + "_new-one"
	client := opened(t, Config{URL: address})
	t.Cleanup(func() { dropDatabase(t, client) })
	var processes sync.WaitGroup
	for range 3 { // several processes start at once
		processes.Go(func() {
			if err := client.Migrate(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	processes.Wait()
	if err := client.Ping(t.Context()); err != nil {
		t.Error(err)
	}
	if err := client.InsertLogs(t.Context(), "t", oneRow()); err != nil {
		t.Error(err)
	}
}

// Not parallel: it checks the goroutines of the whole process.
func TestClosedClientLeavesNoGoroutines(t *testing.T) {
	address := enginetest.URL(t)
	before := goleak.IgnoreCurrent()
	client, err := Open(patient(Config{URL: address + "?compress=lz4"}))
	if err != nil {
		t.Fatal(err)
	}
	if err := client.Migrate(t.Context()); err != nil {
		t.Error(err)
	}
	var block LogBlock
	fill(&block, 0, 1, noon, 5000)
	if err := client.InsertLogs(t.Context(), "t", &block); err != nil {
		t.Error(err)
	}
	enough := func(driver.Rows) (bool, error) { return false, nil }
	if err := client.each(t.Context(), "SELECT data FROM logs", nil, enough); err != nil {
		t.Error(err)
	}
	if err := client.Close(); err != nil {
		t.Error(err)
	}
	eventually(t, "no goroutine is left", func() bool { // one check takes half a second
		if err = goleak.Find(before); err != nil {
			t.Log(err)
		}
		return err == nil
	})
}

func dropDatabase(t *testing.T, client *Client) {
	options := *client.options
	options.Auth.Database = ""
	conn, err := ch.Open(&options)
	if err != nil {
		t.Error(err)
		return
	}
	if err := conn.Exec(context.Background(), "DROP DATABASE `"+client.options.Auth.Database+"`"); err != nil {
		t.Error(err)
	}
	if err := conn.Close(); err != nil {
		t.Error(err)
	}
}

// The parameters in the statements must be those that the code binds.
func TestStatementsHaveExactlyTheirParameters(t *testing.T) {
	t.Parallel()
	scoped := func(more ...string) []string {
		_, arguments := allTimes(project, query.Query{}).statement("logs")
		return slices.Sorted(slices.Values(append(namesOf(arguments), more...)))
	}
	given := map[string][]string{
		"logs":   scoped(namesOf(newest.arguments(1))...),
		"events": scoped(namesOf(newest.arguments(1))...),

		"histogram":      scoped("width"),
		"facets":         scoped("limit"),
		"facet_pairs":    scoped("limit", "many", "sample"),
		"context_at":     scoped("at_idx", "at_seq", "at_shard"),
		"context_before": scoped("application", "at_idx", "at_seq", "at_shard", "at_time", "host", "limit"),
		"context_after":  scoped("application", "at_idx", "at_seq", "at_shard", "at_time", "host", "limit"),
		"tail_heads":     scoped("lowest", "seqs", "since"),
		"tail":           scoped("heads", "idxs", "limit", "lowest", "seqs", "since"),
		"tail_count":     scoped("heads", "idxs", "lowest", "seqs", "since"),

		"count": {"from", "received_max", "received_min", "shard", "table", "to"},
		"erase": {"project", "table"},

		"broken_parts": nil,
		"counted_rows": {"since"},
		"stored_rows":  {"since", "table"},
		"last_row":     {"above", "shard", "table"},
		"last_usage":   {"above", "stream"},
		"usage_of":     {"hour", "stream"},

		"batches_since":  {"since"},
		"deliveries":     {"before_event", "before_time", "from", "limit", "project", "state", "to"},
		"delivery_steps": {"event", "limit", "project"},
		"destinations":   {"limit", "since"},
		"project_sizes":  {"limit", "since"},
		"table_sizes":    nil,

		"erase_rows": {"before", "project", "table"},
		"usage":      {"from", "limit", "project", "to"},
	}
	parameter := regexp.MustCompile(`\{(\w+):[\w()]+\}`)
	for name, want := range given {
		names := map[string]bool{}
		text, _ := allTimes(project, query.Query{}).statement(name)
		for _, match := range parameter.FindAllStringSubmatch(text, -1) {
			names[match[1]] = true
		}
		if got := slices.Sorted(maps.Keys(names)); !slices.Equal(got, want) {
			t.Errorf("sql/%s.sql has parameters %v, given are %v", name, got, want)
		}
	}
	files, err := statements.ReadDir("sql")
	if err != nil || len(files) != len(given) {
		t.Errorf("there are %d statements, this test knows %d: %v", len(files), len(given), err)
	}
}

func namesOf(arguments []any) []string {
	var names []string
	for _, a := range arguments {
		names = append(names, a.(driver.NamedValue).Name)
	}
	slices.Sort(names)
	return names
}

func TestArgumentsOfAPage(t *testing.T) {
	t.Parallel()
	q := Query{
		Project: project, From: time.Unix(0, noon), To: time.Unix(0, noon+10), Filter: quoted(t, "x"),
		Limit: 7, Cursor: cursor(record.KindLog, project, position{noon + 5, record.RowID{Shard: 1, Seq: 2, Idx: 3}}),
	}
	s, before, limit, err := q.check(record.KindLog)
	if err != nil {
		t.Fatal(err)
	}
	_, arguments := s.statement("logs")
	got := fmt.Sprint(append(arguments, before.arguments(limit+1)...))
	want := fmt.Sprintf("[{project %s} {first %d} {last %d} {q0 x} {at_time %d} {at_shard 1} {at_seq 2} {at_idx 3} {limit 8}]",
		project, noon, noon+5, noon+5)
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
