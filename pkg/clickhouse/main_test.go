package clickhouse

import (
	"testing"

	"github.com/logboom/logboom/pkg/embedded/engine/enginetest"
)

func TestMain(m *testing.M) { enginetest.Main(m) }

// migrated is a client of a database of its own, with all tables. parameters
// are added to its URL: compress=lz4 sends through a batch, "" does not.
func migrated(tb testing.TB, parameters string) *Client {
	tb.Helper()
	client := opened(tb, Config{URL: enginetest.URL(tb) + parameters})
	if err := client.Migrate(tb.Context()); err != nil {
		tb.Fatal(err)
	}
	return client
}

func opened(tb testing.TB, config Config) *Client {
	tb.Helper()
	client, err := Open(config)
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
