package clickhouse

import (
	"context"
	"fmt"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
)

// Audit counts the rows of a range, how many different records they are, and
// the highest sequence among them. Rows and distinct differ where a record is
// stored twice. The caller bounds the range by time: the server holds a small
// bitmap for each message in it.
func (c *Client) Audit(ctx context.Context, r Range) (rows, distinct uint64, maxSeq uint64, err error) {
	table, err := tableOf(r.Kind)
	if err != nil {
		return 0, 0, 0, fmt.Errorf("clickhouse: audit: %w", err)
	}
	err = c.each(ctx, statement("audit"), r.arguments(table), func(answer driver.Rows) (bool, error) {
		return true, answer.Scan(&rows, &distinct, &maxSeq)
	})
	if err != nil {
		return 0, 0, 0, readError(table, err)
	}
	return rows, distinct, maxSeq, nil
}
