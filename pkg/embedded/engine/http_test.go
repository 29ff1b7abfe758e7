package engine_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/logboom/logboom/pkg/embedded/engine/enginetest"
)

func TestPingNeedsNoPassword(t *testing.T) {
	t.Parallel()
	address := enginetest.Engine(t).URL()
	for _, path := range []string{"/ping", "/replicas_status"} {
		a := call{method: http.MethodGet, path: path, login: url.User("")}.do(t, address)
		if a.status != http.StatusOK || a.body != "Ok.\n" {
			t.Errorf("%s: status %d: %q", path, a.status, a.body)
		}
	}
}

func TestUnknownPathIsNotFound(t *testing.T) {
	t.Parallel()
	if a := (call{path: "/elsewhere", body: strings.NewReader("SELECT 1")}).do(t, enginetest.Engine(t).URL()); a.status != http.StatusNotFound {
		t.Errorf("status %d: %s", a.status, a.body)
	}
}

func TestPasswordIsReadFromEveryPlaceThatClickHouseSupports(t *testing.T) {
	t.Parallel()
	address := enginetest.Engine(t).URL()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	password, _ := u.User.Password()
	nobody := url.User("")
	for name, c := range map[string]call{
		"basic":       {login: url.UserPassword("default", password)},
		"headers":     {login: nobody, header: http.Header{"X-Clickhouse-User": {"default"}, "X-Clickhouse-Key": {password}}},
		"url":         {login: nobody, params: url.Values{"user": {"default"}, "password": {password}}},
		"no user":     {login: nobody, header: http.Header{"X-Clickhouse-Key": {password}}},
		"basic alone": {login: url.UserPassword("", password)},
	} {
		u.User = nil
		if name != "basic" && name != "basic alone" {
			c.login = nil
		}
		c.body = strings.NewReader("SELECT 1")
		target := *u
		if c.login != nil {
			target.User = c.login
		}
		if a := c.do(t, target.String()); a.status != http.StatusOK {
			t.Errorf("%s: status %d: %s", name, a.status, a.body)
		}
	}
}

func TestWrongPasswordIsRefusedAndNotEchoed(t *testing.T) {
	t.Parallel()
	address := enginetest.Engine(t).URL()
	for name, c := range map[string]struct {
		login  *url.Userinfo
		status int
		code   string
	}{
		"wrong":        {url.UserPassword("default", "guess"), http.StatusForbidden, "516"},
		"empty":        {url.UserPassword("default", ""), http.StatusForbidden, "516"},
		"unknown user": {url.UserPassword("root", "guess"), http.StatusForbidden, "516"},
	} {
		a := call{login: c.login, body: strings.NewReader("SELECT 1")}.do(t, address)
		if a.status != c.status || a.header.Get("X-ClickHouse-Exception-Code") != c.code || strings.Contains(a.body, "guess") {
			t.Errorf("%s: status %d, code %s: %s", name, a.status, a.header.Get("X-ClickHouse-Exception-Code"), a.body)
		}
	}
	bare, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	bare.User = nil
	a := call{body: strings.NewReader("SELECT 1")}.do(t, bare.String())
	if a.status != http.StatusUnauthorized || a.header.Get("WWW-Authenticate") == "" {
		t.Errorf("without a password: status %d: %s", a.status, a.body)
	}
}

func TestQueryMayBeInTheURLTheBodyOrBoth(t *testing.T) {
	t.Parallel()
	address := enginetest.URL(t)
	for name, c := range map[string]call{
		"body":      {body: strings.NewReader("SELECT 1 + 1")},
		"url":       {params: url.Values{"query": {"SELECT 1 + 1"}}},
		"both":      {params: url.Values{"query": {"SELECT 1 +"}}, body: strings.NewReader("1")},
		"get":       {method: http.MethodGet, params: url.Values{"query": {"SELECT 1 + 1"}}},
		"semicolon": {body: strings.NewReader("SELECT 1 + 1;\n")},
		"parameter": {params: url.Values{"param_a": {"1"}}, body: strings.NewReader("SELECT {a:UInt8} + 1")},
	} {
		if a := c.do(t, address); a.body != "2\n" {
			t.Errorf("%s: status %d: %q", name, a.status, a.body)
		}
	}
}

