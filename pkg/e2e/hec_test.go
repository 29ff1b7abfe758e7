package e2e

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

const (
	hecEvents = "/services/collector/event/1.0"
	hecRaw    = "/services/collector/raw"
	hecOK     = `{"text":"Success","code":0}`
)

func splunk(token string) map[string]string {
	return map[string]string{"Authorization": "Splunk " + token}
}

// sendHEC posts container logs and fails the test unless they are accepted.
func (s *system) sendHEC(t *testing.T, path string, header map[string]string, body []byte) (tries int) {
	t.Helper()
	a, tries := insist(t, http.MethodPost, s.ingest+path, header, body)
	if a.status != http.StatusOK || string(a.body) != hecOK {
		t.Fatalf("answer %d: %s", a.status, a.body)
	}
	return tries
}

// hecSample is a recorded request of Docker and the lines that its container
// printed. Bytes that are not valid UTF-8 are replaced.
func hecSample(t *testing.T, name string) (body []byte, encoding string, lines []string) {
	t.Helper()
	read := func(file string) []byte {
		content, err := os.ReadFile(filepath.Join("..", "decode", "testdata", "hec", name, file))
		if err != nil {
			t.Fatal(err)
		}
		return content
	}
	if strings.Contains(string(read("002-POST.head")), "Content-Encoding: gzip") {
		encoding = "gzip"
	}
	for line := range strings.Lines(string(read("container.stdout")) + "\n" + string(read("container.stderr"))) {
		lines = append(lines, string([]rune(strings.TrimSuffix(line, "\n"))))
	}
	return read("002-POST.body"), encoding, lines
}

// recent returns a sample's body with each time moved to now, because times older
// than the project's retention are changed. All times of a sample are within one
// hundred seconds.
func recent(t *testing.T, body []byte, encoding string) []byte {
	t.Helper()
	if encoding == "gzip" {
		r, err := gzip.NewReader(bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		if body, err = io.ReadAll(r); err != nil {
			t.Fatal(err)
		}
	}
	now := fmt.Sprintf(`"time":"%d`, time.Now().Unix()/100-1)
	return compress(t, encoding, bytes.ReplaceAll(body, []byte(`"time":"17952537`), []byte(now)))
}

// The lines that Docker sent are read back as the container printed them: each
// once, and long lines whole.
func TestContainersLinesComeBackAsTheyWerePrinted(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *system) {
		for _, name := range []string{"inline", "inline-gzip"} {
			body, encoding, lines := hecSample(t, name)
			token, _ := s.newProjectToken(t, name)
			of := *s
			of.project = name
			if a := do(t, http.MethodOptions, s.ingest+hecEvents, nil, nil); a.status != http.StatusOK {
				t.Fatalf("OPTIONS: answer %d", a.status)
			}
			header := splunk(token)
			header["Content-Encoding"] = encoding
			body = recent(t, body, encoding)
			for range 2 { // the second is a retry
				of.sendHEC(t, hecEvents, header, body)
			}
			var got []string
			for _, l := range of.until(t, "logs", url.Values{"limit": {"100"}}, func(p page) bool { return len(p.Logs) >= len(lines) }).Logs {
				got = append(got, withoutCut(l.Data))
				if l.Application != "myapp" || l.Host != "vm" || l.Source != "stdout" && l.Source != "stderr" {
					t.Errorf("%s: %.50q of %q on %q, source %q", name, l.Data, l.Application, l.Host, l.Source)
				}
			}
			for i := range lines {
				lines[i] = withoutCut(lines[i])
			}
			slices.Sort(got)
			slices.Sort(lines)
			if !slices.Equal(got, lines) {
				t.Errorf("%s: %d lines came back of %d:\n%.80q\n%.80q", name, len(got), len(lines), got, lines)
			}
			if p := of.page(t, "logs", url.Values{"q": {"printed nowhere"}}); len(p.Logs) != 0 {
				t.Errorf("%s: %d logs of a word that was not printed", name, len(p.Logs))
			}
		}
	})
}

// withoutCut removes the one character that Docker has cut in two, from a line
// that repeats one character.
func withoutCut(line string) string {
	if strings.HasPrefix(line, "emoji20KiB:") {
		return strings.Trim(strings.ReplaceAll(line, "\uFFFD", ""), "🚀")
	}
	return line
}

func TestContainerLogsAreStoredWithWhatTheyInherit(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *system) {
		s.sendHEC(t, hecEvents, keyed(splunk(s.token)), fmt.Appendf(nil, `{"event":{"message":"first","severity":"warn","n":{"x":1}},"time":%d,"host":"h","source":"s","sourcetype":"st","index":"main"}
{"event":"second","fields":{"k":"v"}}`, time.Now().Unix()-60))
		s.sendHEC(t, hecRaw+"?host=rawhost", keyed(bearer(s.token)), []byte("third line\r\n\r\n<3>fourth line\n"))
		logs := s.until(t, "logs", url.Values{}, func(p page) bool { return len(p.Logs) == 4 }).Logs
		slices.SortFunc(logs, func(a, b log) int { return strings.Compare(a.Data, b.Data) })
		var got []string
		for _, l := range logs {
			got = append(got, fmt.Sprintf("%s|%d|%s|%s|%v", l.Data, l.SeverityNumber, l.Host, l.Source, l.Metadata))
		}
		want := []string{
			"<3>fourth line|17|rawhost||map[]", "first|13|h|s|map[index:main n.x:1 sourcetype:st]",
			"second|0|h|s|map[index:main k:v sourcetype:st]", "third line|0|rawhost||map[]",
		}
		if !slices.Equal(got, want) || !logs[1].Timestamp.Equal(logs[2].Timestamp) {
			t.Errorf("got %q, at %s and %s", got, logs[1].Timestamp, logs[2].Timestamp)
		}
	})
}

