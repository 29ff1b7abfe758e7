package config

import (
	"io"
	"strings"
	"testing"

	"github.com/logboom/logboom/pkg/clickhouse"
	"github.com/logboom/logboom/pkg/secret"
)

func TestClusterNameIsSafeInSQL(t *testing.T) {
	t.Parallel()
	for name, good := range map[string]bool{
		"main": true, "logs-1.eu_west": true, "a'b": false, "a b": false, "`x`": false, strings.Repeat("x", 65): false,
	} {
		var cfg struct {
			ClickHouse `embed:""`
		}
		_, err := Parse("writer", "", &cfg, []string{"--clickhouse-cluster=" + name}, io.Discard)
		if (err == nil) != good || err != nil && !strings.Contains(err.Error(), "LOGBOOM_CLICKHOUSE_CLUSTER") {
			t.Errorf("%q: %v", name, err)
		}
	}
}

func TestAnAddressIsTakenWhereTheClientTakesIt(t *testing.T) {
	t.Parallel()
	for address, good := range map[string]bool{
		"http://h:8123/logboom": true, "https://u:" + hidden + "@h/logboom": true, "http://h/log-boom_2?compress=lz4": true,
		"clickhouse://h/logboom": false, "clickhouse://h:9440/logboom?secure=true": false,
		"clickhouses://u:" + hidden + "@h:9440/logboom": false, "tcp://h:9000/logboom": false, "h:9000/logboom": false,
		"http://h:8123": false, "http://h:8123/": false, "http://:8123/logboom": false, "http://h/a.b": false, "http://h/a/b": false,
		"http://a:8123/logboom,http://b:8123/logboom": false, "http://a:8123,b:8123/logboom": false, "http://h/" + strings.Repeat("x", 65): false,
	} {
		err := (&ClickHouse{ClickHouseURL: URL{secret.New(address)}}).Validate()
		if (err == nil) != good || err != nil && (!strings.Contains(err.Error(), "LOGBOOM_CLICKHOUSE_URL") || strings.Contains(err.Error(), hidden)) {
			t.Errorf("%s: %v", address, err)
		}
		client, err := clickhouse.Open(clickhouse.Config{URL: address})
		if (err == nil) != good {
			t.Errorf("the client and %s: %v", address, err)
		}
		if err == nil {
			_ = client.Close() // it was never used
		}
	}
}
