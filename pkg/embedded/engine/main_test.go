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
	// patience limits how long a test waits for an expected result.
	patience = 60 * time.Second
	// startPatience limits the start of an engine, which first reads its library
	// of half a gigabyte.
	startPatience = 5 * time.Minute
)

func TestMain(m *testing.M) {
	engine.Main()
	if dir := os.Getenv(orphanFolder); dir != "" {
		runParent(dir)
	}
	enginetest.Main(m)
}

// dial returns a client of clickhouse-go for an address.
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

// number runs a query that returns one number.
func number(t testing.TB, conn clickhouse.Conn, sql string) uint64 {
	t.Helper()
	var n uint64
	if err := conn.QueryRow(context.Background(), sql).Scan(&n); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return n
}

// eventually waits until holds returns true. The condition is for the failure's
// message.
func eventually(t testing.TB, condition string, holds func() bool) {
	t.Helper()
	deadline := time.After(patience)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("not true after %s: %s", patience, condition)
		}
	}
}

// answer is a response whose body was read.
type answer struct {
	status int
	header http.Header
	body   string
}

// call is one request as curl would send it. The parameter "database" comes from
// the path of the address.
type call struct {
	method string // default POST
	params url.Values
	header http.Header
	body   io.Reader
	login  *url.Userinfo // default: the address's
	path   string        // default /
}

func (c call) do(t testing.TB, address string) answer {
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

// send sends a request on a new connection: the engine may close an idle
// connection at the moment of its next use.
func send(t testing.TB, request *http.Request) *http.Response {
	t.Helper()
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	return response
}

// sql runs a statement and returns its result. It fails the test on an error.
func sql(t testing.TB, address, statement string) string {
	t.Helper()
	a := call{body: strings.NewReader(statement)}.do(t, address)
	if a.status != http.StatusOK {
		t.Fatalf("%s: status %d: %s", statement, a.status, a.body)
	}
	return strings.TrimSpace(a.body)
}

// rows returns n lines of a TabSeparated insert with one column.
func rows(n int) []byte {
	var b bytes.Buffer
	for i := range n {
		fmt.Fprintf(&b, "%d\n", i)
	}
	return b.Bytes()
}
