package clickhouse

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	ch "github.com/ClickHouse/clickhouse-go/v2"
)

// eraseAfter is how old rows must be to be erased: the writer counts the rows
// of its last batches when an insert's answer was lost, and would take erased
// ones for missing.
const eraseAfter = 15 * time.Minute

// eraseTimeout bounds the deletion of a range.
const eraseTimeout = 30 * time.Second

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

// EraseRange deletes the rows of a range from parts as PartsOf named them, by
// partition, and returns once that is done. A part that was merged or rewritten
// since has another name and keeps its rows: whoever deletes looks again until
// no part has any. So a deletion that arrives late takes nothing that was stored
// after the look.
//
// The rows are masked, as by Erase; the parts of the partition get other names.
// After an error the deletion may be under way still.
func (c *Client) EraseRange(ctx context.Context, r Range, parts map[string][]string) error {
	table, err := tableOf(r.Kind)
	if err != nil {
		return fmt.Errorf("clickhouse: erase: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, eraseTimeout)
	defer cancel()
	ctx = ch.Context(ctx, ch.WithSettings(ch.Settings{"lightweight_delete_mode": "alter_update", "lightweight_deletes_sync": 1}))
	for _, partition := range slices.Sorted(maps.Keys(parts)) {
		arguments := append(r.arguments(table), ch.Named("partition", partition), ch.Named("parts", parts[partition]))
		if err := c.conn.Exec(ctx, statement("erase_range"), arguments...); err != nil {
			return fmt.Errorf("clickhouse: erase messages %d to %d from %s: %w", r.From, r.To, table, redacted(err))
		}
	}
	return nil
}
