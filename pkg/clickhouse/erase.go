package clickhouse

import (
	"context"
	"fmt"
	"time"

	ch "github.com/ClickHouse/clickhouse-go/v2"
)

// eraseAfter is the age from which logs and events are erased: after a lost
// answer the writer counts the rows of its last batches, and it would count
// erased rows as missing.
const eraseAfter = 15 * time.Minute

// Erase deletes what is stored of a project, given by its id: its usage, its
// deliveries, and the logs and events that are at least a quarter of an hour
// old. Rows are hidden at once and leave the disk with later merges. Erase may
// be repeated, and must be, for the younger rows.
func (c *Client) Erase(ctx context.Context, project string) error {
	before := ch.Named("before", time.Now().Add(-eraseAfter).UnixNano())
	for _, e := range []struct {
		statement, table string
		more             []any
	}{
		{"erase", "usage", nil}, // first, or the audit would take the rows for lost
		{"erase", "deliveries", nil},
		{"erase_rows", "logs", []any{before}},
		{"erase_rows", "events", []any{before}},
	} {
		arguments := append([]any{ch.Named("table", e.table), ch.Named("project", project)}, e.more...)
		if err := c.conn.Exec(ctx, statement(e.statement), arguments...); err != nil {
			return fmt.Errorf("clickhouse: erase from %s: %w", e.table, redacted(err))
		}
	}
	return nil
}
