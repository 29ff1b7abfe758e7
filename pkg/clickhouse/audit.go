package clickhouse

import (
	"context"
	"fmt"
	"time"

	ch "github.com/ClickHouse/clickhouse-go/v2"
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

// Message is a message of the queue, as its rows tell.
type Message struct {
	Seq      uint64
	Received int64 // Unix nanoseconds
}

// Doubled is the messages of a range of which a row is stored more than once,
// at most so many, by sequence. A message of which rows are missing is not among
// them. Nor is any of a replicated table, which loads no part at its start that
// its replicas do not know.
func (c *Client) Doubled(ctx context.Context, r Range, limit int) ([]Message, error) {
	table, err := tableOf(r.Kind)
	if err != nil {
		return nil, fmt.Errorf("clickhouse: doubled: %w", err)
	}
	var doubled []Message
	arguments := append(r.arguments(table), ch.Named("limit", uint32(limit)))
	err = c.each(ctx, statement("doubled"), arguments, func(rows driver.Rows) (bool, error) {
		var m Message
		err := rows.Scan(&m.Seq, &m.Received)
		doubled = append(doubled, m)
		return true, err
	})
	if err != nil {
		return nil, readError(table, err)
	}
	return doubled, nil
}

// Uptime is for how long the server has run, to the second below.
func (c *Client) Uptime(ctx context.Context) (time.Duration, error) {
	var seconds uint32
	err := c.each(ctx, statement("uptime"), nil, func(rows driver.Rows) (bool, error) {
		return true, rows.Scan(&seconds)
	})
	if err != nil {
		return 0, fmt.Errorf("clickhouse: ask for the uptime: %w", redacted(err))
	}
	return time.Duration(seconds) * time.Second, nil
}
