package e2e

import (
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// alone is standalone with its folder and the output of its first start.
func alone(t *testing.T, data string) *system {
	t.Helper()
	p := spawn(t, "standalone", []string{
		"--data-dir=" + data, "--ingest-addr=127.0.0.1:0", "--admin-addr=127.0.0.1:0", "--ops-addr=127.0.0.1:0", "--stream-bytes=256MiB",
	}, nil)
	p.await("ready", func(line string) bool { return strings.Contains(line, "process ready") })
	s := &system{project: "demo", processes: []*process{p}}
	s.ingest, s.admin = "http://"+p.attribute("ingest port open", "addr"), "http://"+p.attribute("admin port open", "addr")
	if found := welcomed["token"].FindStringSubmatch(p.output()); found != nil {
		s.token, s.apiKey = found[1], welcomed["API key"].FindStringSubmatch(p.output())[1]
	}
	return s
}

// places sends logs, each with a key of its own and so to any of the streams. It
// returns where each is stored, by the log's data.
func (s *system) places(t *testing.T, word string) map[string]string {
	t.Helper()
	const bodies = 12
	for n := range bodies {
		text := fmt.Sprintf("%s %d", word, n)
		header := bearer(s.token)
		header["Idempotency-Key"] = text
		if a, _ := insist(t, http.MethodPost, s.ingest+"/v1/logs/"+s.project, header, fmt.Appendf(nil, `{"data":%q}`, text)); a.status != http.StatusAccepted {
			t.Fatalf("answer %d: %s", a.status, a.body)
		}
	}
	return s.placesOf(t, word, bodies)
}

func (s *system) placesOf(t *testing.T, word string, logs int) map[string]string {
	t.Helper()
	p := s.until(t, "logs", url.Values{"q": {word}}, func(p page) bool { return len(p.Logs) >= logs })
	places := map[string]string{}
	for _, l := range p.Logs {
		places[l.ID] = l.Data
	}
	if len(p.Logs) != logs || len(places) != logs {
		t.Errorf("%d logs of %s came back at %d places, not %d", len(p.Logs), word, len(places), logs)
	}
	return places
}

// A copy of standalone's whole folder, made while standalone is stopped, is a
// backup.
func TestACopyOfTheFolderIsABackupOfStandalone(t *testing.T) {
	t.Parallel()
	data, kept := t.TempDir(), filepath.Join(t.TempDir(), "kept")
	s := alone(t, data)
	before := s.places(t, "before")
	s.processes[0].stop()
	if out, err := exec.Command("cp", "-a", data, kept).CombinedOutput(); err != nil {
		t.Fatalf("copy the folder: %v: %s", err, out)
	}
	again := alone(t, kept)
	again.token, again.apiKey = s.token, s.apiKey
	after := again.places(t, "after")
	if got := again.placesOf(t, "before", len(before)); fmt.Sprint(got) != fmt.Sprint(before) {
		t.Errorf("%v came back of %v", got, before)
	}
	for place := range after {
		if before[place] != "" {
			t.Errorf("the place %s was given out twice", place)
		}
	}
}

// The queue's folder also holds projects and users. Without it standalone is a new
// installation with old rows, and must not use their sequences again.
func TestADeletedQueueDoesNotGiveOutPlacesAgain(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	s := alone(t, data)
	before := s.places(t, "before")
	s.processes[0].stop()
	if err := os.RemoveAll(filepath.Join(data, "nats")); err != nil {
		t.Fatal(err)
	}
	for place := range alone(t, data).places(t, "after") {
		if before[place] != "" {
			t.Errorf("the place %s was given out twice", place)
		}
	}
}
