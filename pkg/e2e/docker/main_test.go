package docker

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// shared is used by all tests, one after the other.
type shared struct {
	folder  string // of all files, removed at the end
	engine  *engine
	logboom *logboom
}

// world is set by TestMain. It is nil if its creation failed, for the reason in why.
var (
	world *shared
	why   error
)

func TestMain(m *testing.M) {
	folder, err := os.MkdirTemp("", "lb-docker-") // short, because the path of a socket may have only 108 bytes
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	world, why = newWorld(folder)
	code := m.Run()
	if world != nil {
		world.logboom.stop()
		world.engine.remove()
	}
	if err := clean(folder); err != nil {
		fmt.Fprintln(os.Stderr, "not cleaned up:", err)
		code = 1
	}
	os.Exit(code)
}

// clean removes the folder. It retries while ending processes still write to it.
func clean(folder string) (err error) {
	for deadline := time.Now().Add(patience); ; <-time.After(100 * time.Millisecond) {
		if err = os.RemoveAll(folder); err == nil || time.Now().After(deadline) {
			return err
		}
	}
}

// newWorld builds and starts what the tests need.
func newWorld(folder string) (*shared, error) {
	if os.Getuid() != 0 {
		return nil, fmt.Errorf("these tests start a Docker Engine of their own, which only root may: sudo go test ./pkg/e2e/docker")
	}
	for _, program := range []string{"dockerd", "docker"} {
		if _, err := exec.LookPath(program); err != nil {
			return nil, fmt.Errorf("%w: install Docker's engine (Debian: apt-get install --no-install-recommends docker.io)", err)
		}
	}
	if err := build(folder); err != nil {
		return nil, err
	}
	engine, err := newEngine(folder)
	if err != nil {
		return nil, err
	}
	boom, err := newLogboom(folder)
	if err != nil {
		engine.remove()
		return nil, err
	}
	return &shared{folder, engine, boom}, nil
}

// build builds the plugin as make does, Logboom as the other tests do, and the
// containers' program without libraries.
func build(folder string) error {
	root, err := filepath.Abs("../../..")
	if err != nil {
		return err
	}
	chatty := exec.Command("go", "build", "-ldflags=-s -w", "-o", filepath.Join(folder, "chatty"), "./chatty")
	chatty.Env = append(os.Environ(), "CGO_ENABLED=0")
	for _, command := range []*exec.Cmd{
		exec.Command("make", "-C", root, "plugin", "BIN="+folder),
		exec.Command("go", "build", "-o", filepath.Join(folder, "standalone"), "github.com/logboom/logboom/cmd/standalone"),
		chatty,
	} {
		if out, err := command.CombinedOutput(); err != nil {
			return fmt.Errorf("build: %w: %s", err, out)
		}
	}
	return nil
}

// need fails a test that cannot run.
func need(t *testing.T) *shared {
	t.Helper()
	if why != nil {
		t.Fatalf("no Docker Engine to test with: %v", why)
	}
	return world
}
