package ship

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

	"github.com/logboom/logboom/cmd/collector/internal/option"
)

const (
	path = "/services/collector/event/1.0"

	maxAnswer = 64 << 10 // bytes that are read of an answer
	maxShown  = 200      // bytes of it that are logged
)

// verdict is what became of an attempt.
type verdict int

const (
	again     verdict = iota // later, the same
	delivered                // stored
	tooLarge                 // as it is: with fewer lines, perhaps
	refused                  // for good
)

// post sends a bench's body once. The route's pause follows from the answer.
func (r *Route) post(ctx context.Context, b *bench) verdict {
	began := time.Now()
	answer, err := r.attempt(ctx, b)
	r.metrics.attempt.Observe(time.Since(began).Seconds())
	if err != nil {
		if ctx.Err() == nil {
			r.failed("no_answer", err.Error(), r.patience.Least, 0)
		}
		return again
	}
	return r.judge(answer)
}

// answer is what a server said.
type answer struct {
	status     int
	retryAfter time.Duration
	text       string // its beginning
}

func (r *Route) attempt(ctx context.Context, b *bench) (answer, error) {
	ctx, cancel := context.WithTimeout(ctx, r.patience.Attempt)
	defer cancel()
	client, err := r.httpClient()
	if err != nil {
		return answer{}, err
	}
	token, err := r.token()
	if err != nil {
		return answer{}, err
	}
	request, err := r.request(ctx, b, token)
	if err != nil {
		return answer{}, err
	}
	response, err := client.Do(request)
	if err != nil {
		return answer{}, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil && response.StatusCode != http.StatusOK {
		return answer{}, fmt.Errorf("answer %d: %w", response.StatusCode, err)
	}
	shown := strings.ReplaceAll(string(text[:min(maxShown, len(text))]), token, "***") // it goes into the log
	return answer{response.StatusCode, retryAfter(response.Header, r.patience.Longest), shown}, nil
}

func (r *Route) request(ctx context.Context, b *bench, token string) (_ *http.Request, err error) {
	body := b.body
	if b.packer != nil {
		if b.packed, err = b.packer.appendPacked(b.packed[:0], b.body); err != nil {
			return nil, err
		}
		body = b.packed
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, r.to.URL+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Authorization", "Splunk "+token)
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Idempotency-Key", b.cut.ID)
	request.Header.Set("User-Agent", "logboom-collector")
	if b.packer != nil {
		request.Header.Set("Content-Encoding", r.to.Compression)
	}
	return request, nil
}

// judge chooses what an answer means, in this one place.
func (r *Route) judge(a answer) verdict {
	switch {
	case a.status == http.StatusOK:
		r.succeeded()
		return delivered
	case a.status == http.StatusRequestEntityTooLarge:
		return tooLarge
	case a.status == http.StatusBadRequest:
		return refused
	case a.status == http.StatusTooManyRequests, a.status == http.StatusRequestTimeout, a.status >= 500:
		r.failed("busy", a.describe(), r.patience.Least, a.retryAfter)
	case a.status == http.StatusUnauthorized, a.status == http.StatusForbidden:
		r.failed("token_refused", a.describe()+": check "+option.Token+"; lines stay in the spool meanwhile", r.patience.Refused, a.retryAfter)
	default:
		r.failed("odd_answer", a.describe()+": check "+option.URL+"; lines stay in the spool meanwhile", r.patience.Refused, a.retryAfter)
	}
	return again
}

func (a answer) describe() string { return fmt.Sprintf("answer %d %q", a.status, a.text) }

// retryAfter reads the header in both its forms; 0: none was given.
func retryAfter(header http.Header, longest time.Duration) time.Duration {
	value := header.Get("Retry-After")
	if value == "" {
		return 0
	}
	seconds, err := strconv.ParseInt(value, 10, 64)
	if errors.Is(err, strconv.ErrRange) {
		return longest
	}
	if err == nil {
		return min(longest, max(0, time.Duration(min(seconds, int64(longest/time.Second)+1))*time.Second))
	}
	at, err := http.ParseTime(value)
	if err != nil {
		return 0
	}
	return min(longest, max(0, time.Until(at)))
}
