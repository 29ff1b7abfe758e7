package clickhouse

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"
	"time"

	ch "github.com/ClickHouse/clickhouse-go/v2"

	"github.com/logboom/logboom/pkg/embedded/engine/enginetest"
)

const canary = "hunter2-canary"

func oneRow() *LogBlock {
	var block LogBlock
	fill(&block, 0, 1, noon, 1)
	return &block
}

func TestEveryCodeHasItsVerdict(t *testing.T) {
	t.Parallel()
	verdicts := map[Verdict][]int32{
		Permanent: {6, 27, 53, 117},
		Transient: {60, 81, 202, 241, 242, 243, 252, 516},
		Ambiguous: {159, 209, 210, 216, 319, 1002, 999999},
	}
	for verdict, codes := range verdicts {
		for _, code := range codes {
			err := fmt.Errorf("insert: %w", redacted(&ch.HTTPError{StatusCode: 500, Err: &ch.Exception{Code: code}}))
			if class := Classify(err); class.Verdict != verdict || class.Reason == "" {
				t.Errorf("code %d is %s (%s), want %s", code, class.Verdict, class.Reason, verdict)
			}
		}
	}
}

// behind returns a client of a server that passes everything except inserts on to
// the engine; insert handles these.
func behind(t *testing.T, timeout time.Duration, insert http.HandlerFunc) *Client {
	t.Helper()
	engine, err := url.Parse(enginetest.URL(t))
	if err != nil {
		t.Fatal(err)
	}
	host := engine.Host
	pass := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.Out.URL.Scheme, r.Out.URL.Host = engine.Scheme, host
	}}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Query().Get("query"), "INSERT INTO logs") {
			insert(w, r)
			return
		}
		pass.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	engine.Host = strings.TrimPrefix(server.URL, "http://")
	client := opened(t, Config{URL: engine.String(), InsertTimeout: timeout})
	if err := client.Ping(t.Context()); err != nil {
		t.Fatal(err)
	}
	return client
}

func TestLostInsertIsAmbiguous(t *testing.T) {
	t.Parallel()
	released := make(chan struct{})
	t.Cleanup(func() { close(released) })
	tests := []struct {
		name    string
		timeout time.Duration
		insert  http.HandlerFunc
		want    Class
	}{
		{"no answer", 100 * time.Millisecond, func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			select {
			case <-released:
			case <-r.Context().Done():
			}
		}, Class{Ambiguous, "timeout"}},
		{"connection cut", time.Minute, func(http.ResponseWriter, *http.Request) {
			panic(http.ErrAbortHandler)
		}, Class{Ambiguous, "connection_lost"}},
		{"a gateway's answer", time.Minute, func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "bad gateway", http.StatusBadGateway)
		}, Class{Ambiguous, "connection_lost"}},
		{"the engine's refusal", time.Minute, func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "Code: 252. DB::Exception: Too many parts (300). (TOO_MANY_PARTS)", http.StatusInternalServerError)
		}, Class{Transient, "too_many_parts"}},
		{"a refusal after the headers", time.Minute, func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "__exception__\r\nCode: 241. DB::Exception: (total) memory limit exceeded. (MEMORY_LIMIT_EXCEEDED)")
		}, Class{Transient, "memory"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			err := behind(t, test.timeout, test.insert).InsertLogs(t.Context(), "t", oneRow())
			if err == nil {
				t.Fatal("the insert succeeded")
			}
			if got := Classify(err); got != test.want {
				t.Errorf("%v is %v, want %v", err, got, test.want)
			}
		})
	}
}

func TestUnreachableServerIsTransient(t *testing.T) {
	t.Parallel()
	client := opened(t, Config{URL: "http://127.0.0.1:1/logboom"})
	err := client.InsertLogs(t.Context(), "t", oneRow())
	if want := (Class{Transient, "unreachable"}); Classify(err) != want {
		t.Errorf("%v is %v, want %v", err, Classify(err), want)
	}
}

func TestMissingTableIsTransient(t *testing.T) {
	t.Parallel()
	client := opened(t, Config{URL: enginetest.URL(t)})
	err := client.InsertLogs(t.Context(), "t", oneRow())
	if want := (Class{Transient, "no_schema"}); Classify(err) != want {
		t.Errorf("%v is %v, want %v", err, Classify(err), want)
	}
}

func TestRowsOfAnotherTypeArePermanent(t *testing.T) {
	t.Parallel()
	client := migrated(t, "")
	var data text
	data.append("not a number")
	err := client.insert(t.Context(), "t", "logs", []field{{"severity_number", "String", &data}}, 1)
	if class := Classify(err); class.Verdict != Permanent {
		t.Errorf("%v is %v, want permanent", err, class)
	}
}

func TestNoErrorShowsThePassword(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	urls := []string{
		"http://logboom:" + canary + "@127.0.0.1:1/logboom",
		"clickhouse://logboom:" + canary + "@127.0.0.1:1/logboom",
		"https://logboom:" + canary + "@127.0.0.1:1/logboom?compress=lz4",
		"http://logboom:" + canary + "@[::1/logboom",
		"http://logboom:" + canary + "%zz@127.0.0.1/logboom",
		"http://logboom:" + canary + "@/logboom",
		"postgres://logboom:" + canary + "@127.0.0.1/logboom",
		"http://logboom:" + canary + "@127.0.0.1",
		"http://logboom:" + canary + "@127.0.0.1/logboom?password=" + canary,
	}
	for _, address := range urls {
		client, err := Open(Config{URL: address, DialTimeout: time.Second})
		if err == nil {
			err = errors.Join(
				client.Ping(ctx), client.Migrate(ctx), client.InsertLogs(ctx, "t", oneRow()),
				second(client.Logs(ctx, LogQuery{Project: project})), client.Close(),
			)
		}
		if err == nil || strings.Contains(fmt.Sprintf("%v %+v %q", err, err, err), canary) {
			t.Errorf("error %v", err)
		}
	}
}

func second[T any](_ T, err error) error { return err }

func TestErrorsCarryNoParameters(t *testing.T) {
	t.Parallel()
	client := opened(t, Config{URL: "http://127.0.0.1:1/logboom"})
	_, err := client.Logs(t.Context(), LogQuery{Project: project, Filter: quoted(t, canary)})
	if err == nil || strings.Contains(err.Error(), canary) || strings.Contains(err.Error(), "param_") {
		t.Errorf("error %v", err)
	}
}
