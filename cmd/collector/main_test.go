package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/logboom/logboom/cmd/collector/internal/dockertest"
	"github.com/logboom/logboom/cmd/collector/internal/hectest"
)

// asCollector is the environment variable that makes the test binary run the
// collector instead of the tests.
const asCollector = "COLLECTOR_TEST_RUNS_MAIN"

func TestMain(m *testing.M) {
	if os.Getenv(asCollector) != "" {
		os.Exit(run())
	}
	os.Exit(m.Run())
}

// collector is a collector process, as an operator runs it without Docker.
type collector struct {
	t       *testing.T
	folder  string
	client  *http.Client
	command *exec.Cmd
	output  bytes.Buffer
}

func newCollector(t *testing.T) *collector {
	t.Helper()
	c := &collector{t: t, folder: t.TempDir()}
	c.client = &http.Client{Timeout: time.Minute, Transport: &http.Transport{
		DisableKeepAlives: true, // the collector is killed again and again
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", c.socket())
		},
	}}
	c.start()
	t.Cleanup(func() { c.signal(syscall.SIGKILL) })
	return c
}

func (c *collector) socket() string { return filepath.Join(c.folder, "collector.sock") }

func (c *collector) start(args ...string) {
	c.t.Helper()
	c.command = exec.Command(os.Args[0], append([]string{"--socket=" + c.socket(), "--spool-dir=" + filepath.Join(c.folder, "spool")}, args...)...)
	c.command.Env = append(os.Environ(), asCollector+"=1")
	c.command.Stderr, c.command.Stdout = &c.output, &c.output
	if err := c.command.Start(); err != nil {
		c.t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); ; <-time.After(5 * time.Millisecond) {
		response, err := c.client.Post("http://collector/Plugin.Activate", "", nil)
		if err == nil {
			response.Body.Close()
			return
		}
		if time.Now().After(deadline) {
			c.signal(syscall.SIGKILL)
			c.t.Fatalf("the collector does not answer: %v\n%s", err, &c.output)
		}
	}
}

// signal sends a signal and waits for the process to end.
func (c *collector) signal(signal syscall.Signal) {
	_ = c.command.Process.Signal(signal) // it may have ended already
	_ = c.command.Wait()                 // the test reads the exit code where it matters
}

