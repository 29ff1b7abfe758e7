package clickhouse

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"

	"github.com/ClickHouse/ch-go/compress"
	ch "github.com/ClickHouse/clickhouse-go/v2"
)

// InsertLogs inserts the block's rows as one block under the deduplication
// token: the server does not store again what it remembers under this token.
// The block may be reset as soon as InsertLogs returns. Classify says what an
// error means; after any error all, some or none of the rows may be stored.
func (c *Client) InsertLogs(ctx context.Context, token string, b *LogBlock) error {
	return c.insert(ctx, token, "logs", b.fields(), b.Rows())
}

// InsertEvents inserts events as InsertLogs inserts logs.
func (c *Client) InsertEvents(ctx context.Context, token string, b *EventBlock) error {
	return c.insert(ctx, token, "events", b.fields(), b.Rows())
}

// leftToMerges are the indexes that inserts of logs do not build: a merge builds
// them, and every merge would build them again. Until then a query reads the
// rows themselves. ClickHouse knows the setting since 25.10.
const leftToMerges = "data_words, metadata_values"

// insert streams the columns' own bytes as the body of an HTTP request.
// Measured with 100,000 rows: 0.1 us of processor time per row and hardly any
// garbage, against 0.6 us and 1.5 KB through clickhouse-go's batches.
//
// The query id is the token's, so that a server that is still busy with a lost
// attempt refuses the next one (code 216) instead of racing it.
func (c *Client) insert(ctx context.Context, token, table string, fields []field, rows int) error {
	if rows == 0 {
		return nil
	}
	names := make([]string, len(fields))
	for i, f := range fields {
		names[i] = f.name
	}
	settings := ch.Settings{
		"async_insert":               0,
		"insert_deduplicate":         1,
		"insert_deduplication_token": token,
	}
	if table == "logs" {
		settings["exclude_materialize_skip_indexes_on_insert"] = leftToMerges
	}
	pieces := &pieceReader{pieces: appendBlock(nil, fields, rows)}
	defer pieces.detach()
	ctx, cancel := context.WithTimeout(ctx, c.config.InsertTimeout)
	defer cancel()
	ctx = ch.Context(ctx, ch.WithQueryID(table+"-"+token), ch.WithSettings(settings))
	if err := c.conn.InsertFormat(ctx, "Native", "INSERT INTO "+table+" ("+strings.Join(names, ", ")+")", pieces); err != nil {
		return fmt.Errorf("clickhouse: insert into %s: %w", table, redacted(err))
	}
	return nil
}

// pieceReader reads one piece after the other. An HTTP transport may go on
// reading a body after the request failed; once detach has returned, none of
// the pieces is touched any more, so the block can be filled again.
type pieceReader struct {
	mu       sync.Mutex
	pieces   net.Buffers
	detached bool
}

func (r *pieceReader) Read(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.detached {
		// Not io.EOF: the server must not store a part as if it were everything.
		return 0, io.ErrUnexpectedEOF
	}
	return r.pieces.Read(p)
}

func (r *pieceReader) detach() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pieces, r.detached = nil, true
}

// compressor sends the bodies of inserts compressed. clickhouse-go would
// compress answers as well, and it looks for exceptions in their compressed
// bytes: a line that held "__exception__" made its whole page unreadable.
type compressor struct{ *http.Transport }

// RoundTrip implements http.RoundTripper.
func (t compressor) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.Header.Get("Content-Type") != "application/octet-stream" { // only inserts have it
		return t.Transport.RoundTrip(request)
	}
	request = request.Clone(request.Context())
	parameters := request.URL.Query()
	parameters.Set("decompress", "1")
	request.URL.RawQuery = parameters.Encode()
	request.ContentLength, request.GetBody = -1, nil
	request.Body = &frameReader{ReadCloser: request.Body, raw: make([]byte, frameBytes), writer: compress.NewWriter(compress.LevelZero, compress.LZ4)}
	return t.Transport.RoundTrip(request)
}

// frameBytes is how much of a body one compressed frame holds.
const frameBytes = 1 << 20

// frameReader compresses what it reads into ClickHouse's own frames, which the
// server expands if the parameter decompress is 1.
type frameReader struct {
	io.ReadCloser
	raw    []byte
	writer *compress.Writer
	rest   []byte // of the frame that is being read
}

func (r *frameReader) Read(p []byte) (int, error) {
	if len(r.rest) == 0 {
		// A short read is the last frame; the next read returns the error.
		n, err := io.ReadFull(r.ReadCloser, r.raw)
		if n == 0 {
			return 0, err
		}
		if err := r.writer.Compress(r.raw[:n]); err != nil {
			return 0, fmt.Errorf("compress: %w", err)
		}
		r.rest = r.writer.Data
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}
