package clickhouse

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	ch "github.com/ClickHouse/clickhouse-go/v2"

	"github.com/logboom/logboom/pkg/embedded/engine/enginetest"
)

// away returns the address of a ClickHouse that closes so many connections before
// it answers.
func away(t *testing.T, times int32) (address string) {
	t.Helper()
	real, err := url.Parse(enginetest.URL(t))
	if err != nil {
		t.Fatal(err)
	}
	behind := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: real.Scheme, Host: real.Host})
	var left atomic.Int32
	left.Store(times)
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if left.Add(-1) >= 0 {
			panic(http.ErrAbortHandler)
		}
		behind.ServeHTTP(w, r)
	}))
	t.Cleanup(front.Close)
	shown := *real
	shown.Host = front.Listener.Addr().String()
	return shown.String()
}

func TestPrepareWaitsForClickHouse(t *testing.T) {
	t.Parallel()
	client := opened(t, Config{URL: away(t, 5)})
	var log bytes.Buffer
	if err := client.Prepare(t.Context(), slog.New(slog.NewTextHandler(&log, nil))); err != nil {
		t.Fatal(err)
	}
	if err := client.Ping(t.Context()); err != nil || !strings.Contains(log.String(), "clickhouse not reached") {
		t.Errorf("%v, and the log says %q", err, log.String())
	}
}

func TestPrepareEndsWithItsContextAndSaysWhy(t *testing.T) {
	t.Parallel()
	client := opened(t, Config{URL: "http://127.0.0.1:1/logboom"}) // no process listens there
	ctx, cancel := context.WithCancel(t.Context())
	retried := make(chan struct{}, 100) // more than the attempts
	go func() {
		<-retried
		cancel()
	}()
	err := client.Prepare(ctx, slog.New(slog.NewTextHandler(writes(retried), nil)))
	if err == nil || !strings.Contains(err.Error(), "create database logboom") {
		t.Errorf("got %v", err)
	}
}

// writes signals each write.
type writes chan<- struct{}

func (w writes) Write(p []byte) (int, error) {
	w <- struct{}{}
	return len(p), nil
}

func TestPrepareRetriesOnlyTransientErrors(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err  error
		pass bool
	}{
		{&ch.Exception{Code: 516}, false}, // a wrong password
		{&ch.Exception{Code: 497}, false}, // no right to create
		{&ch.Exception{Code: 62}, false},  // a migration that is not SQL
		{&ch.Exception{Code: 202}, true},  // busy
		{&ch.Exception{Code: 159}, true},  // a timeout
		{&url.Error{Op: "Post", Err: &net.OpError{Op: "dial", Err: errors.New("connection refused")}}, true},
		{&url.Error{Op: "Post", Err: io.EOF}, true},
		{errors.New("the tables are newer than this program"), false},
	} {
		if got := mayPass(c.err); got != c.pass {
			t.Errorf("%v: got %v", c.err, got)
		}
	}
}
