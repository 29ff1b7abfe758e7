package clickhouse

import (
	"context"
	"fmt"

	ch "github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
)

// maxSetAside bounds how many parts SetAside names.
const maxSetAside = 100

// SetAside is a part that lies beside its table: its rows are missing from
// every answer.
type SetAside struct {
	Table, Name string
	Partition   string // as Partition names it, for logs and events
	// Broken says that ClickHouse put it there when it started, because it could
	// not read it. Otherwise somebody detached it.
	Broken bool
	// Overlapped says that parts in use may have blocks of the same inserts as
	// this one: to attach it could show rows twice.
	Overlapped bool
	// InUse says that the part is in its table as well: a detach that failed
	// half-way leaves it on both sides.
	InUse bool
}

// String is the part as an operator looks for it.
func (s SetAside) String() string { return s.Table + "/" + s.Name }

// SetAside tells the parts that lie beside their tables. It leaves out
// replicated tables, which fetch what they lose from another replica, and
// speaks of the server it reached.
func (c *Client) SetAside(ctx context.Context) ([]SetAside, error) {
	var parts []SetAside
	err := c.each(ctx, statement("set_aside"), []any{ch.Named("limit", uint32(maxSetAside))}, func(rows driver.Rows) (bool, error) {
		var part SetAside
		var broken, overlapped, inUse uint8
		if err := rows.Scan(&part.Table, &part.Name, &part.Partition, &broken, &overlapped, &inUse); err != nil {
			return false, err
		}
		part.Broken, part.Overlapped, part.InUse = broken != 0, overlapped != 0, inUse != 0
		parts = append(parts, part)
		return true, nil
	})
	if err != nil {
		return nil, fmt.Errorf("clickhouse: ask for parts set aside: %w", redacted(err))
	}
	return parts, nil
}

// Detach puts a part beside its table, where it stays until somebody drops or
// attaches it.
func (c *Client) Detach(ctx context.Context, table, part string) error {
	return c.alterPart(ctx, "detach_part", table, part)
}

// Attach puts a part that was set aside back into its table. ClickHouse refuses
// one whose files are not whole.
func (c *Client) Attach(ctx context.Context, table, part string) error {
	return c.alterPart(ctx, "attach_part", table, part)
}

// alterPart takes a part that is not there for one that somebody else has dealt
// with.
func (c *Client) alterPart(ctx context.Context, name, table, part string) error {
	if err := c.conn.Exec(ctx, statement(name), ch.Named("table", table), ch.Named("part", part)); err != nil && !noSuchPart(err) {
		return fmt.Errorf("clickhouse: %s %s of %s: %w", name, part, table, redacted(err))
	}
	return nil
}
