package config

import (
	"io"
	"strings"
	"testing"
)

func TestAClustersNameIsHeldToWhatMayStandInSQL(t *testing.T) {
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
