package e2e

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"
)

// problem is the body of an error.
type problem struct {
	Type, Title, Code, Detail string
	Status                    int
	Index                     *int
	Offset                    *int64
	RequestID                 string `json:"request_id"`
}

func bomb(t *testing.T) []byte {
	t.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	chunk := bytes.Repeat([]byte(" "), 1<<20)
	for range 100 {
		if _, err := w.Write(chunk); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// flip returns the token with another last character, so that its checksum is
// wrong. other is a valid token that does not exist.
func flip(token string) string {
	last := byte('a')
	if token[len(token)-1] == 'a' {
		last = 'b'
	}
	return token[:len(token)-1] + string(last)
}

func TestErrorsAreAnsweredByTheTable(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *system) {
		logs, events := "/v1/logs/"+s.project, "/v1/events/"+s.project
		good := bearer(s.token)
		gzipped := map[string]string{"Authorization": "Bearer " + s.token, "Content-Encoding": "gzip"}
		for _, tc := range []struct {
			name, path string
			header     map[string]string
			body       string
			status     int
			code       string
			at         []int64 // index and offset of the faulty entry
		}{
			{"not JSON", logs, good, `hello`, 400, "invalid_json", nil},
			{"half an object", logs, good, `{"data":"a"`, 400, "invalid_json", nil},
			{"an array with a syntax error", logs, good, `[{"data":"a"},{"data":"b",}]`, 400, "invalid_json", []int64{1, 26}},
			{"no data", logs, good, `{"message":"a"}`, 400, "missing_field", []int64{0, 0}},
			{"no title", events, good, `{"channel":"a"}`, 400, "missing_field", []int64{0, 0}},
			{"no channel", events, good, ` {"title":"a"}`, 400, "missing_field", []int64{0, 1}},
			{"metadata is a number", logs, good, `{"data":"a","metadata":7}`, 400, "invalid_field", []int64{0, -1}},
			{"empty body", logs, good, ``, 400, "empty_body", nil},
			{"blank body", logs, good, " \n\t ", 400, "empty_body", nil},
			{"empty array", logs, good, `[]`, 400, "empty_body", nil},
			{"long idempotency key", logs, map[string]string{"Authorization": "Bearer " + s.token, "Idempotency-Key": strings.Repeat("k", 129)}, `{"data":"a"}`, 400, "invalid_field", nil},
			{"no token", logs, nil, `{"data":"a"}`, 401, "missing_token", nil},
			{"empty token", logs, map[string]string{"Authorization": "Bearer "}, `{"data":"a"}`, 401, "missing_token", nil},
			{"another scheme", logs, map[string]string{"Authorization": "Digest x"}, `{"data":"a"}`, 401, "missing_token", nil},
			{"unknown token", logs, bearer(newToken(t)), `{"data":"a"}`, 401, "invalid_token", nil},
			{"mistyped token", logs, bearer(flip(s.token)), `{"data":"a"}`, 401, "invalid_token", nil},
			{"long token", logs, bearer(strings.Repeat("x", 4000)), `{"data":"a"}`, 401, "invalid_token", nil},
			{"a bad token costs no decompression", logs, map[string]string{"Authorization": "Bearer lgb_x", "Content-Encoding": "gzip"}, `no gzip`, 401, "invalid_token", nil},
			{"another project", "/v1/logs/nobody", good, `{"data":"a"}`, 403, "wrong_project", nil},
			{"an odd project", "/v1/logs/%00%2e%2e", good, `{"data":"a"}`, 403, "wrong_project", nil},
			{"no such route", "/v2/logs", good, `{"data":"a"}`, 404, "not_found", nil},
			{"no project", "/v1/events/", good, `{"data":"a"}`, 404, "not_found", nil},
			{"large body", logs, good, `{"data":"` + strings.Repeat("x", 11<<20) + `"}`, 413, "body_too_large", nil},
			{"large record", logs, good, `{"data":"` + strings.Repeat("x", 1<<20+1) + `"}`, 413, "body_too_large", nil},
			{"gzip bomb", logs, gzipped, string(bomb(t)), 413, "body_too_large", nil},
			{"cut gzip", logs, gzipped, string(bomb(t)[:2000]), 400, "invalid_json", nil},
			{"unknown encoding", logs, map[string]string{"Authorization": "Bearer " + s.token, "Content-Encoding": "br"}, `x`, 415, "unsupported_encoding", nil},
			{"deep nesting", logs, good, `{"data":"a","metadata":` + strings.Repeat(`{"a":`, 70) + `1` + strings.Repeat("}", 71), 400, "invalid_json", nil},
		} {
			t.Run(tc.name, func(t *testing.T) {
				a := answered(t, s.ingest+tc.path, tc.header, []byte(tc.body))
				var p problem
				a.decode(t, &p)
				if a.status != tc.status || p.Status != tc.status || p.Code != tc.code {
					t.Fatalf("answer %d: %s", a.status, a.body)
				}
				if a.header.Get("Content-Type") != "application/problem+json" || a.header.Get("X-Request-Id") == "" || p.RequestID != a.header.Get("X-Request-Id") || p.Detail == "" || p.Type == "" || p.Title == "" {
					t.Errorf("header %v, problem %s", a.header, a.body)
				}
				if tc.at != nil && (p.Index == nil || p.Offset == nil || int64(*p.Index) != tc.at[0] || tc.at[1] >= 0 && *p.Offset != tc.at[1]) {
					t.Errorf("index and offset are not %v: %s", tc.at, a.body)
				}
				if bytes.Contains(a.body, []byte(s.token)) || bytes.Contains(a.body, []byte("xxxx")) {
					t.Errorf("the answer repeats what was sent: %s", a.body)
				}
			})
		}
	})
}

