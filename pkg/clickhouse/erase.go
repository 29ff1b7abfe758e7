package clickhouse

import (
	"context"
	"fmt"
	"time"

	ch "github.com/ClickHouse/clickhouse-go/v2"
)

// eraseAfter is how old rows must be to be erased: the writer counts the rows
// of its last batches when an insert's answer was lost, and would take erased
// ones for missing.
const eraseAfter = 15 * time.Minute

// Erase deletes what is stored of a project by its id: its usage, deliveries,
// and the logs and events that have been there for a quarter of an hour. The
// rows are masked at once and leave the disk with later merges. It may be
// repeated, and must be for what is younger.
func (c *Client) Erase(ctx context.Context, project string) error {
	for _, table := range []string{"logs", "events"} {
		before := time.Now().Add(-eraseAfter).UnixNano()
		if err := c.erase(ctx, "erase_rows", table, project, ch.Named("before", before)); err != nil {
			return err
		}
	}
	for _, table := range []string{"usage", "deliveries"} {
		if err := c.erase(ctx, "erase", table, project); err != nil {
			return err
		}
	}
	return nil
}

func (c *Client) erase(ctx context.Context, name, table, project string, more ...any) error {
	arguments := append([]any{ch.Named("table", table), ch.Named("project", project)}, more...)
	if err := c.conn.Exec(ctx, statement(name), arguments...); err != nil {
		return fmt.Errorf("clickhouse: erase from %s: %w", table, redacted(err))
	}
	return nil
}
