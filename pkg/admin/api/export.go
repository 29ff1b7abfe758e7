package api

import (
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/labstack/echo/v4"

	"github.com/logboom/logboom/pkg/clickhouse"

	"github.com/logboom/logboom/pkg/record"
)

// Media types of answers that are not JSON.
const (
	mediaNDJSON = "application/x-ndjson"
	mediaCSV    = "text/csv"
	mediaEvents = "text/event-stream"
)

const (
	maxExport     = 1_000_000 // logs
	exportPage    = 1000      // logs of one read
	writeDeadline = 30 * time.Second
)

// export streams a project's logs. It reads them page by page, so that each
// read is bounded.
func (a *API) export(r *request) error {
	q := clickhouse.LogQuery{Limit: exportPage}
	var err error
	if q.Filter, q.From, q.To, err = readFilter(r, record.KindLog); err != nil {
		return err
	}
	format, err := newFormat(r.QueryParam("format"), r.Response())
	if err != nil {
		return err
	}
	page, err := a.service.Logs(r.Request().Context(), r.project, q)
	if err != nil {
		return err
	}
	header := r.Response().Header()
	header.Set(echo.HeaderContentType, format.media())
	header.Set(echo.HeaderContentDisposition, fmt.Sprintf("attachment; filename=%q", r.project.Name+"-logs."+format.suffix()))
	r.Response().WriteHeader(http.StatusOK)
	if err := a.stream(r, q, page, format); err != nil {
		a.logger.Debug("export cut off", "project", r.project.Name, "err", err)
		cutOff(r)
	}
	return nil
}

// stream writes the page and those that follow it.
func (a *API) stream(r *request, q clickhouse.LogQuery, page clickhouse.LogPage, format format) error {
	if err := format.begin(); err != nil {
		return err
	}
	for n := 0; ; {
		allowWrite(r)
		for _, l := range page.Logs {
			if err := format.log(l); err != nil {
				return err
			}
		}
		n += len(page.Logs)
		err := errors.Join(format.flush(), http.NewResponseController(r.Response()).Flush())
		if err != nil || page.Next == "" || n >= maxExport {
			return err
		}
		q.Cursor = page.Next
		if page, err = a.service.Logs(r.Request().Context(), r.project, q); err != nil {
			return err
		}
	}
}

// allowWrite gives the client time to receive what is written next. A server
// that cannot set deadlines, as in tests, waits.
func allowWrite(c echo.Context) {
	_ = http.NewResponseController(c.Response()).SetWriteDeadline(time.Now().Add(writeDeadline))
}

// cutOff closes the connection without the end of the body, so that the client
// does not mistake half of an answer for all of it.
func cutOff(c echo.Context) {
	_ = http.NewResponseController(c.Response()).SetWriteDeadline(time.Now().Add(-time.Second))
}

// format is how exported logs are written.
type format interface {
	media() string
	suffix() string
	begin() error
	log(l clickhouse.StoredLog) error
	flush() error
}

func newFormat(name string, w io.Writer) (format, error) {
	switch name {
	case "", "ndjson":
		return ndjson{w}, nil
	case "csv":
		return sheet{csv.NewWriter(w)}, nil
	}
	return nil, &fieldError{"format", "neither ndjson nor csv"}
}

// ndjson is one JSON object a line.
type ndjson struct{ w io.Writer }

func (ndjson) media() string  { return mediaNDJSON }
func (ndjson) suffix() string { return "ndjson" }
func (ndjson) begin() error   { return nil }
func (ndjson) flush() error   { return nil }

func (n ndjson) log(l clickhouse.StoredLog) error {
	line, err := lineOf(l)
	if err != nil {
		return err
	}
	_, err = n.w.Write(append(line, '\n'))
	return err
}

// lineOf returns a value as one line of JSON. Characters that JSON allows but
// that act on terminals and editors are escaped, which does not change the
// value.
func lineOf(value any) ([]byte, error) {
	raw, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	var line []byte
	for i := 0; i < len(raw); {
		r, size := utf8.DecodeRune(raw[i:])
		if actsOnTerminals(r) {
			line = fmt.Appendf(line, `\u%04x`, r)
		} else {
			line = append(line, raw[i:i+size]...)
		}
		i += size
	}
	return line, nil
}

// actsOnTerminals reports whether a character acts on terminals or editors: C0,
// DEL, C1, controls of direction, separators of lines.
func actsOnTerminals(r rune) bool {
	switch {
	case r < ' ', 0x7f <= r && r <= 0x9f:
		return true
	case r == 0x061c, 0x200e <= r && r <= 0x200f, 0x2028 <= r && r <= 0x202e, 0x2066 <= r && r <= 0x2069:
		return true
	}
	return false
}

// sheet is CSV with a header.
type sheet struct{ w *csv.Writer }

func (sheet) media() string  { return mediaCSV }
func (sheet) suffix() string { return "csv" }

func (t sheet) begin() error {
	return t.w.Write([]string{"id", "timestamp", "application", "severity", "severity_number", "data", "host", "source", "metadata"})
}

func (t sheet) flush() error {
	t.w.Flush()
	return t.w.Error()
}

func (t sheet) log(l clickhouse.StoredLog) error {
	metadata, err := lineOf(l.Metadata)
	if err != nil {
		return err
	}
	return t.w.Write([]string{
		l.ID.String(), l.Timestamp.UTC().Format(time.RFC3339Nano), cell(l.Application), cell(l.Severity),
		strconv.Itoa(int(l.SeverityNumber)), cell(l.Data), cell(l.Host), cell(l.Source), string(metadata),
	})
}

// cell returns a text that spreadsheets do not take for a formula and that does
// not act on terminals.
func cell(text string) string {
	var b strings.Builder
	if first, _ := utf8.DecodeRuneInString(text); strings.ContainsRune("=+-@|%\t\r\n＝＋－＠", first) {
		b.WriteByte('\'')
	}
	for _, r := range text {
		if actsOnTerminals(r) {
			quoted := strconv.QuoteRuneToASCII(r)
			b.WriteString(quoted[1 : len(quoted)-1])
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}
