package front

import (
	"errors"
	"io"
	"net/http"
	"time"
)

// body reads a request's body within three bounds: its length, its decompressed
// length, and the time until the next bytes arrive.
type body struct {
	raw     *wire
	decoded io.Reader
	left    int64 // decompressed bytes still allowed
	limit   int64
}

// openBody returns the body without ClickHouse's compressed frames.
func (s *Server) openBody(w http.ResponseWriter, r *http.Request, unframe bool) *body {
	limit := s.config.MaxBodyBytes
	raw := &wire{control: http.NewResponseController(w), from: r.Body, left: limit, limit: limit, timeout: s.config.BodyTimeout}
	b := &body{raw: raw, decoded: raw, left: limit, limit: limit}
	if unframe {
		b.decoded = newFrameReader(raw)
	}
	return b
}

// drain reads up to 64 MiB of the rest of a refused body, because many clients
// read no answer before they have sent their whole body.
func (b *body) drain() { _, _ = io.CopyN(io.Discard, b.raw, 64<<20) }

// Read returns io.EOF only at the end of the whole body. If the connection ends
// earlier, it returns an error.
func (b *body) Read(p []byte) (int, error) {
	n, err := b.decoded.Read(p)
	if b.left -= int64(n); b.left < 0 {
		return 0, tooLarge(b.limit)
	}
	if err == nil || err == io.EOF {
		return n, err
	}
	return n, readFailure(err)
}

// readFailure converts an error of reading the body. Its code tells the client
// that the rows themselves were not refused.
func readFailure(err error) error {
	var known *exception
	if errors.As(err, &known) {
		return err
	}
	return raise(codeCannotReadAllData, "CANNOT_READ_ALL_DATA", "the request body is incomplete or damaged (%s): nothing of it was stored", err)
}

func tooLarge(limit int64) error {
	return raise(codeQueryTooLarge, "QUERY_IS_TOO_LARGE", "the request body is larger than %d bytes: send it in smaller parts", limit)
}

// wire reads the body from the connection. Each read has its own deadline, so
// that a slow client may go on and a dead one may not.
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
		// The server now waits for the client to disconnect. That wait must not
		// reach the deadline.
		_ = w.control.SetReadDeadline(time.Time{})
	}
	return n, err
}

// head reads up to n bytes. whole is true if the body ended within them.
func (b *body) head(n int) (data []byte, whole bool, err error) {
	data, err = io.ReadAll(io.LimitReader(b, int64(n)))
	return data, err == nil && len(data) < n, err
}
