package front

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/logboom/logboom/pkg/embedded/engine/internal/chdb"
	"github.com/logboom/logboom/pkg/embedded/engine/internal/native"
)

// reply is the answer to one statement: the headers once, then the pieces of the
// result, then the end or, at any point, an error.
//
//	piece ─▶ Native revision ─▶ frames (compress=1) ─▶ client
type reply struct {
	w        http.ResponseWriter
	req      *request // nil until the request was parsed
	format   string
	started  time.Time
	progress chdb.Progress

	begun   bool
	tag     string
	frames  *frameWriter // nil without compress=1
	scratch []byte
}

// piece sends a part of the result.
func (p *reply) piece(result *chdb.Result) error {
	p.progress.Add(result.Progress())
	data := result.Bytes()
	if p.format == "Native" && p.req.revision > 0 {
		var err error
		if p.scratch, err = native.Append(p.scratch[:0], data, p.req.revision); err != nil {
			return err
		}
		data = p.scratch
	}
	if len(data) == 0 {
		return nil
	}
	p.begin()
	if err := p.extendDeadline(); err != nil {
		return err
	}
	_, err := p.writer().Write(data)
	return err
}

// extendDeadline gives the client writeTimeout for the next write, however long
// the statement took.
func (p *reply) extendDeadline() error {
	return http.NewResponseController(p.w).SetWriteDeadline(time.Now().Add(writeTimeout))
}

// end completes the answer.
func (p *reply) end() error {
	p.begin()
	return p.extendDeadline()
}

// begin sends the headers.
func (p *reply) begin() {
	if p.begun {
		return
	}
	p.begun = true
	p.tag = rand.Text()[:16]
	h := p.w.Header()
	h.Set("Content-Type", contentType(p.format))
	h.Set("X-Clickhouse-Query-Id", p.req.id)
	h.Set("X-Clickhouse-Exception-Tag", p.tag)
	h.Set("X-Clickhouse-Summary", p.summary())
	h.Set("X-Clickhouse-Timezone", "UTC")
	if p.format != "" {
		h.Set("X-Clickhouse-Format", p.format)
	}
	if p.req.framed {
		p.frames = newFrameWriter(p.w, p.req.settings["network_compression_method"])
	}
}

// writer accepts the bytes of the result.
func (p *reply) writer() io.Writer {
	if p.frames != nil {
		return p.frames
	}
	return p.w
}

// fail sends an error. Once part of the result was sent, the status cannot be
// changed any more, so the error is sent in the body after a marker.
func (p *reply) fail(err error) {
	_ = p.extendDeadline() // fails only if the client is gone
	if p.begun {
		p.failInside(textOf(err))
		return
	}
	code := codeOf(err)
	h := p.w.Header()
	h.Set("Content-Type", "text/plain; charset=UTF-8")
	h.Set("X-Clickhouse-Exception-Code", strconv.Itoa(code))
	if p.req != nil {
		h.Set("X-Clickhouse-Query-Id", p.req.id)
	}
	status := statusOf(code)
	switch status {
	case http.StatusServiceUnavailable:
		h.Set("Retry-After", "1")
	case http.StatusUnauthorized:
		h.Set("WWW-Authenticate", `Basic realm="ClickHouse server HTTP API"`)
	}
	p.w.WriteHeader(status)
	_, _ = io.WriteString(p.w, textOf(err)+"\n")
}

// failInside writes the block that ClickHouse documents for errors in the middle
// of a result. Among compressed frames it is an uncompressed one, because
// clickhouse-go searches the raw bytes for it.
func (p *reply) failInside(text string) {
	const longest = 16 << 10
	text = text[:min(len(text), longest)]
	block := fmt.Appendf(nil, "\r\n__exception__\r\n%s\r\n%s\n%d %s\r\n__exception__\r\n", p.tag, text, len(text)+1, p.tag)
	// Errors are ignored: the client may be gone, and nothing follows.
	if p.frames != nil {
		_, _ = p.frames.writePlain(block)
	} else {
		_, _ = p.w.Write(block)
	}
}

// summary is what is known about the statement when the headers are sent.
func (p *reply) summary() string {
	text := func(n uint64) string { return strconv.FormatUint(n, 10) }
	// Encoding a map of strings never fails.
	summary, _ := json.Marshal(map[string]string{
		"read_rows":          text(p.progress.ReadRows),
		"read_bytes":         text(p.progress.ReadBytes),
		"written_rows":       text(p.progress.WrittenRows),
		"written_bytes":      text(p.progress.WrittenBytes),
		"total_rows_to_read": "0",
		"result_rows":        text(p.progress.ResultRows),
		"result_bytes":       text(p.progress.ResultBytes),
		"elapsed_ns":         strconv.FormatInt(time.Since(p.started).Nanoseconds(), 10),
	})
	return string(summary)
}

func contentType(format string) string {
	switch format {
	case "JSON", "JSONCompact", "JSONStrings", "JSONColumns", "JSONObjectEachRow":
		return "application/json; charset=UTF-8"
	case "JSONEachRow", "JSONLines", "NDJSON", "JSONCompactEachRow":
		return "application/x-ndjson; charset=UTF-8"
	case "CSV", "CSVWithNames":
		return "text/csv; charset=UTF-8; header=absent"
	case "TabSeparated", "TSV", "TabSeparatedRaw", "TSVRaw":
		return "text/tab-separated-values; charset=UTF-8"
	case "Native", "RowBinary", "RowBinaryWithNames", "RowBinaryWithNamesAndTypes", "Parquet", "ArrowStream":
		return "application/octet-stream"
	}
	return "text/plain; charset=UTF-8"
}
