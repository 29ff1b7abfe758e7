package docker

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/logboom/logboom/pkg/freeport"
)

// logboom is a standalone whose ports do not change after a restart.
type logboom struct {
	folder        string
	ingest, admin string // addresses, with scheme
	token, key    string
	command       *exec.Cmd
}

func newLogboom(folder string) (*logboom, error) {
	l := &logboom{folder: folder}
	for l.ingest == l.admin { // as initially
		for _, address := range []*string{&l.ingest, &l.admin} {
			free, err := freeport.Address()
			if err != nil {
				return nil, err
			}
			*address = "http://" + free
		}
	}
	if err := l.start(); err != nil {
		return nil, err
	}
	output, err := os.ReadFile(filepath.Join(folder, "standalone.log"))
	if err != nil {
		return nil, err
	}
	for what, value := range map[string]*string{"token": &l.token, "API key": &l.key} {
		found := regexp.MustCompile(what + ` +(lg[bk]_[0-9A-Za-z]+)`).FindSubmatch(output)
		if found == nil {
			l.stop()
			return nil, fmt.Errorf("standalone printed no %s:\n%s", what, output)
		}
		*value = string(found[1])
	}
	return l, nil
}

// start starts it with the data of the previous run and waits until it is ready.
func (l *logboom) start() error {
	log, err := os.OpenFile(filepath.Join(l.folder, "standalone.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	l.command = exec.Command(filepath.Join(l.folder, "standalone"), "--data-dir="+filepath.Join(l.folder, "logboom"), "--stream-bytes=256MiB",
		"--ingest-addr="+strings.TrimPrefix(l.ingest, "http://"), "--admin-addr="+strings.TrimPrefix(l.admin, "http://"), "--ops-addr=127.0.0.1:0")
	l.command.Stdout, l.command.Stderr = log, log
	if err := l.command.Start(); err != nil {
		return err
	}
	for deadline := time.Now().Add(patience); ; <-time.After(50 * time.Millisecond) {
		if response, err := http.Get(l.ingest + "/readyz"); err == nil {
			response.Body.Close()
			if response.StatusCode == http.StatusOK {
				return nil
			}
		}
		if time.Now().After(deadline) {
			l.stop()
			text, _ := os.ReadFile(log.Name()) // as much as exists
			return fmt.Errorf("standalone is not ready:\n%s", text)
		}
	}
}

func (l *logboom) stop() {
	_ = l.command.Process.Signal(syscall.SIGTERM) // it may have ended already
	_ = l.command.Wait()                          // how it ended is in its log
}

// options returns the log options of a driver that sends to it.
func (l *logboom) options(driver, prefix string, more ...string) []string {
	options := []string{"--log-driver=" + driver, "--log-opt", prefix + "-url=" + l.ingest, "--log-opt", prefix + "-token=" + l.token, "--log-opt", "labels=team"}
	for _, option := range more {
		options = append(options, "--log-opt", option)
	}
	return options
}

// line is a log as the API answers it, with the number that chatty printed.
type line struct {
	Number      int               `json:"-"`
	ID          string            `json:"id"`
	Timestamp   time.Time         `json:"timestamp"`
	Application string            `json:"application"`
	Severity    string            `json:"severity"`
	Data        string            `json:"data"`
	Metadata    map[string]string `json:"metadata"`
	Host        string            `json:"host"`
	Source      string            `json:"source"`
}

var numbered = regexp.MustCompile(`line (\d{8})`)

// lines returns the lines printed since a time, the oldest first.
func (l *logboom) lines(t *testing.T, since time.Time) (all []line) {
	t.Helper()
	query := url.Values{"limit": {"1000"}, "from": {since.UTC().Format(time.RFC3339Nano)}}
	for {
		var page struct {
			Logs []line `json:"logs"`
			Next string `json:"next"`
		}
		l.ask(t, "/api/v1/projects/demo/logs?"+query.Encode(), &page)
		for _, one := range page.Logs {
			if found := numbered.FindStringSubmatch(one.Data); found != nil {
				one.Number, _ = strconv.Atoi(found[1]) // digits only
			}
			all = append(all, one)
		}
		if page.Next == "" {
			break
		}
		query.Set("cursor", page.Next)
	}
	slices.SortStableFunc(all, func(a, b line) int { return a.Number - b.Number })
	return all
}

func (l *logboom) ask(t *testing.T, path string, into any) {
	t.Helper()
	request, err := http.NewRequest(http.MethodGet, l.admin+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+l.key)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("%s: answer %d: %s, %v", path, response.StatusCode, text, err)
	}
	if err := json.Unmarshal(text, into); err != nil {
		t.Fatal(err)
	}
}

// await waits until n lines are readable and checks that they are the lines 1 to n,
// each once. The lines of stdout must be in order, and those of stderr too, but
// dockerd reads the two outputs separately.
func (l *logboom) await(t *testing.T, since time.Time, n int) (all []line) {
	t.Helper()
	eventually(t, fmt.Sprintf("%d lines are readable", n), func() bool {
		all = l.lines(t, since)
		return len(all) >= n
	})
	if len(all) != n {
		t.Fatalf("%d lines are readable, %d were printed", len(all), n)
	}
	latest := map[bool]time.Time{}
	for i, one := range all {
		if one.Number != i+1 {
			t.Fatalf("line %d is number %d: %.100s", i+1, one.Number, one.Data)
		}
		toStderr := one.Number%10 == 0
		if one.Timestamp.Before(latest[toStderr]) {
			t.Fatalf("line %d is older than the one before it", one.Number)
		}
		latest[toStderr] = one.Timestamp
	}
	return all
}
