//go:build linux

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	restartPause = 200 * time.Millisecond // before a process that ended is started again
	maxOutput    = 32 << 20               // bytes kept of the output of one process
	keptLines    = 20                     // last lines of the output, for errors
	lifeMark     = "torture: start"       // begins the output of one life
)

// service is one process of the system. It is started again whenever it ends, until
// its context ends. Its methods are safe for concurrent use.
type service struct {
	name string
	path string
	args []string
	env  []string
	out  *output
	ops  string // address of its metrics; empty: it has none

	mu         sync.Mutex
	changed    chan struct{} // closed and replaced with each change of the fields below
	process    *os.Process   // nil while there is none
	starts     int
	held       bool     // not to be started for now
	killed     bool     // we killed this life
	next       []string // environment of the next start only
	unexpected int      // ends that we did not cause
	done       bool
}

func newService(folder, name, path string, args, env []string) (*service, error) {
	out, err := newOutput(filepath.Join(folder, name+".log"))
	if err != nil {
		return nil, fmt.Errorf("log of %s: %w", name, err)
	}
	return &service{name: name, path: path, args: args, env: env, out: out, changed: make(chan struct{})}, nil
}

// run keeps the process running until ctx ends, then kills it.
func (s *service) run(ctx context.Context) error {
	// Linux sends the death signal when the thread that started the child ends.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer s.out.close()
	stop := context.AfterFunc(ctx, func() { _ = s.kill() })
	defer stop()
	for s.startable(ctx) {
		if err := s.once(ctx); err != nil {
			return err
		}
		_ = pause(ctx, restartPause)
	}
	s.update(func() { s.done = true })
	return nil
}

// startable waits while the service is held.
func (s *service) startable(ctx context.Context) bool {
	return s.await(ctx, func() bool { return !s.held }) == nil
}

// once runs one life of the process.
func (s *service) once(ctx context.Context) error {
	command := exec.Command(s.path, s.args...)
	command.Stdout, command.Stderr = s.out, s.out
	command.WaitDelay = 2 * time.Second
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	s.mu.Lock()
	command.Env = slices.Concat(cleanEnv(), s.env, s.next)
	planned := len(s.next) > 0 // the environment makes it end
	s.next, s.killed = nil, false
	if s.held || ctx.Err() != nil {
		s.mu.Unlock()
		return nil
	}
	fmt.Fprintln(s.out, lifeMark, s.starts+1) // before the process can print
	err := command.Start()
	if err == nil {
		s.process = command.Process
		s.starts++
	}
	s.notifyLocked()
	s.mu.Unlock()
	if err != nil {
		return fmt.Errorf("start %s: %w", s.name, err)
	}
	err = command.Wait()
	s.update(func() {
		s.process = nil
		if !s.killed && !planned {
			s.unexpected++
			fmt.Fprintf(s.out, "torture: %s ended by itself: %v\n", s.name, err)
		}
	})
	return nil
}

func (s *service) update(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
	s.notifyLocked()
}

func (s *service) notifyLocked() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// await waits until the condition, which is called under the lock, holds.
func (s *service) await(ctx context.Context, holds func() bool) error {
	for {
		s.mu.Lock()
		ok, changed := holds(), s.changed
		s.mu.Unlock()
		if ok {
			return ctx.Err()
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// kill ends the process and its children at once. Unless it is held, it is started
// again.
func (s *service) kill() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.process == nil {
		return nil // it has ended already
	}
	s.killed = true
	for _, child := range children(s.process.Pid) {
		_ = syscall.Kill(child, syscall.SIGKILL) // it has ended, or will end with its parent
	}
	return ended(syscall.Kill(-s.process.Pid, syscall.SIGKILL))
}

// ended ignores the error of a process that has already ended.
func ended(err error) error {
	if errors.Is(err, syscall.ESRCH) {
		return nil
	}
	return err
}

// signal sends a signal to the process alone, such as SIGSTOP and SIGCONT.
func (s *service) signal(sig syscall.Signal) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.process == nil {
		return fmt.Errorf("%s is not running: %w", s.name, errNoEffect)
	}
	return syscall.Kill(s.process.Pid, sig)
}

// freeze suspends the process and its children, to be killed.
func (s *service) freeze() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.process == nil {
		return
	}
	for _, pid := range append(children(s.process.Pid), s.process.Pid) {
		_ = syscall.Kill(pid, syscall.SIGSTOP) // it may have ended
	}
}

