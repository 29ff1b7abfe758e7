package clickhouse

import (
	"context"
	"fmt"

	ch "github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
)

// maxSetAside bounds how many parts SetAside names.
const maxSetAside = 100

// SetAside names the parts, as table/part, that ClickHouse could not read when
// it started and has put aside as broken: their rows are missing from every
// answer until somebody looks. On a cluster it speaks of the server it reached.
func (c *Client) SetAside(ctx context.Context) ([]string, error) {
	var parts []string
	err := c.each(ctx, statement("set_aside"), []any{ch.Named("limit", uint32(maxSetAside))}, func(rows driver.Rows) (bool, error) {
		var table, name string
		if err := rows.Scan(&table, &name); err != nil {
			return false, err
		}
		parts = append(parts, table+"/"+name)
		return true, nil
	})
	if err != nil {
		return nil, fmt.Errorf("clickhouse: ask for parts set aside: %w", redacted(err))
	}
	return parts, nil
}
