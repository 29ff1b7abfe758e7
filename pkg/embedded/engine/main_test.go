package engine_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"

	"github.com/logboom/logboom/pkg/embedded/engine"
	"github.com/logboom/logboom/pkg/embedded/engine/enginetest"
)

const (
	// patience is how long a test waits for what has to happen.
	patience = 60 * time.Second
	// startPatience is how long for an engine, which reads its library of half
	// a gigabyte first.
	startPatience = 5 * time.Minute
)

func TestMain(m *testing.M) {
	engine.Main()
	if dir := os.Getenv(orphanFolder); dir != "" {
		raiseOrphan(dir)
	}
	enginetest.Main(m)
}

// dial opens clickhouse-go on an address.
func dial(t testing.TB, address string, adjust ...func(*clickhouse.Options)) clickhouse.Conn {
	t.Helper()
	options, err := clickhouse.ParseDSN(address)
	if err != nil {
		t.Fatal(err)
	}
	options.DialTimeout = patience
	for _, change := range adjust {
		change(options)
	}
	conn, err := clickhouse.Open(options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

func exec(t testing.TB, conn clickhouse.Conn, sql string, args ...any) {
	t.Helper()
	if err := conn.Exec(context.Background(), sql, args...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// number runs a query for one number.
func number(t testing.TB, conn clickhouse.Conn, sql string) uint64 {
	t.Helper()
	var n uint64
	if err := conn.QueryRow(context.Background(), sql).Scan(&n); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return n
}

// eventually asks until the answer is yes.
func eventually(t testing.TB, what string, ask func() bool) {
	t.Helper()
	deadline := time.After(patience)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !ask() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("never: %s", what)
		}
	}
}

// answer is a response with its body read.
type answer struct {
	status int
	header http.Header
	body   string
}

// call sends one request the way curl would, with `database` from the
// address's path and the given URL parameters.
type call struct {
	method string // default POST
	params url.Values
	header http.Header
	body   io.Reader
	login  *url.Userinfo // default: the address's
	path   string        // default /
}

func (c call) to(t testing.TB, address string) answer {
	t.Helper()
	response := send(t, c.request(t, address))
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer{status: response.StatusCode, header: response.Header, body: string(body)}
}

func (c call) request(t testing.TB, address string) *http.Request {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	params := url.Values{"database": {strings.TrimPrefix(u.Path, "/")}}
	for key, values := range c.params {
		params[key] = values
	}
	u.Path, u.RawQuery = "/"+strings.TrimPrefix(c.path, "/"), params.Encode()
	if c.login != nil {
		u.User = c.login
	}
	if c.method == "" {
		c.method = http.MethodPost
	}
	request, err := http.NewRequest(c.method, u.String(), c.body)
	if err != nil {
		t.Fatal(err)
	}
	for key, values := range c.header {
		request.Header[key] = values
	}
	return request
}

// send uses no connection twice, for the engine may close one that is idle in
// the moment of its next use.
func send(t testing.TB, request *http.Request) *http.Response {
	t.Helper()
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	return response
}

// sql runs a statement and fails the test when it fails.
func sql(t testing.TB, address, statement string) string {
	t.Helper()
	a := call{body: strings.NewReader(statement)}.to(t, address)
	if a.status != http.StatusOK {
		t.Fatalf("%s: %d %s", statement, a.status, a.body)
	}
	return strings.TrimSpace(a.body)
}

// rows makes n lines of a one-column TabSeparated insert.
func rows(n int) []byte {
	var b bytes.Buffer
	for i := range n {
		fmt.Fprintf(&b, "%d\n", i)
	}
	return b.Bytes()
}
