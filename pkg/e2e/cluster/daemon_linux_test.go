package cluster

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	daemonStart = 60 * time.Second
	daemonStop  = 30 * time.Second
)

// again runs this test binary anew in a network namespace of its own, where a
// daemon's bridges and firewall rules are nobody else's, and is its exit code.
func again() (int, error) {
	if os.Getuid() != 0 {
		return 1, errors.New("no Docker daemon answers, and only root may start one: start Docker, or run the tests as root")
	}
	if _, err := exec.LookPath("dockerd"); err != nil {
		return 1, errors.New("no Docker daemon answers and there is none to start: apt-get install docker.io")
	}
	runtime.LockOSThread() // a parent's death is that of the thread that started its child
	command := exec.Command("/proc/self/exe", os.Args[1:]...)
	command.Env = append(os.Environ(), inside+"=1")
	command.Stdin, command.Stdout, command.Stderr = os.Stdin, os.Stdout, os.Stderr
	command.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGTERM}
	err := command.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return max(exit.ExitCode(), 1), nil
	}
	return 0, err
}

// daemon is a dockerd of the tests' own.
type daemon struct {
	folder  string
	command *exec.Cmd
}

// raiseLoopback turns this namespace's loopback on: a new one has it down.
func raiseLoopback() error {
	socket, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("loopback: %w", err)
	}
	defer unix.Close(socket)
	request, err := unix.NewIfreq("lo")
	if err != nil {
		return fmt.Errorf("loopback: %w", err)
	}
	request.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	if err := unix.IoctlIfreq(socket, unix.SIOCSIFFLAGS, request); err != nil {
		return fmt.Errorf("loopback: %w", err)
	}
	return nil
}

// startDaemon starts one in this network namespace and waits for its socket.
func startDaemon() (*daemon, error) {
	if err := raiseLoopback(); err != nil {
		return nil, err
	}
	folder, err := os.MkdirTemp("", "logboom-docker-")
	if err != nil {
		return nil, err
	}
	d := &daemon{folder: folder}
	log, err := os.Create(filepath.Join(folder, "log"))
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(folder))
	}
	defer log.Close()
	d.command = exec.Command("dockerd", "--data-root", filepath.Join(folder, "data"), "--exec-root", filepath.Join(folder, "exec"),
		"-p", filepath.Join(folder, "pid"), "-H", "unix://"+d.socket())
	d.command.Stdout, d.command.Stderr = log, log
	runtime.LockOSThread() // as in again
	d.command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	if err := d.command.Start(); err != nil {
		return nil, errors.Join(err, os.RemoveAll(folder))
	}
	for deadline := time.Now().Add(daemonStart); !dials(d.socket()); {
		if time.Now().After(deadline) {
			text, _ := os.ReadFile(log.Name()) // what there is of it
			return nil, errors.Join(fmt.Errorf("dockerd did not start:\n%s", text), d.stop())
		}
		<-time.After(50 * time.Millisecond)
	}
	return d, os.Setenv("DOCKER_HOST", "unix://"+d.socket())
}

func (d *daemon) socket() string { return filepath.Join(d.folder, "docker.sock") }

// stop ends the daemon, and its containers with it, and removes what it left.
func (d *daemon) stop() error {
	_ = d.command.Process.Signal(syscall.SIGTERM) // it may have ended already
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = d.command.Wait() // that it was told to end is no news
	}()
	select {
	case <-ended:
	case <-time.After(daemonStop):
		_ = d.command.Process.Kill()
		<-ended
	}
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(mounts)) {
		if fields := strings.Fields(line); len(fields) > 1 && strings.HasPrefix(fields[1], d.folder+"/") {
			_ = syscall.Unmount(fields[1], syscall.MNT_DETACH) // what stays shows in the next line
		}
	}
	return os.RemoveAll(d.folder)
}