func TestGetRequestsAreReadOnly(t *testing.T) {
	t.Parallel()
	address := enginetest.URL(t)
	a := call{method: http.MethodGet, params: url.Values{"query": {"CREATE TABLE t (a UInt8) ENGINE = Memory"}}}.do(t, address)
	if a.header.Get("X-ClickHouse-Exception-Code") != "164" {
		t.Errorf("status %d: %s", a.status, a.body)
	}
}

func TestResultHasTheRequestedFormat(t *testing.T) {
	t.Parallel()
	address := enginetest.URL(t)
	for format, want := range map[string]string{
		"TSV":          "0\n1\n",
		"CSVWithNames": "\"number\"\n0\n1\n",
		"JSONEachRow":  "{\"number\":0}\n{\"number\":1}\n",
		"JSONCompact":  `"data":`,
		"Null":         "",
	} {
		bySettings := call{params: url.Values{"default_format": {format}}, body: strings.NewReader("SELECT number FROM numbers(2)")}.do(t, address)
		byClause := call{params: url.Values{"default_format": {"Native"}, "client_protocol_version": {"54460"}}, body: strings.NewReader("SELECT number FROM numbers(2) FORMAT " + format)}.do(t, address)
		for _, a := range []answer{bySettings, byClause} {
			if a.status != http.StatusOK || !strings.Contains(a.body, want) || a.header.Get("X-ClickHouse-Format") != format {
				t.Errorf("%s: status %d, body %q, header %v", format, a.status, a.body, a.header)
			}
		}
	}
}

func TestLargeResultInAFormatWithAHeadIsComplete(t *testing.T) {
	t.Parallel()
	a := call{body: strings.NewReader("SELECT number FROM numbers(200000) FORMAT JSON")}.do(t, enginetest.URL(t))
	var result struct {
		Rows int               `json:"rows"`
		Data []json.RawMessage `json:"data"`
	}
	if err := json.Unmarshal([]byte(a.body), &result); err != nil || result.Rows != 200_000 || len(result.Data) != 200_000 {
		t.Errorf("rows is %d and data has %d rows, error %v", result.Rows, len(result.Data), err)
	}
}

func TestErrorSetsTheStatusIfTheClientWaitsForTheEnd(t *testing.T) {
	t.Parallel()
	address := enginetest.URL(t)
	for wait, status := range map[string]int{"0": http.StatusOK, "1": http.StatusInternalServerError} {
		a := call{
			params: url.Values{"wait_end_of_query": {wait}, "max_block_size": {"65536"}},
			body:   strings.NewReader("SELECT throwIf(number = 3900000) FROM numbers(4000000)"), // long after the first block is sent
		}.do(t, address)
		if a.status != status || !strings.Contains(a.body, "Code: 395.") {
			t.Errorf("wait_end_of_query=%s: status %d, body of %d bytes", wait, a.status, len(a.body))
		}
		if framed := strings.Contains(a.body, "\r\n__exception__\r\n"+a.header.Get("X-ClickHouse-Exception-Tag")+"\r\n"); framed != (wait == "0") {
			t.Errorf("wait_end_of_query=%s: the error is in an exception frame: %v", wait, framed)
		}
	}
}

func TestSummaryCountsWrittenRows(t *testing.T) {
	t.Parallel()
	address := enginetest.URL(t)
	sql(t, address, "CREATE TABLE t (a UInt64) ENGINE = MergeTree ORDER BY a")
	a := call{params: url.Values{"query": {"INSERT INTO t FORMAT TSV"}, "query_id": {"mine"}}, body: bytes.NewReader(rows(1000))}.do(t, address)
	var summary map[string]string
	if err := json.Unmarshal([]byte(a.header.Get("X-ClickHouse-Summary")), &summary); err != nil {
		t.Fatalf("decode the summary of %v: %v", a, err)
	}
	if summary["written_rows"] != "1000" || a.header.Get("X-ClickHouse-Query-Id") != "mine" {
		t.Errorf("summary %v, header %v", summary, a.header)
	}
}

