package admin

import (
	"context"
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

// Media types of answers that are no JSON.
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

// export streams a project's logs, page by page: each read is bounded, and
// rows of equal time are put in order once.
func (s *Server) export(r *request) error {
	q := clickhouse.LogQuery{Project: r.project.ID, Limit: exportPage}
	var err error
	if q.Filter, q.From, q.To, err = readFilter(r, record.KindLog); err != nil {
		return err
	}
	form, err := newForm(r.QueryParam("format"), r.Response())
	if err != nil {
		return err
	}
	page, err := s.exported(r, q)
	if err != nil {
		return err
	}
	header := r.Response().Header()
	header.Set(echo.HeaderContentType, form.media())
	header.Set(echo.HeaderContentDisposition, fmt.Sprintf("attachment; filename=%q", r.project.Name+"-logs."+form.suffix()))
	r.Response().WriteHeader(http.StatusOK)
	if err := s.stream(r, q, page, form); err != nil {
		s.deps.Logger.Debug("export cut", "project", r.project.Name, "err", err)
		cut(r)
	}
	return nil
}

// stream writes the page and those that follow it.
func (s *Server) stream(r *request, q clickhouse.LogQuery, page clickhouse.LogPage, form form) error {
	if err := form.begin(); err != nil {
		return err
	}
	for n := 0; ; {
		allowWrite(r)
		for _, l := range page.Logs {
			if err := form.log(l); err != nil {
				return err
			}
		}
		n += len(page.Logs)
		err := errors.Join(form.flush(), http.NewResponseController(r.Response()).Flush())
		if err != nil || page.Next == "" || n >= maxExport {
			return err
		}
		q.Cursor = page.Next
		if page, err = s.exported(r, q); err != nil {
			return err
		}
	}
}

// exported reads one page.
func (s *Server) exported(r *request, q clickhouse.LogQuery) (clickhouse.LogPage, error) {
	ctx, cancel := context.WithTimeout(r.Request().Context(), s.cfg.QueryTimeout)
	defer cancel()
	return s.deps.Reader.Logs(ctx, q)
}

// allowWrite gives the asker time to take what is written next. A server that
// cannot set deadlines, as in tests, waits.
func allowWrite(c echo.Context) {
	_ = http.NewResponseController(c.Response()).SetWriteDeadline(time.Now().Add(writeDeadline))
}

// cut ends the connection without the end of the body, so that nobody takes
// half of an answer for the whole.
func cut(c echo.Context) {
	_ = http.NewResponseController(c.Response()).SetWriteDeadline(time.Now().Add(-time.Second))
}

// form is how exported logs are written.
type form interface {
	media() string
	suffix() string
	begin() error
	log(l clickhouse.StoredLog) error
	flush() error
}

func newForm(name string, w io.Writer) (form, error) {
	switch name {
	case "", "ndjson":
		return ndjson{w}, nil
	case "csv":
		return sheet{csv.NewWriter(w)}, nil
	}
	return nil, &fieldError{"format", "neither ndjson nor csv"}
}

// ndjson is a JSON object a line.
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

// lineOf is a value as one line of JSON that no terminal obeys: what JSON
// leaves as it is and a terminal or an editor acts on is escaped, which means
// the same.
func lineOf(value any) ([]byte, error) {
	raw, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	var line []byte
	for i := 0; i < len(raw); {
		r, size := utf8.DecodeRune(raw[i:])
		if obeyed(r) {
			line = fmt.Appendf(line, `\u%04x`, r)
		} else {
			line = append(line, raw[i:i+size]...)
		}
		i += size
	}
	return line, nil
}

// obeyed tells whether terminals or editors act on a character: C0, DEL, C1,
// controls of direction, separators of lines.
func obeyed(r rune) bool {
	switch {
	case r < ' ', 0x7f <= r && r <= 0x9f:
		return true
	case r == 0x061c, 0x200e <= r && r <= 0x200f, 0x2028 <= r && r <= 0x202e, 0x2066 <= r && r <= 0x2069:
		return true
	}
	return false
}

// sheet is CSV, with a head.
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

// cell is a text that no spreadsheet takes for a formula and no terminal obeys.
func cell(text string) string {
	var b strings.Builder
	if first, _ := utf8.DecodeRuneInString(text); strings.ContainsRune("=+-@|%\t\r\n＝＋－＠", first) {
		b.WriteByte('\'')
	}
	for _, r := range text {
		if obeyed(r) {
			quoted := strconv.QuoteRuneToASCII(r)
			b.WriteString(quoted[1 : len(quoted)-1])
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}
