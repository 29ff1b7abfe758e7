package engine

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"runtime"
	"sync/atomic"
	"time"
)

// childMode is the environment variable that makes a process the child.
const childMode = "LOGBOOM_ENGINE_CHILD"

// The child's file descriptors after the three standard ones.
const (
	socketFD  = 3 // the listening socket
	controlFD = 4 // from the parent: the spec, then possibly stopWord, then the end
	reportFD  = 5 // to the parent: one report
)

// report is the only message of the child.
type report struct {
	Failure string // empty when the engine answers
}

// stopWord asks the child to end in order. If the pipe ends without it, the
// parent is gone.
const stopWord = "stop\n"

// child is one run of the engine's process, seen from the parent.
type child struct {
	cmd      *exec.Cmd
	control  *os.File
	started  time.Time
	lastLine atomic.Pointer[string] // of its output, for the error if it ends before its report
	exited   chan struct{}          // closed when the process has ended; err is set before that
	err      error
}

// spawn starts a child and waits for its report.
func (e *Engine) spawn(ctx context.Context) (*child, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, e.config.StartTimeout, fmt.Errorf("no answer within %s", e.config.StartTimeout))
	defer cancel()
	c := &child{started: time.Now(), exited: make(chan struct{})}
	reports, err := e.startProcess(c)
	if err != nil {
		return nil, err
	}
	defer reports.Close()
	answer := make(chan error, 1) // capacity 1: the sender never blocks
	go func() { answer <- c.readReport(reports) }()
	select {
	case err = <-answer:
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	if err != nil {
		c.destroy()
		return nil, err
	}
	e.pid.Store(int64(c.cmd.Process.Pid))
	return c, nil
}

// startProcess starts the process with its three pipes and returns the pipe of
// the report.
func (e *Engine) startProcess(c *child) (reports *os.File, err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	controlRead, controlWrite, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer controlRead.Close()
	reports, reportWrite, err := os.Pipe()
	if err != nil {
		controlWrite.Close()
		return nil, err
	}
	defer reportWrite.Close()
	c.control = controlWrite
	c.cmd = exec.Command(self)
	c.cmd.Env = append(os.Environ(), childMode+"=1", "TZ=UTC")
	c.cmd.ExtraFiles = []*os.File{e.socket, controlRead, reportWrite}
	c.cmd.SysProcAttr = childAttributes()
	output := &lines{child: c, logger: e.config.Logger}
	c.cmd.Stdout, c.cmd.Stderr = output, output
	if err := c.run(); err != nil {
		reports.Close()
		controlWrite.Close()
		return nil, fmt.Errorf("start %s: %w", self, err)
	}
	// If the child has ended already, no report follows, which is an error.
	_ = json.NewEncoder(controlWrite).Encode(e.config.spec())
	return reports, nil
}

// run starts the process and waits for its end in the background. Both happen
// on one locked thread, because Linux sends the parent's death signal when the
// thread that started the child ends.
func (c *child) run() error {
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := c.cmd.Start()
		started <- err
		if err != nil {
			return
		}
		c.err = c.cmd.Wait()
		close(c.exited)
	}()
	return <-started
}

// readReport waits for the report, or until the child ends without one.
func (c *child) readReport(from io.Reader) error {
	var r report
	err := json.NewDecoder(io.LimitReader(from, 64<<10)).Decode(&r)
	switch {
	case err == nil && r.Failure == "":
		return nil
	case err == nil:
		return errors.New(r.Failure)
	}
	<-c.exited
	output := ""
	if line := c.lastLine.Load(); line != nil {
		output = ": " + *line
	}
	return fmt.Errorf("the engine process ended before it answered (%v)%s; does main, or TestMain, call engine.Main first?", c.err, output)
}

// askToStop asks the child to end in order.
func (c *child) askToStop() {
	_, _ = io.WriteString(c.control, stopWord) // fails only if the child is gone
	c.control.Close()
}

// destroy kills the process and waits for its end.
func (c *child) destroy() {
	_ = c.cmd.Process.Kill() // fails only if the child is gone
	c.control.Close()
	<-c.exited
}

// lines writes the child's output to the log, line by line.
type lines struct {
	child  *child
	logger *slog.Logger
	rest   []byte
}

// maxLine bounds a line in bytes, because errors can contain long statements.
const maxLine = 4 << 10

func (l *lines) Write(p []byte) (int, error) {
	l.rest = append(l.rest, p...)
	for {
		advance, line, _ := bufio.ScanLines(l.rest, false)
		if advance == 0 {
			break
		}
		l.log(line)
		l.rest = l.rest[advance:]
	}
	if len(l.rest) > maxLine {
		l.log(l.rest)
		l.rest = nil
	}
	return len(p), nil
}

func (l *lines) log(line []byte) {
	line = bytes.TrimSpace(line)
	if len(line) == 0 || isNoise(line) {
		return
	}
	text := string(line[:min(len(line), maxLine)])
	l.child.lastLine.Store(&text)
	l.logger.Warn("engine process logged a line", "line", text)
}

// isNoise reports whether a line is part of a stack trace without names, or says
// that a query was cancelled because its client disconnected.
func isNoise(line []byte) bool {
	return bytes.Contains(line, []byte(" @ 0x")) ||
		bytes.HasPrefix(line, []byte("(version ")) ||
		bytes.Contains(line, []byte("ChdbClient::cancelStreamingQuery"))
}