// answered sends a body that may be refused before all of it was read. The server
// then closes the connection, and the client may see only that.
func answered(t *testing.T, address string, header map[string]string, body []byte) (a answer) {
	t.Helper()
	eventually(t, "a refused body is answered", func() bool {
		var err error
		if a, err = try(http.MethodPost, address, header, body); err != nil {
			t.Logf("sent again: %v", err)
		}
		return err == nil && a.status != http.StatusServiceUnavailable
	})
	return a
}

func TestOptionsIsAnsweredToAnybody(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *system) {
		for _, path := range []string{"/v1/logs/" + s.project, "/v1/events/" + s.project} {
			a := do(t, http.MethodOptions, s.ingest+path, nil, nil)
			if a.status != http.StatusOK || len(a.body) != 0 || a.header.Get("X-Request-Id") == "" {
				t.Errorf("OPTIONS %s: %d %v %s", path, a.status, a.header, a.body)
			}
		}
	})
}

// Valid entries are accepted, and the answer names each invalid one.
func TestOddEntriesCostNobodyElse(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *system) {
		body := strings.Join([]string{
			`{"data":1e400}`,
			`{"data":"first","data":"last wins"}`,
			"{\"data\":\"bad \xff\xfe utf8\"}",
			`{"data":"nul \u0000 kept"}`,
			`{"data":{"nested":[1,2,{"a":null}]}}`,
			`{"data":}`,
			`{"title":"no data"}`,
			`{"data":12345678901234567890123456789}`,
			`["not an object"]`,
			`{"data":"lone \ud800 surrogate"}`,
			`{"data":"cut`,
		}, "\n")
		a, _ := s.post(t, "logs", body)
		var got struct {
			Accepted int
			Rejected []struct {
				Index  int
				Code   string
				Detail string
			}
		}
		a.decode(t, &got)
		rejected := map[int]string{}
		for _, r := range got.Rejected {
			rejected[r.Index] = r.Code
		}
		if a.status != http.StatusAccepted || got.Accepted != 7 || fmt.Sprint(rejected) != "map[5:invalid_json 6:missing_field 8:invalid_json 10:invalid_json]" {
			t.Fatalf("answer %d: %s", a.status, a.body)
		}
		p := s.until(t, "logs", url.Values{}, func(p page) bool { return len(p.Logs) == 7 })
		data := map[string]bool{}
		for _, l := range p.Logs {
			data[l.Data] = true
		}
		for _, want := range []string{
			"1e400", "last wins", "bad \ufffd\ufffd utf8", "nul \x00 kept", `{"nested":[1,2,{"a":null}]}`, "12345678901234567890123456789", "lone \ufffd surrogate",
		} {
			if !data[want] {
				t.Errorf("%q is not among %v", want, data)
			}
		}
	})
}

