package e2e

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
)

func TestLogComesBackAsItWasSent(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *system) {
		at := time.Now().UTC().Truncate(time.Microsecond)
		s.send(t, "logs", `{"data":"payment \"7\" failed","application":"billing","severity":"Warning","host":"web-1","source":"stdout",
			"metadata":{"user":{"id":42},"ok":true},"trace":"abc","timestamp":"`+at.Format(time.RFC3339Nano)+`"}`, 1)
		got := s.until(t, "logs", url.Values{}, func(p page) bool { return len(p.Logs) == 1 }).Logs[0]
		want := log{
			ID: got.ID, Timestamp: got.Timestamp, Application: "billing", Severity: "Warning", SeverityNumber: 13, Data: `payment "7" failed`,
			Metadata: map[string]string{"user.id": "42", "ok": "true", "trace": "abc"}, Host: "web-1", Source: "stdout",
		}
		if fmt.Sprint(got) != fmt.Sprint(want) || got.ID == "" || !got.Timestamp.Equal(at) {
			t.Errorf("got %+v, want %+v at %s", got, want, at)
		}
		for query, hits := range map[string]int{"PAYMENT": 1, "refund": 0, `"\"7\" f"`: 1, "' OR 1=1": 0, "%": 0} {
			if p := s.page(t, "logs", url.Values{"q": {query}}); len(p.Logs) != hits {
				t.Errorf("q=%s finds %d logs, not %d", query, len(p.Logs), hits)
			}
		}
	})
}

func TestEventComesBackAsItWasSent(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *system) {
		s.send(t, "events", `{"channel":"deploys","title":"v42 is live","description":"all regions","icon":"🚀","notify":true,"tags":{"commit":"abc"}}
{"channel":"deploys","event":"v43 is live"}`, 2)
		got := s.until(t, "events", url.Values{}, func(p page) bool { return len(p.Events) == 2 }).Events
		slices.SortFunc(got, func(a, b event) int { return strings.Compare(a.Title, b.Title) })
		first := event{ID: got[0].ID, Timestamp: got[0].Timestamp, Channel: "deploys", Title: "v42 is live", Description: "all regions", Icon: "🚀", Notify: true, Tags: map[string]string{"commit": "abc"}}
		if fmt.Sprint(got[0]) != fmt.Sprint(first) {
			t.Errorf("got %+v, want %+v", got[0], first)
		}
		if got[1].Title != "v43 is live" || got[1].Notify || len(got[1].Tags) != 0 {
			t.Errorf("got %+v", got[1])
		}
	})
}

// Every line of the corpus, sent in every form over many connections, is read back
// unchanged and as often as it was sent.
func TestCorpusComesBackByteForByte(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *system) {
		lines := corpus(t)
		want := map[string]int{}
		var bodies []body
		for application, its := range lines {
			for _, line := range its {
				want[application+"\x00"+line]++
			}
			bodies = append(bodies, cut(t, application, its)...)
		}
		unknown := s.sendAll(t, bodies)
		open := map[string]int{} // how many of each line may be missing
		for _, b := range unknown {
			for _, line := range b.lines {
				open[b.application+"\x00"+line]++
			}
		}
		var got []log
		var missing, extra []string
		eventually(t, "every line is stored", func() bool {
			got = s.all(t, "logs", url.Values{}).Logs
			missing, extra = differing(want, open, got)
			t.Logf("%d lines are missing, %d are there too often: %.200q", len(missing), len(extra), slices.Concat(missing, extra)[:min(len(missing)+len(extra), 5)])
			return len(missing) == 0
		})
		if len(extra) > 0 {
			t.Error("lines came back too often")
		}
		ids := map[string]bool{}
		for _, l := range got {
			ids[l.ID] = true
		}
		if len(ids) != len(got) {
			t.Errorf("%d logs with %d ids came back", len(got), len(ids))
		}
		t.Logf("%d logs in %d bodies were read back; the outcome of %d bodies was unknown", len(got), len(bodies), len(unknown))
	})
}

// differing returns the lines that were read back less often, and more often, than
// they were sent. open is how many of each line may be missing.
func differing(want, open map[string]int, got []log) (missing, extra []string) {
	left := maps.Clone(want)
	for _, l := range got {
		left[l.Application+"\x00"+l.Data]--
	}
	for line, n := range left {
		switch {
		case n > open[line]:
			missing = append(missing, line)
		case n < 0:
			extra = append(extra, line)
		}
	}
	return missing, extra
}

// body is the body of one request.
type body struct {
	content     []byte
	encoding    string
	application string
	lines       []string
}

// cut divides lines into bodies: single logs, arrays and newline-delimited bodies,
// plain and compressed.
func cut(t *testing.T, application string, lines []string) []body {
	t.Helper()
	var bodies []body
	sizes := []int{1, 1, 1, 100, 1, 250, 7}
	for i := 0; len(lines) > 0; i++ {
		n := min(sizes[i%len(sizes)], len(lines))
		content := form(t, application, lines[:n], i%2 == 0)
		encoding := []string{"", "gzip", "zstd"}[i%3]
		bodies = append(bodies, body{compress(t, encoding, content), encoding, application, lines[:n]})
		lines = lines[n:]
	}
	return bodies
}

func form(t testing.TB, application string, lines []string, array bool) []byte {
	t.Helper()
	var entries [][]byte
	for _, line := range lines {
		entry, err := json.Marshal(map[string]string{"data": line, "application": application})
		if err != nil {
			t.Fatal(err)
		}
		entries = append(entries, entry)
	}
	if array {
		return slices.Concat([]byte("["), bytes.Join(entries, []byte(",\n")), []byte("]"))
	}
	return bytes.Join(entries, []byte("\n"))
}