// hold kills the process, waits until it has ended and prevents the next start.
func (s *service) hold(ctx context.Context) error {
	s.update(func() { s.held = true })
	if err := s.kill(); err != nil {
		return fmt.Errorf("kill %s: %w", s.name, err)
	}
	return s.await(ctx, func() bool { return s.process == nil })
}

// release lets a held process start again.
func (s *service) release() { s.update(func() { s.held = false }) }

// pid returns the ID of the process, or 0 while there is none.
func (s *service) pid() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.process == nil {
		return 0
	}
	return s.process.Pid
}

// restartWith kills the process and starts it with the variables added, for
// one life. It returns the number of that start.
func (s *service) restartWith(ctx context.Context, env ...string) (start int, err error) {
	before := 0
	s.update(func() { s.next, before = env, s.starts })
	if err := s.kill(); err != nil {
		return 0, fmt.Errorf("kill %s: %w", s.name, err)
	}
	err = s.await(ctx, func() bool { start = s.starts; return s.starts > before && s.process != nil })
	return start, err
}

// awaitEndOf waits until that start of the process has ended.
func (s *service) awaitEndOf(ctx context.Context, start int) error {
	return s.await(ctx, func() bool { return s.starts > start || s.process == nil })
}

// isReady reports whether the current life has said that it is ready.
func (s *service) isReady() bool {
	s.out.mu.Lock()
	defer s.out.mu.Unlock()
	return s.out.ready
}

func (s *service) startNumber() int {
	starts, _ := s.counts()
	return starts
}

func (s *service) counts() (starts, unexpected int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.starts, s.unexpected
}

// children returns the child processes of a process.
func children(pid int) []int {
	var pids []int
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid)) // the pattern is valid
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			continue // the thread has ended
		}
		for field := range strings.FieldsSeq(string(content)) {
			if child, err := strconv.Atoi(field); err == nil {
				pids = append(pids, child)
			}
		}
	}
	return pids
}

// cleanEnv returns the environment without settings of Logboom, except for those of
// the engine's library.
func cleanEnv() []string {
	return slices.DeleteFunc(os.Environ(), func(pair string) bool {
		return strings.HasPrefix(pair, "LOGBOOM_") && !strings.HasPrefix(pair, "LOGBOOM_CLICKHOUSE_ENGINE")
	})
}

// output keeps the output of a process: in a file, up to a limit, and the last lines
// for errors. It counts lines about failpoints and remembers a line about
// readiness.
type output struct {
	mu      sync.Mutex
	file    *os.File
	written int
	tail    []byte
	begun   []byte // an incomplete line
	counts  map[string]int
	ready   bool // the last life is
}

func newOutput(path string) (*output, error) {
	file, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	return &output{file: file, counts: map[string]int{}}, nil
}

// Write never fails: a process must not end because its log cannot grow.
func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.countLocked(p)
	o.tail = append(o.tail, p...)
	if lines := bytes.Count(o.tail, []byte("\n")); lines > 2*keptLines {
		parts := bytes.SplitAfterN(o.tail, []byte("\n"), lines-keptLines+1)
		o.tail = slices.Clone(parts[len(parts)-1])
	}
	if o.written < maxOutput {
		n, _ := o.file.Write(p) // a loss affects only a reader of the log
		o.written += n
	}
	return len(p), nil
}

func (o *output) countLocked(p []byte) {
	o.begun = append(o.begun, p...)
	for {
		line, rest, ended := bytes.Cut(o.begun, []byte("\n"))
		if !ended {
			return
		}
		switch {
		case bytes.HasPrefix(line, []byte(failpointMark)):
			o.counts[string(line)]++
		case bytes.Contains(line, []byte(lifeMark)): // the life before may have died in the middle of a line
			o.ready = false
		case bytes.Contains(line, []byte(readyMark)):
			o.ready = true
		}
		o.begun = rest
	}
}

// times returns how often a line about a failpoint was printed.
func (o *output) times(line string) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.counts[line]
}

func (o *output) last() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return string(o.tail)
}

func (o *output) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.file.Close()
	o.written = maxOutput
}

// pause waits, or returns the context's error.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
