package engine

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/logboom/logboom/pkg/embedded/engine/internal/chdb"
	"github.com/logboom/logboom/pkg/embedded/engine/internal/front"
)

// Main turns this process into the engine when it was started as its child; it
// does not return then. Otherwise it does nothing. It must be the first call
// of main and of TestMain.
func Main() {
	if os.Getenv(childMode) == "" {
		return
	}
	os.Unsetenv(childMode)
	os.Exit(childMain())
}

// orphanDrain is how long statements may finish once nobody waits for them.
const orphanDrain = time.Second

// childMain is the child's life; it returns the exit status. The process then
// ends without C's own exit handlers, which race the library's threads; the
// engine itself is closed before.
func childMain() int {
	// The parent decides when the child ends, also when a terminal or a service
	// manager signals both.
	signal.Ignore(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	control, reports := os.NewFile(controlFD, "control"), os.NewFile(reportFD, "report")
	commands := bufio.NewReader(control)
	s, err := boot(commands)
	if err != nil {
		sendReport(reports, report{Failure: err.Error()})
		return 1
	}
	served := make(chan error, 1) // capacity 1: its sender never waits
	go func() { served <- s.front.Serve(s.listener) }()
	sendReport(reports, report{})
	stopped := make(chan time.Duration, 1) // capacity 1: as above
	go func() { stopped <- s.awaitStop(commands) }()
	select {
	case err := <-served:
		fmt.Fprintln(os.Stderr, "serve:", err)
		return 1
	case drain := <-stopped:
		s.shutdown(drain)
		return 0
	}
}

func sendReport(to *os.File, r report) {
	_ = json.NewEncoder(to).Encode(r) // a parent that is gone needs none
	to.Close()
}

// server is what runs in the child.
type server struct {
	spec     spec
	lock     *os.File
	engine   *chdb.Engine
	front    *front.Server
	listener net.Listener
}

// boot reads the spec and starts everything but the serving: lock, verify, put
// aside what would keep the engine from starting, load, start, in this order.
func boot(commands *bufio.Reader) (*server, error) {
	s := &server{}
	line, err := commands.ReadBytes('\n')
	if err != nil {
		return nil, fmt.Errorf("read the parent's orders: %w", err)
	}
	if err := json.Unmarshal(line, &s.spec); err != nil {
		return nil, errors.New("the parent's orders are malformed")
	}
	socket := os.NewFile(socketFD, "listener")
	if s.listener, err = net.FileListener(socket); err != nil {
		return nil, fmt.Errorf("take over the socket: %w", err)
	}
	socket.Close()
	if s.lock, err = lockFolder(s.spec.DataDir, s.spec.LockTimeout); err != nil {
		return nil, err
	}
	if err := Verify(s.spec.Library, s.spec.Digest); err != nil {
		return nil, err
	}
	aside, err := setClashingAside(s.spec.DataDir)
	for _, part := range aside {
		fmt.Fprintln(os.Stderr, "part put aside, it overlaps another as a failed merge leaves it:", part)
	}
	if err != nil {
		return nil, err
	}
	if s.engine, err = startEngine(s.spec); err != nil {
		return nil, err
	}
	s.front = front.New(s.engine, front.Config{
		Password:     s.spec.Password,
		Statements:   s.spec.Statements,
		MaxBodyBytes: s.spec.MaxBodyBytes,
		Logger:       slog.New(slog.NewTextHandler(os.Stderr, nil)),
	})
	return s, nil
}

func startEngine(s spec) (*chdb.Engine, error) {
	args, err := engineArgs(s)
	if err != nil {
		return nil, err
	}
	library, err := chdb.Load(s.Library)
	if err != nil {
		return nil, err
	}
	return library.Start(args)
}

// awaitStop returns when the child is to end, with the time that running
// statements have.
func (s *server) awaitStop(commands *bufio.Reader) time.Duration {
	word, _ := commands.ReadString('\n') // its end without a word is an answer too
	if word == stopWord {
		return s.spec.DrainTimeout
	}
	return orphanDrain
}

// shutdown ends the requests, then the engine. The lock goes with the process.
func (s *server) shutdown(drain time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), drain)
	defer cancel()
	if err := s.front.Shutdown(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "shut down:", err)
	}
	s.engine.Stop()
}