func compress(t testing.TB, encoding string, content []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	switch encoding {
	case "gzip":
		w := gzip.NewWriter(&out)
		if _, err := w.Write(content); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	case "zstd":
		w, err := zstd.NewWriter(nil)
		if err != nil {
			t.Fatal(err)
		}
		return w.EncodeAll(content, nil)
	default:
		return content
	}
	return out.Bytes()
}

// sendAll posts the bodies over 16 connections without a key, so that ingest may
// group them. Each body must be accepted whole. It returns the bodies whose outcome
// is unknown because the queue did not answer in time.
func (s *system) sendAll(t *testing.T, bodies []body) (unknown []body) {
	t.Helper()
	work := make(chan body) // unbuffered: each body goes directly to a sender
	var mu sync.Mutex
	var senders sync.WaitGroup
	for range 16 {
		senders.Go(func() {
			for b := range work {
				a, err := s.sendBody(b)
				if err == nil && bytes.Contains(a.body, []byte("did not confirm")) {
					mu.Lock()
					unknown = append(unknown, b)
					mu.Unlock()
					continue
				}
				if err != nil || a.status != http.StatusAccepted || !bytes.HasPrefix(a.body, fmt.Appendf(nil, `{"accepted":%d,"rejected":[]}`, len(b.lines))) {
					t.Errorf("%d records: %v, answer %d: %.300s", len(b.lines), err, a.status, a.body)
				}
			}
		})
	}
	for _, b := range bodies {
		work <- b
	}
	close(work)
	senders.Wait()
	if len(unknown) > len(bodies)/2 {
		t.Errorf("of %d bodies the queue did not say whether it took %d", len(bodies), len(unknown))
	}
	return unknown
}

// sendBody posts a body, and posts it again if nothing of it was accepted.
func (s *system) sendBody(b body) (a answer, err error) {
	header := bearer(s.token)
	header["Content-Encoding"] = b.encoding
	for deadline := time.Now().Add(readableWithin); time.Now().Before(deadline); <-time.After(100 * time.Millisecond) {
		a, err = try(http.MethodPost, s.ingest+"/v1/logs/"+s.project, header, b.content)
		if a.status != http.StatusServiceUnavailable || bytes.Contains(a.body, []byte("did not confirm")) {
			break
		}
	}
	return a, err
}

// All processes are killed at once while logs are sent. Each accepted log is stored
// once afterwards.
func TestKillLosesNothingAccepted(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *system) {
		const rounds = 3
		sent := 0
		for round := range rounds {
			for i := range 50 {
				s.send(t, "logs", fmt.Sprintf(`{"data":"line %d of round %d"}`, i, round), 1)
				sent++
			}
			s.restart(t)
		}
		var got []log
		eventually(t, fmt.Sprintf("%d logs are stored", sent), func() bool {
			got = s.all(t, "logs", url.Values{}).Logs
			return len(got) >= sent
		})
		lines := map[string]int{}
		for _, l := range got {
			lines[l.Data]++
		}
		if len(got) != sent || len(lines) != sent {
			t.Errorf("%d logs, %d different, came back of %d", len(got), len(lines), sent)
		}
	})
}

// A process stops in named steps and flushes its last batch, so that logs accepted
// just before the stop are stored.
func TestStopFlushesAndNamesItsSteps(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *system) {
		s.send(t, "logs", `{"data":"the last words"}`, 1)
		for _, p := range s.processes {
			p.stop()
			p.secretFree(s.token, s.apiKey, "correct horse battery")
		}
		output := ""
		for _, p := range s.processes {
			output += p.output()
		}
		last := -1
		for _, step := range []string{"ingest port", "publisher", "writer"} {
			at := strings.Index(output, `"msg":"stopped","service":"`+serviceOf(s, step)+`","step":"`+step+`"`)
			if at <= last {
				t.Errorf("the step %q is missing or out of order", step)
			}
			last = at
		}
		s.restart(t)
		p := s.until(t, "logs", url.Values{}, func(p page) bool { return len(p.Logs) > 0 })
		if len(p.Logs) != 1 || p.Logs[0].Data != "the last words" {
			t.Errorf("after the restart: %+v", p.Logs)
		}
	})
}

func serviceOf(s *system, step string) string {
	if len(s.processes) == 1 {
		return "standalone"
	}
	return map[string]string{"ingest port": "ingest", "publisher": "ingest", "writer": "writer"}[step]
}

func TestMetricsAndHealthAreThere(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *system) {
		tries := s.send(t, "logs", `[{"data":"a"},{"data":"b"}]`, 2)
		s.until(t, "logs", url.Values{}, func(p page) bool { return len(p.Logs) == 2 })
		for _, address := range append(slices.Collect(maps.Values(s.ops)), s.ingest, s.admin) {
			for _, path := range []string{"/livez", "/readyz"} {
				if a, _ := insist(t, http.MethodGet, address+path, nil, nil); a.status != http.StatusOK {
					t.Errorf("%s%s answers %d: %s", address, path, a.status, a.body)
				}
			}
		}
		for _, metric := range []string{
			fmt.Sprintf("logboom_ingest_requests_total{route=%q} %d", "/v1/logs/:project", tries), `logboom_ingest_records_total{kind="logs"} 2`,
			"logboom_writer_batches_total{", "logboom_writer_rows_total{", "logboom_admin_requests_total{", "logboom_writer_lag_seconds{",
		} {
			eventually(t, "there is the metric "+metric, func() bool { // some are counted after the answer
				all := ""
				for _, address := range s.ops {
					all += string(do(t, http.MethodGet, address+"/metrics", nil, nil).body)
				}
				return strings.Contains(all, metric)
			})
		}
	})
}
