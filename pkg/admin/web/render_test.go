package web

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/logboom/logboom/pkg/people"
)

func TestBusySignInAndTooManyTriesSayWhatToDo(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	for name, tc := range map[string]struct {
		err    error
		status int
		text   string
	}{
		"busy":      {fmt.Errorf("wait: %w: %w", people.ErrBusy, context.DeadlineExceeded), http.StatusServiceUnavailable, "Too many people sign in at once"},
		"throttled": {&people.ThrottledError{RetryAfter: 30 * time.Second}, http.StatusTooManyRequests, "Too many tries: wait 30 seconds"},
	} {
		answer := httptest.NewRecorder()
		in := &request{Context: s.echo.NewContext(httptest.NewRequest(http.MethodGet, "http://localhost/", nil), answer), pages: s.pages}
		if err := in.fail(tc.err); err != nil || answer.Code != tc.status || !strings.Contains(answer.Body.String(), tc.text) {
			t.Errorf("%s: answer %d, %v: %s", name, answer.Code, err, answer.Body)
		}
		if wait := answer.Header().Get("Retry-After"); (wait == "30") != (name == "throttled") {
			t.Errorf("%s: Retry-After %q", name, wait)
		}
	}
}
