package e2e

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// startWithin and stopWithin bound the start and stop of a process on a busy
// machine. They do not say how long these usually take.
const (
	startWithin = 2 * time.Minute
	stopWithin  = 2 * time.Minute
)

// process is a running process of Logboom or of an engine.
type process struct {
	t       testing.TB
	name    string
	command *exec.Cmd
	done    chan struct{} // closed once it has ended

	mu    sync.Mutex
	lines []string
	more  chan struct{} // closed and replaced with each line
}

// spawn starts a binary and reads its output. Its environment has no settings of
// Logboom but the given variables.
func spawn(t testing.TB, name string, args, env []string) *process {
	t.Helper()
	p := &process{t: t, name: name, done: make(chan struct{}), more: make(chan struct{})}
	p.command = exec.Command(binary(t, name), args...)
	p.command.Env = append(cleanEnv(), env...)
	reader, writer := io.Pipe()
	p.command.Stdout, p.command.Stderr = writer, writer
	if err := p.command.Start(); err != nil {
		t.Fatalf("start %s: %v", name, err)
	}
	read := make(chan struct{})
	go func() {
		defer close(read)
		p.read(reader)
	}()
	go func() {
		_ = p.command.Wait() // tests check the exit code where it matters
		writer.Close()
		<-read
		close(p.done)
	}()
	t.Cleanup(func() { p.kill() })
	return p
}

// cleanEnv returns the environment without Logboom's settings.
func cleanEnv() []string {
	var env []string
	for _, pair := range os.Environ() {
		if !strings.HasPrefix(pair, "LOGBOOM_") || strings.HasPrefix(pair, "LOGBOOM_CLICKHOUSE_ENGINE=") {
			env = append(env, pair)
		}
	}
	return env
}

func (p *process) read(from io.Reader) {
	scanner := bufio.NewScanner(from)
	scanner.Buffer(nil, 1<<20)
	for scanner.Scan() {
		p.mu.Lock()
		p.lines = append(p.lines, scanner.Text())
		close(p.more)
		p.more = make(chan struct{})
		p.mu.Unlock()
	}
}

// await returns the first line, printed before or later, that accept returns true for.
func (p *process) await(what string, accept func(line string) bool) string {
	p.t.Helper()
	deadline := time.After(startWithin)
	for next := 0; ; {
		ended := p.ended() // checked first: all that it printed before is among the lines
		p.mu.Lock()
		lines, more := p.lines[next:], p.more
		p.mu.Unlock()
		for _, line := range lines {
			if accept(line) {
				return line
			}
		}
		next += len(lines)
		if ended {
			p.t.Fatalf("%s ended before %s:\n%s", p.name, what, p.output())
		}
		select {
		case <-more:
		case <-p.done:
		case <-deadline:
			p.t.Fatalf("%s did not come to %s:\n%s", p.name, what, p.output())
		}
	}
}

func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// attribute waits for a log line with the message and returns one attribute of it.
func (p *process) attribute(message, key string) string {
	p.t.Helper()
	line := p.await(message, func(line string) bool { return strings.Contains(line, `"msg":"`+message+`"`) })
	var attributes map[string]any
	if err := json.Unmarshal([]byte(line), &attributes); err != nil {
		p.t.Fatalf("log line of %s: %v: %s", p.name, err, line)
	}
	value, ok := attributes[key].(string)
	if !ok {
		p.t.Fatalf("log line of %s has no %s: %s", p.name, key, line)
	}
	return value
}

func (p *process) output() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Join(p.lines, "\n")
}

// stop asks the process to stop and checks its exit code.
func (p *process) stop() {
	p.t.Helper()
	if err := p.command.Process.Signal(syscall.SIGTERM); err != nil {
		p.t.Fatalf("stop %s: %v", p.name, err)
	}
	select {
	case <-p.done:
	case <-time.After(stopWithin):
		p.t.Fatalf("%s did not stop:\n%s", p.name, p.output())
	}
	if code := p.command.ProcessState.ExitCode(); code != 0 {
		p.t.Fatalf("%s ended with code %d:\n%s", p.name, code, p.output())
	}
}

// kill kills the process and waits until its child processes have ended too,
// because an engine that is still ending may write to its folder.
func (p *process) kill() {
	if p.ended() {
		return
	}
	started := startedBy(p.command.Process.Pid)
	_ = p.command.Process.Kill() // it may have ended already
	<-p.done
	for deadline := time.Now().Add(stopWithin); slices.ContainsFunc(started, lives); <-time.After(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			p.t.Errorf("what %s started lives on without it: processes %v", p.name, started)
			return
		}
	}
}

// startedBy returns the child processes of a process, if the kernel lists them.
func startedBy(pid int) (pids []int) {
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid)) // the pattern is valid
	for _, file := range files {
		content, _ := os.ReadFile(file) // empty if the thread has ended
		for field := range strings.FieldsSeq(string(content)) {
			if child, err := strconv.Atoi(field); err == nil {
				pids = append(pids, child)
			}
		}
	}
	return pids
}

// lives reports whether a process runs and is not a zombie.
func lives(pid int) bool {
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, state, _ := strings.Cut(string(content), ") ")
	return err == nil && !strings.HasPrefix(state, "Z") && !strings.HasPrefix(state, "X")
}

// secretFree fails the test if the process has logged a secret.
func (p *process) secretFree(secrets ...string) {
	p.t.Helper()
	for _, line := range strings.Split(p.output(), "\n") {
		if !strings.HasPrefix(line, "{") {
			continue // the welcome text shows them intentionally
		}
		for _, secret := range secrets {
			if secret != "" && bytes.Contains([]byte(line), []byte(secret)) {
				p.t.Errorf("%s logged a secret: %s", p.name, strings.ReplaceAll(line, secret, "<secret>"))
			}
		}
	}
}