// A body whose client disconnects in the middle is not stored, and the server
// goes on.
func TestBodyCutInTheMiddleIsNotStored(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *system) {
		for _, framing := range []string{"Content-Length: 1000\r\n\r\n", "Transfer-Encoding: chunked\r\n\r\n100\r\n"} {
			conn, err := net.DialTimeout("tcp", strings.TrimPrefix(s.ingest, "http://"), time.Minute)
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(conn, "POST /v1/logs/%s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n%s", s.project, s.token, framing)
			fmt.Fprint(conn, `{"data":"whole"}`+"\n"+`{"data":"cut in th`)
			if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
				t.Fatal(err)
			}
			if _, err := conn.Read(make([]byte, 1)); err != nil {
				t.Logf("the server hung up without an answer: %v", err)
			}
			conn.Close()
		}
		s.send(t, "logs", `{"data":"after it"}`, 1)
		p := s.until(t, "logs", url.Values{}, func(p page) bool { return len(p.Logs) > 0 })
		if len(p.Logs) != 1 || p.Logs[0].Data != "after it" {
			t.Errorf("stored: %+v", p.Logs)
		}
	})
}

func TestRepeatedIdempotencyKeyIsStoredOnce(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *system) {
		header := bearer(s.token)
		header["Idempotency-Key"] = "order-7"
		for i := range 3 {
			a, tries := insist(t, http.MethodPost, s.ingest+"/v1/logs/"+s.project, header, []byte(`[{"data":"a"},{"data":"b"}]`))
			if replayed := a.header.Get("Idempotency-Replayed"); a.status != http.StatusAccepted || tries == 1 && (replayed == "true") != (i > 0) {
				t.Fatalf("time %d: answer %d, replayed %q: %s", i+1, a.status, replayed, a.body)
			}
		}
		s.send(t, "logs", `{"data":"c"}`, 1)
		p := s.until(t, "logs", url.Values{}, func(p page) bool {
			return len(p.Logs) > 2
		})
		if len(p.Logs) != 3 {
			t.Errorf("%d logs are stored", len(p.Logs))
		}
	})
}

// Admin refuses requests without rights and malformed requests.
func TestReadingIsGuarded(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *system) {
		logs := "/api/v1/projects/" + s.project + "/logs"
		for _, tc := range []struct {
			path   string
			key    string
			status int
			code   string
		}{
			{logs, "", 401, "missing_token"},
			{logs, "wrong-key-of-32-characters-or-more", 401, "invalid_token"},
			{logs, s.token, 401, "invalid_token"},
			{"/api/v1/projects/nobody/logs", s.apiKey, 404, "not_found"},
			{"/api/v1/projects/" + url.PathEscape("x' OR '1'='1") + "/logs", s.apiKey, 404, "not_found"},
			{"/api/v1/nothing", s.apiKey, 404, "not_found"},
			{logs + "?limit=0", s.apiKey, 400, "invalid_field"},
			{logs + "?limit=1001", s.apiKey, 400, "invalid_field"},
			{logs + "?from=yesterday", s.apiKey, 400, "invalid_field"},
			{logs + "?from=2026-01-02T00:00:00Z&to=2026-01-01T00:00:00Z", s.apiKey, 400, "invalid_field"},
			{logs + "?cursor=bm90IG9uZQ", s.apiKey, 400, "invalid_field"},
			{logs + "?q=" + strings.Repeat("x", 2000), s.apiKey, 400, "invalid_field"},
		} {
			var header map[string]string
			if tc.key != "" {
				header = bearer(tc.key)
			}
			a, _ := insist(t, http.MethodGet, s.admin+tc.path, header, nil)
			var p problem
			if err := json.Unmarshal(a.body, &p); err != nil || a.status != tc.status || p.Code != tc.code {
				t.Errorf("GET %s: answer %d, not %d %s: %s", tc.path, a.status, tc.status, tc.code, a.body)
			}
		}
	})
}
