// Package redistest runs a real redis-server that a test can pause and kill. Only
// tests import it: substitutes of Redis never freeze.
package redistest

import (
	"bufio"
	"errors"
	"io"
	"net"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/logboom/logboom/pkg/freeport"
)

// Server is a running redis-server on a port of loopback, without persistence.
type Server struct {
	port int
	dir  string
	cmd  *exec.Cmd // nil: killed
}

// Start runs a redis-server until the test ends. The test fails if this machine
// has none.
func Start(t testing.TB) *Server {
	t.Helper()
	s := &Server{dir: t.TempDir()}
	t.Cleanup(s.stop)
	const attempts = 5 // a port that was free may be taken by another process
	for range attempts {
		var err error
		if s.port, err = freeport.Port(); err != nil {
			t.Fatal(err)
		}
		if s.run(t) {
			return s
		}
	}
	t.Fatalf("redis-server did not start; its log is in %s", s.dir)
	return nil
}

// URL is the server's address, such as redis://127.0.0.1:6379/0. It stays the
// same when the server is killed and started again.
func (s *Server) URL() string {
	return "redis://" + s.addr() + "/0"
}

func (s *Server) addr() string {
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port))
}

// Pause freezes the server: its port accepts connections, and nothing answers.
// Pause returns when the server has stopped.
func (s *Server) Pause(t testing.TB) {
	t.Helper()
	s.signal(t, syscall.SIGSTOP)
	var status syscall.WaitStatus
	for !status.Stopped() {
		_, err := syscall.Wait4(s.cmd.Process.Pid, &status, syscall.WUNTRACED, nil)
		if err != nil && !errors.Is(err, syscall.EINTR) {
			t.Fatalf("redis-server: wait until it has stopped: %v", err)
		}
		if status.Exited() || status.Signaled() {
			t.Fatalf("redis-server ended while it was being paused: %v", status)
		}
	}
}

// Resume continues a paused server, which then answers what it received in the
// meantime.
func (s *Server) Resume(t testing.TB) { s.signal(t, syscall.SIGCONT) }

// Kill ends the server at once. Its data is lost.
func (s *Server) Kill(t testing.TB) {
	t.Helper()
	s.signal(t, syscall.SIGKILL)
	s.stop()
}

// Restart starts a killed server again, empty, on the same port.
func (s *Server) Restart(t testing.TB) {
	t.Helper()
	if s.cmd == nil && !s.run(t) {
		t.Fatalf("redis-server did not start again on port %d", s.port)
	}
}

func (s *Server) signal(t testing.TB, sig syscall.Signal) {
	t.Helper()
	if s.cmd == nil {
		t.Fatal("redis-server is not running")
	}
	if err := s.cmd.Process.Signal(sig); err != nil {
		t.Fatalf("redis-server: %v: %v", sig, err)
	}
}

// run starts the server and reports whether it accepts connections.
func (s *Server) run(t testing.TB) bool {
	t.Helper()
	cmd := command(t)
	cmd.Args = append(cmd.Args, "--port", strconv.Itoa(s.port), "--bind", "127.0.0.1",
		"--save", "", "--appendonly", "no", "--dir", s.dir)
	cmd.SysProcAttr = dieWithParent()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatalf("redis-server: %v", err)
	}
	s.cmd = cmd
	if !awaitReady(out) {
		s.stop()
		return false
	}
	return true
}

// awaitReady reads the log until the server is ready. The few lines that follow
// stay in the pipe.
func awaitReady(out io.Reader) bool {
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if strings.Contains(lines.Text(), "Ready to accept connections") {
			return true
		}
	}
	return false
}

func (s *Server) stop() {
	if s.cmd == nil {
		return
	}
	_ = s.cmd.Process.Kill() // fails only if it ended by itself
	_ = s.cmd.Wait()         // returns that it was killed
	s.cmd = nil
}

// command finds redis-server. Debian's package redis-tools has it under another
// name: redis-check-rdb is the same program, which behaves by its name.
func command(t testing.TB) *exec.Cmd {
	t.Helper()
	if path, err := exec.LookPath("redis-server"); err == nil {
		return exec.Command(path)
	}
	path, err := exec.LookPath("redis-check-rdb")
	if err == nil {
		path, err = filepath.EvalSymlinks(path)
	}
	if err != nil {
		t.Fatal("no redis-server on this machine: apt-get install redis-tools (or redis-server) and try again")
	}
	cmd := exec.Command(path)
	cmd.Args = []string{"redis-server"}
	return cmd
}
