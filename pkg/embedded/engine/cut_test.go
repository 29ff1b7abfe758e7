package engine_test

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/ClickHouse/ch-go/compress"

	"github.com/logboom/logboom/pkg/embedded/engine/enginetest"
)

// token deduplicates the inserts of these tests. If a cut insert were committed
// by mistake, the complete one would be dropped as a repetition.
const token = "batch-1"

// cutTable creates the table and returns a function that builds an insert
// request with a body.
func cutTable(t *testing.T, address string, params url.Values) func(body io.Reader) *http.Request {
	t.Helper()
	sql(t, address, "CREATE TABLE t (a UInt64) ENGINE = MergeTree ORDER BY a SETTINGS non_replicated_deduplication_window = 100")
	all := url.Values{"query": {"INSERT INTO t FORMAT TSV"}, "insert_deduplication_token": {token}}
	for key, values := range params {
		all[key] = values
	}
	return func(body io.Reader) *http.Request { return call{params: all, body: body}.request(t, address) }
}

// sendRaw writes the request's head with the given framing headers and then the
// body. It closes its side of the connection and returns the status line of the
// response.
func sendRaw(t *testing.T, request *http.Request, framing string, body []byte) string {
	t.Helper()
	conn, err := net.Dial("tcp", request.URL.Host)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	writeRaw(t, conn, request, framing, body)
	if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	answer, err := io.ReadAll(conn)
	if err != nil {
		t.Fatal(err)
	}
	line, _, _ := strings.Cut(string(answer), "\r\n")
	return line
}

func writeRaw(t *testing.T, conn net.Conn, request *http.Request, framing string, body []byte) {
	t.Helper()
	user := request.URL.User
	password, _ := user.Password()
	request.SetBasicAuth(user.Username(), password)
	head := fmt.Sprintf("POST %s HTTP/1.1\r\nHost: x\r\nAuthorization: %s\r\n%s\r\n\r\n",
		request.URL.RequestURI(), request.Header.Get("Authorization"), framing)
	if _, err := conn.Write(append([]byte(head), body...)); err != nil {
		t.Fatal(err)
	}
}

// requireNothingStored checks that the cut insert stored neither rows nor its
// deduplication token: it sends the complete insert and expects all n rows.
func requireNothingStored(t *testing.T, address string, whole *http.Request, n int) {
	t.Helper()
	if got := sql(t, address, "SELECT count() FROM t"); got != "0" {
		t.Errorf("%s rows of a cut insert were committed", got)
	}
	send(t, whole).Body.Close()
	if got := sql(t, address, "SELECT count() FROM t"); got != fmt.Sprint(n) {
		t.Errorf("%s rows after the complete insert, want %d", got, n)
	}
}

func TestBodyCutAfter300Of1000RowsStoresNothing(t *testing.T) {
	t.Parallel()
	address := enginetest.URL(t)
	insert := cutTable(t, address, nil)
	whole := rows(1000)
	status := sendRaw(t, insert(nil), fmt.Sprintf("Content-Length: %d", len(whole)), rows(300))
	if !strings.Contains(status, " 500 ") {
		t.Errorf("status line %q, want 500", status)
	}
	requireNothingStored(t, address, insert(bytes.NewReader(whole)), 1000)
}

func TestBodyCutInsideChunkedEncodingStoresNothing(t *testing.T) {
	t.Parallel()
	chunk := func(b []byte) []byte { return fmt.Appendf(nil, "%x\r\n%s\r\n", len(b), b) }
	large := rows(400_000) // 2.7 MB: the engine reads the beginning before the connection is cut
	for name, c := range map[string]struct {
		body []byte
		n    int
	}{
		"between chunks":       {chunk(rows(300)), 1000},
		"inside a chunk":       {fmt.Appendf(nil, "%x\r\n%s", 5000, rows(300)), 1000},
		"inside a chunk size":  {append(chunk(rows(300)), "1"...), 1000},
		"large, between":       {append(chunk(large[:1<<20]), chunk(large[1<<20:2<<20])...), 400_000},
		"large, inside":        {append(chunk(large[:2<<20]), fmt.Appendf(nil, "%x\r\n%s", 5000, "1\n2\n")...), 400_000},
		"large, no last chunk": {chunk(large), 400_000},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			address := enginetest.URL(t)
			insert := cutTable(t, address, nil)
			if status := sendRaw(t, insert(nil), "Transfer-Encoding: chunked", c.body); !strings.Contains(status, " 500 ") {
				t.Errorf("status line %q, want 500", status)
			}
			requireNothingStored(t, address, insert(bytes.NewReader(rows(c.n))), c.n)
		})
	}
}

func TestCompressedBodyCutAnywhereStoresNothing(t *testing.T) {
	t.Parallel()
	packer := compress.NewWriter(compress.LevelZero, compress.LZ4)
	var packed []byte
	var edges []int
	for _, part := range [][]byte{rows(300), rows(700)} {
		if err := packer.Compress(part); err != nil {
			t.Fatal(err)
		}
		packed = append(packed, packer.Data...)
		edges = append(edges, len(packed))
	}
	for name, end := range map[string]int{
		"between frames":        edges[0],
		"after a frame's head":  edges[0] + 25,
		"inside a frame's head": edges[0] + 10,
		"inside a frame":        edges[0] + 200,
		"before the last byte":  edges[1] - 1,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			address := enginetest.URL(t)
			insert := cutTable(t, address, url.Values{"decompress": {"1"}})
			// The body is shorter than its declared length.
			status := sendRaw(t, insert(nil), fmt.Sprintf("Content-Length: %d", len(packed)), packed[:end])
			if !strings.Contains(status, " 500 ") {
				t.Errorf("status line %q, want 500", status)
			}
			if name != "between frames" { // the body has its declared length, but its last frame is cut
				status := sendRaw(t, insert(nil), fmt.Sprintf("Content-Length: %d", end), packed[:end])
				if !strings.Contains(status, " 500 ") {
					t.Errorf("status line %q for the shorter length, want 500", status)
				}
			}
			requireNothingStored(t, address, insert(bytes.NewReader(packed)), 1000)
		})
	}
}

func TestInsertOfAKilledClientStoresNothing(t *testing.T) {
	t.Parallel()
	address := enginetest.URL(t)
	insert := cutTable(t, address, nil)
	request, large := insert(nil), rows(400_000)
	conn, err := net.Dial("tcp", request.URL.Host) // from here on, the server waits 5 s for the head
	if err != nil {
		t.Fatal(err)
	}
	writeRaw(t, conn, request, fmt.Sprintf("Content-Length: %d", len(large)), large[:2<<20])
	running := "SELECT count() FROM system.processes WHERE query LIKE 'INSERT INTO t %' AND current_database = currentDatabase()"
	eventually(t, "the insert runs", func() bool { return sql(t, address, running) == "1" })
	if err := conn.(*net.TCPConn).SetLinger(0); err != nil { // Close sends a reset, as if the client were killed
		t.Fatal(err)
	}
	conn.Close()
	eventually(t, "the insert has ended", func() bool { return sql(t, address, running) == "0" })
	requireNothingStored(t, address, insert(bytes.NewReader(large)), 400_000)
}
