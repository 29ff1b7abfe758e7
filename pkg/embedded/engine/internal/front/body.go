package front

import (
	"errors"
	"io"
	"net/http"
	"time"
)

// body reads a request's body under three bounds: its length, the length of
// what it unpacks to, and the time in which the next bytes must come.
type body struct {
	raw     *wire
	decoded io.Reader
	left    int64 // decoded bytes still allowed
	limit   int64
}

// openBody undoes the Content-Encoding and ClickHouse's own frames.
func (s *Server) openBody(w http.ResponseWriter, r *http.Request, unframe bool) (*body, error) {
	limit := s.config.MaxBodyBytes
	raw := &wire{control: http.NewResponseController(w), from: r.Body, left: limit, limit: limit, timeout: s.config.BodyTimeout}
	decoded, err := decode(raw, r.Header.Get("Content-Encoding"))
	if err != nil {
		return nil, err
	}
	if unframe {
		decoded = newFrameReader(decoded)
	}
	return &body{raw: raw, decoded: decoded, left: limit, limit: limit}, nil
}

// drain reads what was left of a refused body, within reason: many clients
// read no answer before they have sent everything.
func (b *body) drain() { _, _ = io.CopyN(io.Discard, b.raw, 64<<20) }

// Read returns io.EOF only at the true end of the body. A body that was cut
// ends in an error.
func (b *body) Read(p []byte) (int, error) {
	n, err := b.decoded.Read(p)
	if b.left -= int64(n); b.left < 0 {
		return 0, tooLarge(b.limit)
	}
	if err == nil || err == io.EOF {
		return n, err
	}
	return n, broken(err)
}

// broken explains an error while the body was read. The code is one that a
// client does not take for a refusal of its rows.
func broken(err error) error {
	var known *exception
	if errors.As(err, &known) {
		return err
	}
	return raise(codeCannotReadAllData, "CANNOT_READ_ALL_DATA", "the request body ended before its end or is damaged (%s): nothing of it is stored", err)
}

func tooLarge(limit int64) error {
	return raise(codeQueryTooLarge, "QUERY_IS_TOO_LARGE", "the request body is larger than %d bytes: send it in parts", limit)
}

// wire is the body as it arrives. Each read has its own deadline, so that a
// slow but living client may take its time and a dead one may not.
type wire struct {
	control *http.ResponseController
	from    io.Reader
	left    int64
	limit   int64
	timeout time.Duration
}

func (w *wire) Read(p []byte) (int, error) {
	if err := w.control.SetReadDeadline(time.Now().Add(w.timeout)); err != nil {
		return 0, err
	}
	n, err := w.from.Read(p)
	if w.left -= int64(n); w.left < 0 {
		return 0, tooLarge(w.limit)
	}
	if err == io.EOF {
		// From here on the server waits for the client to go away, and that
		// wait must not run into the deadline.
		_ = w.control.SetReadDeadline(time.Time{})
	}
	return n, err
}

// head reads up to n bytes; whole says that the body ended within them.
func (b *body) head(n int) (data []byte, whole bool, err error) {
	data, err = io.ReadAll(io.LimitReader(b, int64(n)))
	return data, err == nil && len(data) < n, err
}