func TestErrorsOfTheHTTPInterfaceExplainTheCause(t *testing.T) {
	t.Parallel()
	address := enginetest.URL(t)
	for name, c := range map[string]struct {
		call   call
		status int
		text   string
	}{
		"session":       {call{params: url.Values{"session_id": {"x"}}, body: strings.NewReader("SELECT 1")}, http.StatusNotImplemented, "send settings with each statement"},
		"external":      {call{header: http.Header{"Content-Type": {"multipart/form-data; boundary=x"}}, body: strings.NewReader("--x--")}, http.StatusNotImplemented, "external tables"},
		"encoding":      {call{header: http.Header{"Content-Encoding": {"gzip"}}, body: strings.NewReader("SELECT 1")}, http.StatusInternalServerError, "send the body as it is"},
		"revision":      {call{params: url.Values{"client_protocol_version": {"new"}}, body: strings.NewReader("SELECT 1")}, http.StatusBadRequest, "client_protocol_version"},
		"setting":       {call{params: url.Values{"a = 1, b": {"2"}}, body: strings.NewReader("SELECT 1")}, http.StatusNotFound, "unknown setting"},
		"database":      {call{params: url.Values{"database": {"no`where"}}, body: strings.NewReader("SELECT 1")}, http.StatusNotFound, "does not exist"},
		"long query":    {call{body: strings.NewReader("SELECT 1 -- " + strings.Repeat("x", 2<<20))}, http.StatusRequestEntityTooLarge, "larger than"},
		"empty":         {call{body: strings.NewReader(" ")}, http.StatusBadRequest, "empty"},
		"no frames":     {call{params: url.Values{"decompress": {"1"}}, body: strings.NewReader("SELECT 1, and this is no frame")}, http.StatusInternalServerError, "damaged"},
		"unknown table": {call{body: strings.NewReader("INSERT INTO nowhere FORMAT TSV\n1\n")}, http.StatusNotFound, "nowhere"},
	} {
		a := c.call.do(t, address)
		if a.status != c.status || !strings.Contains(a.body, c.text) || a.header.Get("X-ClickHouse-Exception-Code") == "" {
			t.Errorf("%s: status %d: %s", name, a.status, a.body)
		}
	}
}

func TestInsertWithAnInvalidRowStoresNothing(t *testing.T) {
	t.Parallel()
	address := enginetest.URL(t)
	sql(t, address, "CREATE TABLE t (a UInt64) ENGINE = MergeTree ORDER BY a")
	for _, n := range []int{10, 300_000} { // the invalid row is in the first read of the body, and far after it
		body := append(rows(n), "not a number\n"...)
		body = append(body, rows(n)...)
		a := call{params: url.Values{"query": {"INSERT INTO t FORMAT TSV"}}, body: bytes.NewReader(body)}.do(t, address)
		if a.header.Get("X-ClickHouse-Exception-Code") != "27" {
			t.Errorf("invalid row after %d rows: status %d: %s", n, a.status, a.body)
		}
	}
	if n := sql(t, address, "SELECT count() FROM t"); n != "0" {
		t.Errorf("the table has %s rows", n)
	}
}

func TestInsertAcceptsManyValues(t *testing.T) {
	t.Parallel()
	address := enginetest.URL(t)
	sql(t, address, "CREATE TABLE t (a UInt64, b String) ENGINE = MergeTree ORDER BY a")
	for i, n := range []int{3, 20_000, 100_000} { // a short text, one that a single read holds, one that needs several reads
		var b strings.Builder
		b.WriteString("INSERT INTO t VALUES ")
		for k := range n {
			fmt.Fprintf(&b, "(%d, 'FORMAT ; %d'),", k, i)
		}
		sql(t, address, strings.TrimSuffix(b.String(), ","))
	}
	if n := sql(t, address, "SELECT count() FROM t"); n != "120003" {
		t.Errorf("the table has %s rows", n)
	}
}