// Equal heartbeats are not treated as repeats, and an event without a time gets the
// time of its receipt.
func TestContainersHeartbeatsAreAllStored(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *system) {
		began, tries := time.Now().Truncate(time.Microsecond), 0
		for range 3 {
			tries += s.sendHEC(t, hecEvents, splunk(s.token), []byte(`{"event":"ping"}`))
		}
		p := s.until(t, "logs", url.Values{}, func(p page) bool { return len(p.Logs) >= 3 })
		if len(p.Logs) > tries || p.Logs[0].Timestamp.Before(began) || p.Logs[0].Timestamp.After(time.Now()) {
			t.Errorf("since %s, in %d tries: %+v", began, tries, p.Logs)
		}
	})
}

// usage returns the project's dropped records by reason.
type usage struct {
	Totals struct {
		Stored  int
		Dropped map[string]int
	}
}

func (s *system) usage(t *testing.T) (u usage) {
	t.Helper()
	s.call(t, http.MethodGet, "/projects/"+s.project+"/usage", "", http.StatusOK).decode(t, &u)
	return u
}

func TestContainersBadEventsAreDeadLettersAndInTheUsage(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *system) {
		s.sendHEC(t, hecEvents, keyed(splunk(s.token)), []byte(`{"event":"good"}{"event":""}{"time":1}{"event":"also good"}`))
		s.until(t, "logs", url.Values{}, func(p page) bool { return len(p.Logs) == 2 })
		var letters struct {
			DeadLetters []struct {
				ID, Reason, Detail string
				Bytes              int
			} `json:"dead_letters"`
		}
		s.call(t, http.MethodGet, "/dead-letters", "", http.StatusOK).decode(t, &letters)
		var reasons []string
		for _, l := range letters.DeadLetters {
			reasons = append(reasons, l.Reason)
			if !strings.Contains(l.Detail, "project "+s.project) || l.Bytes != len(`{"event":""}`) && l.Bytes != len(`{"time":1}`) {
				t.Errorf("letter %+v", l)
			}
			s.call(t, http.MethodPost, "/dead-letters/"+l.ID+"/replay", "", http.StatusConflict)
		}
		slices.Sort(reasons)
		if fmt.Sprint(reasons) != "[invalid_field missing_field]" {
			t.Errorf("letters: %+v", letters)
		}
		eventually(t, "the bad events are counted", func() bool {
			u := s.usage(t)
			return u.Totals.Stored == 2 && u.Totals.Dropped["invalid_field"] == 1 && u.Totals.Dropped["missing_field"] == 1
		})
	})
}

func TestContainersSpentQuotaIsAnsweredAsTheProjectSays(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *system) {
		for _, onQuota := range []string{"drop", "refuse"} {
			of := s.projectInMidDay(t, "on-"+onQuota)
			s.call(t, http.MethodPut, "/projects/"+of.project+"/settings", `{"daily_records":2,"on_quota":"`+onQuota+`"}`, http.StatusOK)
			of.sendHEC(t, hecEvents, keyed(splunk(of.token)), []byte(`{"event":"a"}{"event":"b"}{"event":"c"}`))
			beyond := []byte(strings.Repeat(`{"event":"beyond"}`, 7))
			if onQuota == "refuse" {
				a := do(t, http.MethodPost, s.ingest+hecEvents, splunk(of.token), beyond)
				if a.status != http.StatusServiceUnavailable || string(a.body) != `{"text":"Server is busy","code":9}` || a.header.Get("Retry-After") == "" {
					t.Errorf("answer %d %s, %v", a.status, a.body, a.header)
				}
				continue
			}
			of.sendHEC(t, hecEvents, keyed(splunk(of.token)), beyond)
			eventually(t, "what was dropped is counted", func() bool {
				u := of.usage(t)
				return u.Totals.Stored == 3 && u.Totals.Dropped["daily_records"] == 7
			})
			if p := of.page(t, "logs", url.Values{}); len(p.Logs) != 3 {
				t.Errorf("%d logs are stored", len(p.Logs))
			}
		}
	})
}

func TestHealthOfContainerLogsIsAnswered(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *system) {
		for _, path := range []string{"/services/collector/health", "/services/collector/health/1.0"} {
			a, _ := insist(t, http.MethodGet, s.ingest+path, nil, nil)
			if a.status != http.StatusOK || string(a.body) != `{"text":"HEC is healthy","code":17}` {
				t.Errorf("%s: answer %d %s", path, a.status, a.body)
			}
		}
	})
}
