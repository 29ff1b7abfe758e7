package clickhouse

import (
	"cmp"
	"testing"
	"time"

	"github.com/logboom/logboom/pkg/embedded/engine/enginetest"
)

func TestMain(m *testing.M) { enginetest.Main(m) }

// migrated returns a client of a database of its own, with all tables.
// parameters are added to its URL, such as ?compress=lz4.
func migrated(tb testing.TB, parameters string) *Client {
	tb.Helper()
	client := opened(tb, Config{URL: enginetest.URL(tb) + parameters})
	if err := client.Migrate(tb.Context()); err != nil {
		tb.Fatal(err)
	}
	return client
}

// patience is how long a test waits for what must happen.
const patience = 60 * time.Second

// patient sets timeouts that the test has not set to patience: the defaults are for
// a machine that is not busy.
func patient(config Config) Config {
	config.DialTimeout = cmp.Or(config.DialTimeout, patience)
	config.InsertTimeout = cmp.Or(config.InsertTimeout, patience)
	config.ReadTimeout = cmp.Or(config.ReadTimeout, patience)
	return config
}

// eventually waits until the condition holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	deadline := time.After(patience)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("never: %s", what)
		}
	}
}

func opened(tb testing.TB, config Config) *Client {
	tb.Helper()
	client, err := Open(patient(config))
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := client.Close(); err != nil {
			tb.Error(err)
		}
	})
	return client
}