func (c *collector) call(path string, request any) {
	c.t.Helper()
	body, err := json.Marshal(request)
	if err != nil {
		c.t.Fatal(err)
	}
	response, err := c.client.Post("http://collector"+path, "", bytes.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil || strings.TrimSpace(string(text)) != `{"Err":""}` {
		c.t.Fatalf("%s: %s, %v", path, text, err)
	}
}

func (c *collector) open(l *dockertest.Log, url, tag string) {
	c.t.Helper()
	c.call("/LogDriver.StartLogging", map[string]any{"File": l.Path, "Info": map[string]any{
		"ContainerID": tag,
		"Config":      map[string]string{"collector-url": url, "collector-token": "lgb_x", "tag": tag, "collector-batch-interval": "10ms"},
	}})
}

// The collector is killed at random moments, while the server fails half of the
// time and breaks connections after it has stored the body. No line is lost or
// doubled.
func TestKillsLoseAndDoubleNothing(t *testing.T) {
	t.Parallel()
	const containers, kills = 3, 12
	const maxLines = 100_000 // lines of each container: they fit into the spool, however long the test takes
	to, c := hectest.New(t), newCollector(t)
	to.Answer(func(int, hectest.Request) (int, map[string]string) { return []int{200, 200, 503, 0}[rand.IntN(4)], nil })
	stop := make(chan struct{})
	var writers sync.WaitGroup
	var written [containers]int
	logs := make([]*dockertest.Log, containers)
	for i := range logs {
		logs[i] = dockertest.NewLog(t)
		c.open(logs[i], to.URL, fmt.Sprint(i))
		writers.Go(func() {
			for n := range maxLines {
				select {
				case <-stop:
					return
				default:
				}
				if err := logs[i].TryLine("stdout", numbered(n)); err != nil {
					t.Error(err)
					return
				}
				written[i]++
				if n%500 == 0 {
					<-time.After(time.Millisecond) // the FIFO is empty now and then
				}
			}
		})
	}
	for range kills {
		<-time.After(time.Duration(rand.IntN(200)) * time.Millisecond) // a random moment
		c.signal(syscall.SIGKILL)
		c.start()
	}
	close(stop)
	writers.Wait()
	for _, l := range logs {
		c.call("/LogDriver.StopLogging", map[string]string{"File": l.Path})
	}
	to.Answer(nil)
	total := 0
	for _, n := range written {
		total += n
	}
	events := to.Await(fmt.Sprintf("%d lines", total), func(e []hectest.Event) bool { return len(e) >= total })
	next := map[string]int{}
	for _, e := range events {
		if want := numbered(next[e.Event.Tag]); e.Event.Line != want {
			t.Fatalf("container %s: %.40q, want %.40q", e.Event.Tag, e.Event.Line, want)
		}
		next[e.Event.Tag]++
	}
	t.Logf("%d lines, %d kills: each line arrived once, in order", total, kills)
	c.signal(syscall.SIGTERM)
	if code := c.command.ProcessState.ExitCode(); code != 0 {
		t.Errorf("exit code %d:\n%s", code, &c.output)
	}
}

// numbered returns a line of one of several lengths. Docker cuts the longest ones.
func numbered(n int) string {
	return fmt.Sprintf("%08d ", n) + strings.Repeat("x", []int{10, 100, 700, 0}[n%4]+n%997/996*40<<10)
}

func TestAStopLeavesTheRestInTheSpool(t *testing.T) {
	t.Parallel()
	to, c := hectest.New(t), newCollector(t)
	to.Answer(func(int, hectest.Request) (int, map[string]string) { return 503, nil })
	l := dockertest.NewLog(t)
	c.open(l, to.URL, "web")
	for n := range 100 {
		l.Line("stdout", numbered(n))
	}
	to.AwaitRequests(1)
	began := time.Now()
	c.signal(syscall.SIGTERM)
	if code := c.command.ProcessState.ExitCode(); code != 0 || time.Since(began) > 2*time.Minute { // the default of --stop-timeout is 5 s
		t.Errorf("exit code %d after %s:\n%s", code, time.Since(began), &c.output)
	}
	to.Answer(nil)
	c.start()
	to.Await("the rest", func(e []hectest.Event) bool { return len(e) == 100 })
}

// A thousand containers with pending lines cost the process little memory, and
// all lines arrive once the server accepts them.
func TestAThousandContainersCostLittleMemory(t *testing.T) {
	t.Parallel()
	const containers, each, maxKiB = 1000, 50, 512 << 10 // measured: 36 MiB; the race detector multiplies it
	to, c := hectest.New(t), newCollector(t)
	to.Answer(func(int, hectest.Request) (int, map[string]string) { return 503, nil })
	for i := range containers {
		l := dockertest.NewLog(t)
		c.open(l, to.URL, fmt.Sprint(i))
		for n := range each {
			l.Line("stdout", numbered(n))
		}
	}
	to.AwaitRequests(4)
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", c.command.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(status), "VmHWM:")
	var peak int
	if _, err := fmt.Sscan(after, &peak); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d containers: %d KiB resident at most", containers, peak)
	if peak > maxKiB {
		t.Errorf("%d KiB were resident, want at most %d", peak, maxKiB)
	}
	to.Answer(nil)
	to.Await("all lines", func(e []hectest.Event) bool { return len(e) == containers*each })
}

func TestBadSettingsAreRefusedByName(t *testing.T) {
	t.Parallel()
	for _, flag := range []string{"--spool-bytes=1", "--stop-timeout=-1s", "--log-level=loud", "--socket-path=x"} {
		command := exec.Command(os.Args[0], flag)
		command.Env = append(os.Environ(), asCollector+"=1")
		out, _ := command.CombinedOutput() // the exit code is checked below
		name, _, _ := strings.Cut(flag, "=")
		if command.ProcessState.ExitCode() != 2 || !strings.Contains(string(out), name) {
			t.Errorf("%s: code %d: %s", flag, command.ProcessState.ExitCode(), out)
		}
	}
}
