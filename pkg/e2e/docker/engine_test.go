package docker

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// patience bounds each wait on a busy machine. It does not say how long anything
// usually takes.
const patience = 2 * time.Minute

const image = "local/chatty:test"

// engine is a dockerd that this package has started.
type engine struct {
	folder  string
	command *exec.Cmd
	done    chan struct{} // closed once it has ended
}

func newEngine(folder string) (*engine, error) {
	e := &engine{folder: folder}
	// The machine's own configuration of dockerd must not apply here.
	if err := os.WriteFile(e.path("daemon.json"), []byte("{}"), 0o600); err != nil {
		return nil, err
	}
	if err := e.start(); err != nil {
		e.remove()
		return nil, err
	}
	if err := e.load(); err != nil {
		e.remove()
		return nil, err
	}
	for _, args := range [][]string{{"plugin", "create", "collector:latest", filepath.Join(folder, "plugin")}, {"plugin", "enable", "collector:latest"}} {
		if out, err := e.try(args...); err != nil {
			e.remove()
			return nil, fmt.Errorf("docker %s: %w: %s\n%s", strings.Join(args, " "), err, out, e.log())
		}
	}
	return e, nil
}

func (e *engine) path(name string) string { return filepath.Join(e.folder, name) }

func (e *engine) log() string {
	text, err := os.ReadFile(e.path("dockerd.log"))
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-4000):])
}

// start starts dockerd and waits until it answers. If dockerd ends before that, it
// is started again, twice: it waits only 15 seconds for its containerd, which is
// too short if the machine is paused.
func (e *engine) start() (err error) {
	for range 3 {
		if err = e.launch(); err != nil {
			return err
		}
		if err = e.answers(); !errors.Is(err, errEnded) {
			return err
		}
	}
	return err
}

var errEnded = errors.New("dockerd ended")

