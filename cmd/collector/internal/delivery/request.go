package delivery

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/logboom/logboom/cmd/collector/internal/option"
)

const (
	path = "/services/collector/event/1.0"

	maxResponse = 64 << 10 // bytes of a response that are read
	maxShown    = 200      // bytes of a response that are logged
)

// verdict is the result of an attempt to send a batch.
type verdict int

const (
	retry     verdict = iota // send the same batch again later
	delivered                // the server has stored the batch
	tooLarge                 // the batch is too large; one with fewer lines may be accepted
	refused                  // the server will never accept the batch
)

// send makes one attempt to send a builder's batch, and pauses the route if the
// answer requires it.
func (r *Route) send(ctx context.Context, b *builder) verdict {
	began := time.Now()
	resp, err := r.post(ctx, b)
	r.metrics.attempt.Observe(time.Since(began).Seconds())
	if err != nil {
		if ctx.Err() == nil {
			r.fail("no_answer", err.Error(), 0, 0)
		}
		return retry
	}
	detail := fmt.Sprintf("answer %d %q", resp.status, resp.text)
	switch {
	case resp.status == http.StatusOK:
		r.succeed()
		return delivered
	case resp.status == http.StatusRequestEntityTooLarge:
		return tooLarge
	case resp.status == http.StatusBadRequest:
		return refused
	case resp.status == http.StatusTooManyRequests, resp.status == http.StatusRequestTimeout, resp.status >= 500:
		r.fail("busy", detail, 0, resp.retryAfter)
	case resp.status == http.StatusUnauthorized, resp.status == http.StatusForbidden:
		r.fail("token_refused", detail+": check "+option.Token+"; until then the lines stay in the spool", r.timing.RefusedPause, resp.retryAfter)
	default:
		r.fail("odd_answer", detail+": check "+option.URL+"; until then the lines stay in the spool", r.timing.RefusedPause, resp.retryAfter)
	}
	return retry
}

// response is the answer of the server.
type response struct {
	status     int
	retryAfter time.Duration // 0: the server gave none
	text       string        // the beginning of the body, without the token
}

func (r *Route) post(ctx context.Context, b *builder) (response, error) {
	ctx, cancel := context.WithTimeout(ctx, r.timing.Timeout)
	defer cancel()
	client, err := r.httpClient()
	if err != nil {
		return response{}, err
	}
	token, err := r.token()
	if err != nil {
		return response{}, err
	}
	request, err := r.newRequest(ctx, b, token)
	if err != nil {
		return response{}, err
	}
	resp, err := client.Do(request)
	if err != nil {
		return response{}, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxResponse))
	if err != nil && resp.StatusCode != http.StatusOK {
		return response{}, fmt.Errorf("answer %d: %w", resp.StatusCode, err)
	}
	shown := strings.ReplaceAll(string(text[:min(maxShown, len(text))]), token, "***") // it is logged
	return response{resp.StatusCode, retryAfter(resp.Header, r.timing.MaxRetryAfter), shown}, nil
}

func (r *Route) newRequest(ctx context.Context, b *builder, token string) (_ *http.Request, err error) {
	body := b.body
	if b.compress != nil {
		if b.compressed, err = b.compress(b.compressed[:0], b.body); err != nil {
			return nil, err
		}
		body = b.compressed
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, r.to.URL+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Authorization", "Splunk "+token)
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Idempotency-Key", b.batch.ID)
	request.Header.Set("User-Agent", "logboom-collector")
	if b.compress != nil {
		request.Header.Set("Content-Encoding", r.to.Compression)
	}
	return request, nil
}

// newCompressor returns a function that appends the compressed body to dst, or
// nil if bodies are not compressed. The function keeps its buffers.
func newCompressor(compression string) func(dst, body []byte) ([]byte, error) {
	switch compression {
	case option.Gzip:
		writer, _ := gzip.NewWriterLevel(nil, gzip.BestSpeed) // it fails only for an unknown level
		return func(dst, body []byte) ([]byte, error) {
			out := bytes.NewBuffer(dst)
			writer.Reset(out)
			_, err := writer.Write(body)
			if err = errors.Join(err, writer.Close()); err != nil {
				return nil, fmt.Errorf("gzip: %w", err)
			}
			return out.Bytes(), nil
		}
	case option.Zstd:
		encoder, _ := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1)) // it fails only for unknown options
		return func(dst, body []byte) ([]byte, error) { return encoder.EncodeAll(body, dst), nil }
	}
	return nil
}

// retryAfter parses the Retry-After header, which holds seconds or a date. It
// returns at most limit, and 0 if there is no valid header.
func retryAfter(header http.Header, limit time.Duration) time.Duration {
	value := header.Get("Retry-After")
	if value == "" {
		return 0
	}
	seconds, err := strconv.ParseInt(value, 10, 64)
	if errors.Is(err, strconv.ErrRange) {
		return limit
	}
	if err == nil {
		return min(limit, max(0, time.Duration(min(seconds, int64(limit/time.Second)+1))*time.Second))
	}
	at, err := http.ParseTime(value)
	if err != nil {
		return 0
	}
	return min(limit, max(0, time.Until(at)))
}
