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

// job is a received statement: either its whole text, or the beginning of an
// insert whose rows are still arriving.
type job struct {
	req    *request
	text   string
	insert *statement.Insert // nil if the statement contains no rows
	rest   *body             // nil once the whole body was read
}

// receive reads the beginning of the body, up to the longest statement without
// rows that is allowed.
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
	// Rows in the VALUES of a short text stay in it, because they may refer to
	// parameters, which the engine knows only when it starts a statement.
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

// execute runs the job on a connection of its own.
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

// insert streams the rows into the engine. It commits only if the whole body has
// arrived.
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

// query runs any statement except an insert with rows.
func (s *Server) query(ctx context.Context, conn *chdb.Conn, out *reply, j *job) error {
	statements, class := conn.Classify(j.text)
	if statements > 1 {
		return raise(codeSyntaxError, "SYNTAX_ERROR", "multi-statements are not allowed: send the %d statements one by one", statements)
	}
	if out.format = statement.OutputFormat(j.text); out.format == "" {
		out.format = j.req.format
	}
	if class == chdb.ReadOnly {
		defer s.killOnDisconnect(ctx, j.req.mark)()
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
		return raise(codeSyntaxError, "SYNTAX_ERROR", "the statement is empty or is not SQL")
	}
	if err := out.piece(result); err != nil {
		return err
	}
	return out.end()
}

// streams reports whether separately formatted pieces of a format form a valid
// result when they are concatenated. Other formats have a header or a footer.
func streams(format string) bool {
	switch format {
	case "Native", "RowBinary", "TabSeparated", "TSV", "TabSeparatedRaw", "TSVRaw", "CSV", "JSONEachRow", "JSONLines", "NDJSON":
		return true
	}
	return false
}

// stream sends a result piece by piece. It sends each piece only when the next
// one has arrived, so that a query that fails early still gets an error status.
func stream(conn *chdb.Conn, out *reply, j *job) error {
	pieces, err := conn.Stream(j.text, out.format, j.req.params)
	if err != nil {
		return err
	}
	defer pieces.Close()
	var pending *chdb.Result
	for {
		next, err := pieces.Next()
		if err != nil && err != io.EOF {
			closeResult(pending)
			return err
		}
		if pending != nil {
			sent := out.piece(pending)
			pending.Close()
			if sent != nil {
				closeResult(next)
				return sent
			}
		}
		if err == io.EOF {
			return out.end()
		}
		pending = next
	}
}

func closeResult(r *chdb.Result) {
	if r != nil {
		r.Close()
	}
}

// killOnDisconnect kills the marked query if ctx ends before the returned
// function is called. Only KILL on another connection stops a query. The query
// may not have started yet, so the KILL is repeated.
func (s *Server) killOnDisconnect(ctx context.Context, mark string) (done func()) {
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
				s.config.Logger.Warn("query of a disconnected client not killed", "err", err)
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
