package front

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/logboom/logboom/pkg/embedded/engine/internal/chdb"
	"github.com/logboom/logboom/pkg/embedded/engine/internal/statement"
)

// job is a statement as it has been received: its text in full, or the
// beginning of an insert whose rows are still on their way.
type job struct {
	req    *request
	text   string
	insert *statement.Insert // nil for what brings no rows of its own
	rest   *body             // nil once the text is complete
}

// receive reads as much of the body as a statement without rows may have.
func (s *Server) receive(req *request, from *body) (*job, error) {
	head, whole, err := from.head(headLimit)
	if err != nil {
		return nil, err
	}
	j := &job{req: req, text: string(head)}
	if req.query != "" {
		j.text = req.query + "\n" + j.text
	}
	if !whole {
		j.rest = from
	}
	// Rows in the VALUES of a short text stay there, for they may refer to
	// parameters, which the engine knows only while it starts a stream.
	if insert, ok := statement.ParseInsert(j.text); ok && !(whole && insert.Format == "Values") {
		j.insert = &insert
	}
	switch {
	case j.insert == nil && !whole:
		return nil, tooLarge(headLimit)
	case statement.TouchesFiles(j.headText()):
		return nil, raise(codeNotImplemented, "NOT_IMPLEMENTED", "INTO OUTFILE and FROM INFILE are not allowed")
	}
	return j, nil
}

func (j *job) headText() string {
	if j.insert != nil {
		return j.insert.Head
	}
	return j.text
}

// execute runs a job on a connection of its own.
func (s *Server) execute(ctx context.Context, out *reply, j *job) error {
	if err := s.slots.acquire(ctx); err != nil {
		return err
	}
	defer s.slots.release()
	conn, err := s.engine.Connect()
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.Exec(j.req.preamble()); err != nil {
		return err
	}
	if j.insert != nil {
		return s.insert(conn, out, j)
	}
	return s.query(ctx, conn, out, j)
}

// insert streams rows into the engine. Unless every byte has arrived, nothing
// is committed.
func (s *Server) insert(conn *chdb.Conn, out *reply, j *job) error {
	rows, err := conn.Insert(j.insert.Head, j.insert.Format, j.req.params)
	if err != nil {
		return err
	}
	if err := j.feed(rows); err != nil {
		rows.Cancel()
		return err
	}
	progress, err := rows.Commit()
	if err != nil {
		return err
	}
	out.progress.Add(progress)
	return out.end()
}

func (j *job) feed(rows *chdb.Insert) error {
	if err := rows.Append([]byte(j.text[j.insert.Data:])); err != nil || j.rest == nil {
		return err
	}
	part := make([]byte, 256<<10)
	for {
		n, err := io.ReadFull(j.rest, part)
		ended := errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
		if err != nil && !ended {
			return err
		}
		if err := rows.Append(part[:n]); err != nil {
			return err
		}
		if ended {
			j.rest = nil
			return nil
		}
	}
}

// query runs anything but an insert with rows.
func (s *Server) query(ctx context.Context, conn *chdb.Conn, out *reply, j *job) error {
	statements, class := conn.Classify(j.text)
	if statements > 1 {
		return raise(codeSyntaxError, "SYNTAX_ERROR", "multi-statements are not allowed: send the %d statements one by one", statements)
	}
	if out.format = statement.OutputFormat(j.text); out.format == "" {
		out.format = j.req.format
	}
	if class == chdb.ReadOnly {
		defer s.killWhenGone(ctx, j.req.mark)()
	}
	if class == chdb.ReadOnly && statement.ReturnsRows(j.text) && streams(out.format) && !j.req.waitEnd {
		return stream(conn, out, j)
	}
	result, err := conn.Query(j.text, out.format, j.req.params)
	if err != nil {
		return err
	}
	defer result.Close()
	if class == chdb.Unknown && len(result.Bytes()) == 0 {
		return raise(codeSyntaxError, "SYNTAX_ERROR", "the statement is empty or not SQL")
	}
	if err := out.piece(result); err != nil {
		return err
	}
	return out.end()
}

// streams says whether pieces of a format, each formatted by itself, make a
// whole when put together. The others have a head or a foot.
func streams(format string) bool {
	switch format {
	case "Native", "RowBinary", "TabSeparated", "TSV", "TabSeparatedRaw", "TSVRaw", "CSV", "JSONEachRow", "JSONLines", "NDJSON":
		return true
	}
	return false
}

// stream hands a result over piece by piece. It holds one piece back until the
// next is there, so that a small result that fails still gets a proper status.
func stream(conn *chdb.Conn, out *reply, j *job) error {
	pieces, err := conn.Stream(j.text, out.format, j.req.params)
	if err != nil {
		return err
	}
	defer pieces.Close()
	var held *chdb.Result
	for {
		next, err := pieces.Next()
		if err != nil && err != io.EOF {
			closeResult(held)
			return err
		}
		if held != nil {
			sent := out.piece(held)
			held.Close()
			if sent != nil {
				closeResult(next)
				return sent
			}
		}
		if err == io.EOF {
			return out.end()
		}
		held = next
	}
}

func closeResult(r *chdb.Result) {
	if r != nil {
		r.Close()
	}
}

// killWhenGone kills the marked query when ctx ends before the returned
// function is called. A query can be cut off from outside only by KILL, on
// another connection; it may not have started yet, so it is tried again.
func (s *Server) killWhenGone(ctx context.Context, mark string) (done func()) {
	finished, watched := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(watched)
		select {
		case <-finished:
			return
		case <-ctx.Done():
		}
		ticker := time.NewTicker(100 * time.Millisecond)
		defer ticker.Stop()
		for {
			if err := s.kill(mark); err != nil {
				s.config.Logger.Warn("abandoned query not killed", "err", err)
			}
			select {
			case <-finished:
				return
			case <-ticker.C:
			}
		}
	}()
	return func() {
		close(finished)
		<-watched
	}
}

func (s *Server) kill(mark string) error {
	conn, err := s.engine.Connect()
	if err != nil {
		return err
	}
	defer conn.Close()
	return conn.Exec(fmt.Sprintf("KILL QUERY WHERE endsWith(Settings['log_comment'], %s) ASYNC", quote(mark, '\'')))
}
