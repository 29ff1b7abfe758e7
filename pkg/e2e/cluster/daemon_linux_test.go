package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// again runs this test binary again in a new network namespace, so that the
// daemon's bridges and firewall rules affect nothing else. It returns the exit
// code.
func again() (int, error) {
	if os.Getuid() != 0 {
		return 1, errors.New("no Docker daemon answers, and only root may start one: start Docker, or run the tests as root")
	}
	if _, err := exec.LookPath("dockerd"); err != nil {
		return 1, errors.New("no Docker daemon answers and dockerd is not installed: apt-get install docker.io")
	}
	runtime.LockOSThread() // the death signal follows the thread that started the child
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

// daemon is a dockerd that the tests have started.
type daemon struct {
	folder  string
	command *exec.Cmd
	ended   chan struct{} // closed once it has ended
}

// raiseLoopback enables loopback, which is disabled in a new namespace.
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

// startDaemon starts a daemon in this network namespace and waits until it answers.
func startDaemon() (*daemon, error) {
	if err := raiseLoopback(); err != nil {
		return nil, err
	}
	folder, err := os.MkdirTemp("", "logboom-docker-")
	if err != nil {
		return nil, err
	}
	d := &daemon{folder: folder}
	if err := d.start(); err != nil {
		return nil, errors.Join(err, d.stop())
	}
	return d, os.Setenv("DOCKER_HOST", "unix://"+d.socket())
}

// start starts dockerd. If it ends before it has answered, it is started again,
// twice: it waits only 15 seconds for its containerd, which is too short if the
// machine is paused.
func (d *daemon) start() (err error) {
	// The machine's own configuration of dockerd must not apply here.
	if err := os.WriteFile(filepath.Join(d.folder, "daemon.json"), []byte("{}"), 0o600); err != nil {
		return err
	}
	for range 3 {
		if err = d.launch(); err != nil {
			return err
		}
		if err = d.answers(); !errors.Is(err, errEnded) {
			return err
		}
	}
	return err
}

var errEnded = errors.New("dockerd ended")

func (d *daemon) launch() error {
	log, err := os.OpenFile(filepath.Join(d.folder, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	// If a dockerd has given its containerd up, and init does not reap orphans, the
	// old containerd still seems to run and dockerd would wait for it.
	_ = os.Remove(filepath.Join(d.folder, "exec/containerd/containerd.pid")) // usually there is none
	command := exec.Command("dockerd", "--config-file", filepath.Join(d.folder, "daemon.json"),
		"--data-root", filepath.Join(d.folder, "data"), "--exec-root", filepath.Join(d.folder, "exec"),
		"-p", filepath.Join(d.folder, "pid"), "-H", "unix://"+d.socket())
	command.Stdout, command.Stderr = log, log
	runtime.LockOSThread() // as in again
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	if err := command.Start(); err != nil {
		return err
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = command.Wait() // how it ended is in its log
	}()
	d.command, d.ended = command, ended
	return nil
}

// answers waits until dockerd answers a request or has ended. dockerd listens
// before it can answer.
func (d *daemon) answers() error {
	client := http.Client{Timeout: patience, Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", d.socket())
	}}}
	defer client.CloseIdleConnections()
	for deadline := time.Now().Add(patience); ; <-time.After(50 * time.Millisecond) {
		if response, err := client.Get("http://docker/info"); err == nil {
			response.Body.Close()
			if response.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case <-d.ended:
			return fmt.Errorf("%w:\n%s", errEnded, d.log())
		default:
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("dockerd does not answer:\n%s", d.log())
		}
	}
}

func (d *daemon) log() []byte {
	text, _ := os.ReadFile(filepath.Join(d.folder, "log")) // what there is of it
	return text[max(0, len(text)-4000):]
}

func (d *daemon) socket() string { return filepath.Join(d.folder, "docker.sock") }

// stop ends the daemon and its containers and removes their files.
func (d *daemon) stop() error {
	if d.command != nil {
		_ = d.command.Process.Signal(syscall.SIGTERM) // it may have ended already
		select {
		case <-d.ended:
		case <-time.After(patience):
			_ = d.command.Process.Kill() // it may have ended just now
			<-d.ended
		}
	}
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(mounts)) {
		if fields := strings.Fields(line); len(fields) > 1 && strings.HasPrefix(fields[1], d.folder+"/") {
			_ = syscall.Unmount(fields[1], syscall.MNT_DETACH) // what stays mounted fails in the next line
		}
	}
	// Processes of a dockerd that was killed may still write while they end.
	eventually(func() bool { err = os.RemoveAll(d.folder); return err == nil })
	return err
}
