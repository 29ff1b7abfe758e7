package clickhouse

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"time"

	ch "github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
)

// Part is a part of a table, in use.
type Part struct {
	Table, Name string
	Rows        uint64
	// ReceivedMin is when the queue had its oldest row, to the second below.
	// Zero for usage.
	ReceivedMin time.Time
}

// String is the part as an operator looks for it.
func (p Part) String() string { return p.Table + "/" + p.Name }

// Damaged tells whether an error says that a stored part cannot be read, so
// that each further read of it will fail as well. An error of the disk that
// passes may look like it once.
func Damaged(err error) bool {
	var exception *ch.Exception
	if !errors.As(err, &exception) {
		return false
	}
	switch exception.Code {
	case 32, 33, 40, 226, 228, 246, 271, 354: // past the end, short, checksum, no file, its size, corrupted, cannot unpack
		return true
	case 74, 76, 107: // cannot read, cannot open, is not there
		return true
	case 49, 395: // columns of unequal length, and what a column without its file has for a default
		return true
	}
	return false
}

// DiskErrors is how many errors of its disk, and of what it read from there,
// the server has met since it started. ClickHouse 26.7 may swallow an error of
// a write and put a part with an empty file into use, so a number that has
// grown is all that tells of it.
func (c *Client) DiskErrors(ctx context.Context) (uint64, error) {
	var met uint64
	err := c.each(ctx, statement("disk_errors"), nil, func(rows driver.Rows) (bool, error) {
		return true, rows.Scan(&met)
	})
	if err != nil {
		return 0, fmt.Errorf("clickhouse: ask for errors of the disk: %w", redacted(err))
	}
	return met, nil
}

// Unreadable reads the parts of logs, events and usage that were made within
// the time from front to back, and is those that cannot be read. That takes
// long where they are large. Replicated tables look after their own.
func (c *Client) Unreadable(ctx context.Context, within time.Duration) ([]Part, error) {
	made, err := c.partsSince(ctx, within)
	if err != nil {
		return nil, err
	}
	var bad []Part
	for _, part := range made {
		whole, err := c.check(ctx, part)
		if err != nil {
			return nil, err
		}
		if !whole {
			bad = append(bad, part)
		}
	}
	return bad, nil
}

func (c *Client) partsSince(ctx context.Context, within time.Duration) ([]Part, error) {
	var parts []Part
	err := c.each(ctx, statement("parts_since"), []any{ch.Named("seconds", uint32(within.Seconds()))}, func(rows driver.Rows) (bool, error) {
		var part Part
		if err := rows.Scan(&part.Table, &part.Name, &part.Rows, &part.ReceivedMin); err != nil {
			return false, err
		}
		parts = append(parts, part)
		return true, nil
	})
	if err != nil {
		return nil, fmt.Errorf("clickhouse: list new parts: %w", redacted(err))
	}
	return parts, nil
}

// partName is what a part may be called in a statement: CHECK takes no
// parameter for it.
var partName = regexp.MustCompile(`^[0-9A-Za-z_-]+$`)

// noSuchPart tells whether a part is gone: it was merged into another meanwhile,
// or somebody else was faster.
func noSuchPart(err error) bool {
	var exception *ch.Exception
	return errors.As(err, &exception) && exception.Code == 232
}

// checkTimeout bounds the reading of one part.
const checkTimeout = 5 * time.Minute

// check reads a part against its checksums.
func (c *Client) check(ctx context.Context, part Part) (whole bool, err error) {
	if !partName.MatchString(part.Name) {
		return false, fmt.Errorf("clickhouse: check part %q of %s: the name is not a part's", part.Name, part.Table)
	}
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	ctx = ch.Context(ctx, ch.WithSettings(ch.Settings{"check_query_single_value_result": 0}))
	rows, err := c.conn.Query(ctx, "CHECK TABLE {table:Identifier} PART '"+part.Name+"'", ch.Named("table", part.Table))
	if noSuchPart(err) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("clickhouse: check part %s of %s: %w", part.Name, part.Table, redacted(err))
	}
	defer rows.Close()
	whole = true
	for rows.Next() {
		var name, message string
		var passed uint8
		if err := rows.Scan(&name, &passed, &message); err != nil {
			return false, fmt.Errorf("clickhouse: check part %s of %s: %w", part.Name, part.Table, redacted(err))
		}
		whole = whole && passed == 1
	}
	if err := rows.Err(); err != nil {
		return false, fmt.Errorf("clickhouse: check part %s of %s: %w", part.Name, part.Table, redacted(err))
	}
	return whole, nil
}