// launch starts dockerd. The kernel stops dockerd when the thread that started it
// ends, so that thread is kept until this process ends.
func (e *engine) launch() error {
	log, err := os.OpenFile(e.path("dockerd.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	// The containerd of a killed dockerd has ended with it. If init does not reap
	// orphans, it still seems to run and dockerd would wait for it.
	_ = os.Remove(e.path("exec/containerd/containerd.pid")) // usually there is none
	_ = os.Remove(e.path("pid"))                            // left by a killed dockerd; another process may have the number now
	e.done = make(chan struct{})
	e.command = exec.Command("dockerd", "--config-file", e.path("daemon.json"), "--data-root", e.path("data"), "--exec-root", e.path("exec"), "-p", e.path("pid"), "-H", "unix://"+e.path("sock"),
		"--bridge=none", "--iptables=false", "--ip6tables=false", "--ip-forward=false", "--shutdown-timeout=5")
	e.command.Stdout, e.command.Stderr = log, log
	e.command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	started := make(chan error, 1) // capacity 1: sent once
	go func() {
		defer close(e.done)
		defer log.Close()
		runtime.LockOSThread()
		err := e.command.Start()
		started <- err
		if err == nil {
			_ = e.command.Wait() // how it ended is in its log
		}
	}()
	return <-started
}

// answers waits until dockerd answers or has ended.
func (e *engine) answers() error {
	for deadline := time.Now().Add(patience); ; <-time.After(50 * time.Millisecond) {
		if _, err := e.try("info"); err == nil {
			return nil
		}
		select {
		case <-e.done:
			return fmt.Errorf("%w: %s", errEnded, e.log())
		default:
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("dockerd does not answer: %s", e.log())
		}
	}
}

// signal sends dockerd a signal and waits for its end. A container whose output
// nothing reads would prevent that end.
func (e *engine) signal(signal syscall.Signal) {
	if e.command.Process == nil {
		return // it was never started
	}
	_ = e.command.Process.Signal(signal) // it may have ended already
	select {
	case <-e.done:
	case <-time.After(patience):
		_ = e.command.Process.Kill() // it may have ended just now
		<-e.done
	}
}

// try runs a docker command.
func (e *engine) try(args ...string) (string, error) { return e.feed(nil, args...) }

// feed runs a docker command with input.
func (e *engine) feed(input io.Reader, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	command := exec.CommandContext(ctx, "docker", append([]string{"-H", "unix://" + e.path("sock")}, args...)...)
	command.Env = append(os.Environ(), "DOCKER_CONFIG="+e.path("config"))
	command.Stdin = input
	out, err := command.CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

func (e *engine) docker(t *testing.T, args ...string) string {
	t.Helper()
	out, err := e.try(args...)
	if err != nil {
		t.Fatalf("docker %s: %v: %s\n%s", strings.Join(args, " "), err, out, e.log())
	}
	return out
}

// load creates the image with one static program.
func (e *engine) load() error {
	program, err := os.ReadFile(e.path("chatty"))
	if err != nil {
		return err
	}
	var archive bytes.Buffer
	writer := tar.NewWriter(&archive)
	err = writer.WriteHeader(&tar.Header{Name: "chatty", Mode: 0o755, Size: int64(len(program))})
	if err == nil {
		_, err = writer.Write(program)
	}
	if err = errors.Join(err, writer.Close()); err != nil {
		return err
	}
	if out, err := e.feed(&archive, "import", "-c", `ENTRYPOINT ["/chatty"]`, "-", image); err != nil {
		return fmt.Errorf("docker import: %w: %s", err, out)
	}
	return nil
}

// run starts a container and returns its ID. It is removed when the test ends.
func (e *engine) run(t *testing.T, driver []string, arguments ...string) string {
	t.Helper()
	args := append([]string{"run", "-d", "--network=none", "--label", "team=shop"}, driver...)
	id := e.docker(t, append(append(args, image), arguments...)...)
	t.Cleanup(func() { e.docker(t, "rm", "-fv", id) })
	return id
}

// printed returns how many of a container's lines docker logs shows. The last line
// may be incomplete.
func (e *engine) printed(t *testing.T, id string) int {
	t.Helper()
	return len(numbered.FindAllString(e.docker(t, "logs", id), -1))
}

// end ends a container that prints n lines. Its program prints the last line only
// when Docker has read the others.
func (e *engine) end(t *testing.T, id string, n int) {
	t.Helper()
	eventually(t, fmt.Sprintf("Docker has read all but the last of %d lines", n), func() bool { return e.printed(t, id) >= n-1 })
	e.docker(t, "kill", "--signal=TERM", id)
	e.docker(t, "wait", id)
}

// remove stops dockerd and unmounts what it leaves mounted. TestMain removes its
// folders.
func (e *engine) remove() {
	for _, args := range [][]string{{"plugin", "disable", "-f", "collector:latest"}, {"plugin", "rm", "-f", "collector:latest"}} {
		_, _ = e.try(args...) // there may be none
	}
	e.signal(syscall.SIGTERM)
	e.killOrphans()
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return
	}
	lines := strings.Split(string(mounts), "\n")
	slices.Reverse(lines) // the last mounted first
	for _, line := range lines {
		if fields := strings.Fields(line); len(fields) > 1 && strings.HasPrefix(fields[1], e.folder+"/") {
			if err := syscall.Unmount(fields[1], syscall.MNT_DETACH); err != nil {
				fmt.Fprintln(os.Stderr, "unmount", fields[1], err)
			}
		}
	}
}

var shimID = regexp.MustCompile(`-id\x00([0-9a-f]{64})`)

// killOrphans kills what a killed dockerd has left running: the shims, identified by
// this engine's folder, and the processes in the control groups of their
// containers.
func (e *engine) killOrphans() {
	var ids []string
	processes(func(pid int, command []byte) {
		if id := shimID.FindSubmatch(command); id != nil && bytes.Contains(command, []byte(e.folder)) {
			ids = append(ids, string(id[1]))
			_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended
		}
	})
	processes(func(pid int, _ []byte) {
		group, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid)) // it may have ended
		for _, id := range ids {
			if bytes.Contains(group, []byte(id)) {
				_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended
			}
		}
	})
}

// processes calls each with every process and its command line.
func processes(each func(pid int, command []byte)) {
	entries, _ := os.ReadDir("/proc") // it always exists
	for _, entry := range entries {
		if pid, err := strconv.Atoi(entry.Name()); err == nil {
			command, _ := os.ReadFile(filepath.Join("/proc", entry.Name(), "cmdline")) // it may have ended
			each(pid, command)
		}
	}
}

// pluginProcess finds the process of this engine's managed plugin by its name and by
// the engine's folder among its mounts.
func (e *engine) pluginProcess() (found int, ok bool) {
	processes(func(pid int, command []byte) {
		mounts, _ := os.ReadFile(fmt.Sprintf("/proc/%d/mountinfo", pid)) // it may have ended
		if string(command) == "/collector\x00" && bytes.Contains(mounts, []byte(e.folder)) {
			found, ok = pid, true
		}
	})
	return found, ok
}

// killPlugin kills the plugin and waits until dockerd has restarted it. Call it only
// once: dockerd gives up a plugin that is killed again before dockerd has seen its
// socket, and the tests cannot see when that is.
func (e *engine) killPlugin(t *testing.T) {
	t.Helper()
	var old int
	eventually(t, "the plugin runs", func() bool {
		pid, ok := e.pluginProcess()
		old = pid
		return ok
	})
	if err := syscall.Kill(old, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "dockerd starts the plugin again", func() bool {
		pid, ok := e.pluginProcess()
		return ok && pid != old
	})
}

// eventually checks a condition until it is true.
func eventually(t *testing.T, what string, ask func() bool) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for wait := 10 * time.Millisecond; !ask(); wait = min(2*wait, 500*time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within %s: %s", patience, what)
		}
		<-time.After(wait)
	}
}
