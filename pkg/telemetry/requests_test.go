package telemetry

import (
	"bytes"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/labstack/echo/v4"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

func observed(t *testing.T, logger *slog.Logger) (*echo.Echo, *Requests) {
	t.Helper()
	e := echo.New()
	r := NewRequests("test", logger, prometheus.NewRegistry())
	e.HTTPErrorHandler = func(err error, c echo.Context) {
		code := "internal_error"
		var routing *echo.HTTPError
		if errors.As(err, &routing) {
			code = "not_found"
		}
		SetCode(c, code)
		if err := c.NoContent(http.StatusTeapot); err != nil {
			t.Error(err)
		}
	}
	e.Pre(r.Observe)
	e.GET("/fine/:name", func(c echo.Context) error { return c.NoContent(http.StatusOK) })
	e.GET("/panic", func(echo.Context) error { panic("a bug") })
	return e, r
}

func ask(e *echo.Echo, path, id string) *httptest.ResponseRecorder {
	request := httptest.NewRequest(http.MethodGet, path, nil)
	request.Header.Set(requestIDHeader, id)
	answer := httptest.NewRecorder()
	e.ServeHTTP(answer, request)
	return answer
}

func TestRequestIDIsKeptOnlyWhenFitToPrint(t *testing.T) {
	t.Parallel()
	e, _ := observed(t, quiet())
	for sent, kept := range map[string]bool{"abc-123": true, "": false, "two words": false, "line\x7fend": false, strings.Repeat("x", 129): false} {
		got := ask(e, "/fine/a", sent).Header().Get(requestIDHeader)
		if (got == sent) != kept || got == "" {
			t.Errorf("sent %q, answered %q", sent, got)
		}
	}
}

func TestPanicIsAnsweredAndLogged(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	e, r := observed(t, slog.New(slog.NewTextHandler(&out, nil)))
	if answer := ask(e, "/panic", "id-1"); answer.Code != http.StatusTeapot {
		t.Fatalf("status %d", answer.Code)
	}
	if !strings.Contains(out.String(), "a bug") || !strings.Contains(out.String(), "id-1") {
		t.Fatalf("log is %s", out.String())
	}
	if got := testutil.ToFloat64(r.failures.WithLabelValues("/panic", "internal_error")); got != 1 {
		t.Fatalf("%v failures", got)
	}
}

func TestUnknownPathsShareOneLabel(t *testing.T) {
	t.Parallel()
	e, r := observed(t, quiet())
	for _, path := range []string{"/a", "/b", "/c", "/fine/x", "/fine/y"} {
		ask(e, path, "")
	}
	if got := testutil.CollectAndCount(r.total); got != 2 {
		t.Fatalf("%d routes are counted", got)
	}
	if got := testutil.ToFloat64(r.total.WithLabelValues("other")); got != 3 {
		t.Fatalf("%v unknown paths", got)
	}
}
