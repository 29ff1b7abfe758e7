package clickhouse

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"

	chproto "github.com/ClickHouse/ch-go/proto"
	ch "github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
)

// InsertLogs inserts the block's rows as one block under the deduplication
// token: a part of it that the server remembers under this token is not stored
// again. The block may be reset as soon as it returns. Classify tells what an
// error means; after any error the rows may be there, in part or whole.
func (c *Client) InsertLogs(ctx context.Context, token string, b *LogBlock) error {
	if b.Rows() == 0 {
		return nil
	}
	return c.insert(ctx, token, "logs", b.fields(), b.Rows())
}

// InsertEvents inserts events as InsertLogs does logs.
func (c *Client) InsertEvents(ctx context.Context, token string, b *EventBlock) error {
	if b.Rows() == 0 {
		return nil
	}
	return c.insert(ctx, token, "events", b.fields(), b.Rows())
}

func (c *Client) insert(ctx context.Context, token, table string, fields []field, rows int) error {
	ctx, cancel := c.insertContext(ctx, token, table, fields)
	defer cancel()
	statement := insertStatement(table, fields)
	var err error
	switch {
	case c.packed != nil:
		err = sendBatch(ctx, c.packed, statement, fields, rows)
	case c.options.Protocol == ch.HTTP:
		err = sendPieces(ctx, c.conn, statement, fields, rows)
	default:
		err = sendBatch(ctx, c.conn, statement, fields, rows)
	}
	if err != nil {
		return fmt.Errorf("clickhouse: insert into %s: %w", table, redacted(err))
	}
	return nil
}

// insertContext bounds the insert and carries its settings. The query id is the
// token's, so that a server still busy with a lost attempt refuses the next
// one (code 216) instead of racing it.
func (c *Client) insertContext(ctx context.Context, token, table string, fields []field) (context.Context, context.CancelFunc) {
	columns := make([]ch.ColumnNameAndType, len(fields))
	for i, f := range fields {
		columns[i] = ch.ColumnNameAndType{Name: f.name, Type: f.typ}
	}
	settings := ch.Settings{
		"async_insert":               0,
		"insert_deduplicate":         1,
		"insert_deduplication_token": token,
	}
	if table == "logs" {
		settings["exclude_materialize_skip_indexes_on_insert"] = leftToMerges
	}
	ctx, cancel := context.WithTimeout(ctx, c.config.InsertTimeout)
	return ch.Context(ctx,
		ch.WithQueryID(table+"-"+token),
		ch.WithColumnNamesAndTypes(columns), // or every insert would ask the server for them
		ch.WithSettings(settings),
	), cancel
}

// leftToMerges are the indexes that inserts of logs do not build: a merge builds
// them, and any merge would build them anew. Until then their rows are found by
// reading them. ClickHouse knows the setting since 25.10.
const leftToMerges = "data_words, metadata_values"

func insertStatement(table string, fields []field) string {
	names := make([]string, len(fields))
	for i, f := range fields {
		names[i] = f.name
	}
	return "INSERT INTO " + table + " (" + strings.Join(names, ", ") + ")"
}

// sendPieces streams the columns' own bytes as the body of an HTTP insert.
// Measured with 100,000 rows: 0.1 us of processor time a row and hardly any
// garbage, against 0.6 us and 1.5 KB through a batch.
func sendPieces(ctx context.Context, conn driver.Conn, statement string, fields []field, rows int) error {
	body := &pieceReader{pieces: appendBlock(nil, fields, rows)}
	defer body.detach()
	return conn.InsertFormat(ctx, "Native", statement, body)
}

// sendBatch goes through a batch, which speaks every protocol and compression.
// The batch's columns read ours from their wire form: filling them value by
// value costs reflection and an allocation for every low-cardinality word.
func sendBatch(ctx context.Context, conn driver.Conn, statement string, fields []field, rows int) error {
	batch, err := conn.PrepareBatch(ctx, statement)
	if err != nil {
		return err
	}
	for i, column := range batch.Columns() {
		wire := bytes.Join(fields[i].column.appendWire(nil), nil)
		if err := column.Decode(chproto.NewReader(bytes.NewReader(wire)), rows); err != nil {
			_ = batch.Abort() // the error that matters is the one above
			return fmt.Errorf("column %s: %w", fields[i].name, err)
		}
	}
	return batch.Send()
}

// pieceReader reads one piece after the other. An HTTP transport may go on
// reading a body after the request failed; once detach has returned, none of
// the pieces is touched any more, so the block can be filled anew.
type pieceReader struct {
	mu       sync.Mutex
	pieces   net.Buffers
	detached bool
}

func (r *pieceReader) Read(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.detached {
		// Not io.EOF: the server must not take what it has for the whole.
		return 0, io.ErrUnexpectedEOF
	}
	return r.pieces.Read(p)
}

func (r *pieceReader) detach() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pieces, r.detached = nil, true
}
