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
	"github.com/logboom/logboom/pkg/embedded/internal/folderlock"
)

// Main runs the engine and does not return if this process was started as the
// engine's child. Otherwise it does nothing. It must be the first call of main
// and of TestMain.
func Main() {
	if os.Getenv(childMode) == "" {
		return
	}
	os.Unsetenv(childMode)
	os.Exit(childMain())
}

// orphanDrain is how long running statements may take to finish after the
// parent is gone, because nothing waits for their answers then.
const orphanDrain = time.Second

// childMain runs the child and returns its exit status. The process then ends
// without C's exit handlers, because they race with the library's threads. The
// engine itself is closed before that.
func childMain() int {
	// The parent decides when the child ends, even if a terminal or a service
	// manager signals both processes.
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
	_ = json.NewEncoder(to).Encode(r) // fails only if the parent is gone
	to.Close()
}

// server is what runs in the child.
type server struct {
	spec     spec
	lock     *folderlock.Lock
	engine   *chdb.Engine
	front    *front.Server
	listener net.Listener
}

// boot reads the spec, locks the folder, verifies the library, moves aside the
// parts that would keep the engine from starting, and starts the engine, in
// this order. It does not serve yet.
func boot(commands *bufio.Reader) (*server, error) {
	s := &server{}
	line, err := commands.ReadBytes('\n')
	if err != nil {
		return nil, fmt.Errorf("read the settings from the parent: %w", err)
	}
	if err := json.Unmarshal(line, &s.spec); err != nil {
		return nil, errors.New("the settings from the parent are not valid JSON")
	}
	socket := os.NewFile(socketFD, "listener")
	if s.listener, err = net.FileListener(socket); err != nil {
		return nil, fmt.Errorf("open the listening socket: %w", err)
	}
	socket.Close()
	if s.lock, err = folderlock.Acquire(s.spec.DataDir, "engine.lock", s.spec.LockTimeout); err != nil {
		return nil, err
	}
	if err := Verify(s.spec.Library, s.spec.Digest); err != nil {
		return nil, err
	}
	moved, err := detachOverlapping(s.spec.DataDir)
	for _, part := range moved {
		fmt.Fprintln(os.Stderr, "moved aside a part that a failed merge left behind; it overlaps another part:", part)
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

// awaitStop waits until the child should end. It returns how long running
// statements may take to finish.
func (s *server) awaitStop(commands *bufio.Reader) time.Duration {
	word, _ := commands.ReadString('\n') // the end of the pipe means that the parent is gone
	if word == stopWord {
		return s.spec.DrainTimeout
	}
	return orphanDrain
}

// shutdown ends the requests, then the engine. The folder's lock ends with the
// process.
func (s *server) shutdown(drain time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), drain)
	defer cancel()
	if err := s.front.Shutdown(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "shut down:", err)
	}
	s.engine.Stop()
}
