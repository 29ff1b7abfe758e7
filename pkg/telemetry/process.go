// Package telemetry runs a process and shows its state: log lines, metrics, health,
// the operations port, and a stop in named steps.
//
// Each main function calls Main with a function that connects and composes the
// process. A newcomer should know that parts stop in the reverse order of Go and
// OnStop: start first what others depend on.
package telemetry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"runtime/debug"
	"sync"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Exit codes of Main.
const (
	exitOK      = 0
	exitFailure = 1
)

// Config describes the process to Main.
type Config struct {
	Name        string        // ingest, writer, …
	OpsAddr     string        // metrics, health and pprof
	LogLevel    string        // debug, info, warn, error
	LogFormat   string        // auto, text, json
	StopTimeout time.Duration // for all steps of a stop together
}

// Process is a running process: its logger, metrics and health, and the steps of its
// stop.
type Process struct {
	Logger   *slog.Logger
	Registry *prometheus.Registry
	Health   *Health

	mu     sync.Mutex
	steps  []step
	failed chan error // one: the first failure ends the process, later failures are logged
}

type step struct {
	name string
	stop func(context.Context) error
}

// Main runs a process until it gets SIGINT or SIGTERM or a part of it fails, and
// returns its exit code. A second signal ends the process at once.
func Main(cfg Config, compose func(context.Context, *Process) error) int {
	logger, err := NewLogger(os.Stderr, cfg.LogLevel, cfg.LogFormat)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return exitFailure
	}
	ctx, forget := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer forget()
	context.AfterFunc(ctx, forget) // the next signal ends the process at once
	return Run(ctx, cfg, logger.With("service", cfg.Name), compose)
}

// Run is Main without signals: the process stops when ctx ends.
func Run(ctx context.Context, cfg Config, logger *slog.Logger, compose func(context.Context, *Process) error) int {
	p := &Process{Logger: logger, Registry: newRegistry(), Health: &Health{}, failed: make(chan error, 1)}
	p.Health.starting.Store(true)
	logger.Info("process started", "version", Version(), "pid", os.Getpid())
	err := p.serveOps(cfg.OpsAddr)
	if err == nil {
		err = compose(ctx, p)
	}
	if err == nil {
		err = p.wait(ctx)
	}
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		err = nil // stopped before it was ready
	}
	if err != nil {
		logger.Error("process failed", "err", err)
	}
	stopErr := p.stop(cfg.StopTimeout)
	if err != nil || stopErr != nil {
		return exitFailure
	}
	return exitOK
}

func (p *Process) serveOps(addr string) error {
	listener, err := opsListen(addr)
	if err != nil {
		return err
	}
	server := &http.Server{Handler: opsHandler(p.Health, p.Registry), ReadHeaderTimeout: 5 * time.Second, IdleTimeout: 2 * time.Minute}
	p.Logger.Info("operations port open", "addr", listener.Addr().String())
	p.Go("operations port", func(ctx context.Context) error {
		err := Serve(ctx, server, listener, time.Second)
		if ctx.Err() != nil && errors.Is(err, context.DeadlineExceeded) {
			return nil // a scrape or a profile that the stop interrupts is not a failure
		}
		return err
	})
	return nil
}

// Go starts a part of the process. run must return only after its context ends; if
// it returns earlier, the process stops. The stop of the part is a step of the same
// name.
func (p *Process) Go(name string, run func(context.Context) error) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1) // one: run returns once, even if no step waits for it
	go func() {
		err := run(ctx)
		if ctx.Err() == nil {
			p.fail(name, err)
			err = nil // fail reports it
		}
		done <- err
	}()
	p.OnStop(name, func(deadline context.Context) error {
		cancel()
		select {
		case err := <-done:
			if errors.Is(err, context.Canceled) {
				return nil
			}
			return err
		case <-deadline.Done():
			return deadline.Err()
		}
	})
}

func (p *Process) fail(name string, err error) {
	if err == nil {
		err = errors.New("returned before its stop")
	}
	err = fmt.Errorf("%s: %w", name, err)
	select {
	case p.failed <- err:
	default:
		p.Logger.Error("another part failed", "err", err)
	}
}

// OnStop adds a named step to the stop. The step that was added last runs first.
func (p *Process) OnStop(name string, stop func(context.Context) error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.steps = append(p.steps, step{name, stop})
}

func (p *Process) wait(ctx context.Context) error {
	p.Health.starting.Store(false)
	p.Logger.Info("process ready")
	select {
	case err := <-p.failed:
		return err
	case <-ctx.Done():
		p.Logger.Info("stop requested")
		return nil
	}
}

// stop runs the steps in reverse order within one timeout. Each step runs even if an
// earlier one failed.
func (p *Process) stop(timeout time.Duration) error {
	p.Health.Drain()
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	var failed error
	for i := len(p.steps) - 1; i >= 0; i-- {
		began := time.Now()
		err := p.steps[i].stop(ctx)
		failed = errors.Join(failed, err)
		if err != nil {
			p.Logger.Error("stop step failed", "step", p.steps[i].name, "elapsed", time.Since(began), "err", err)
			continue
		}
		p.Logger.Info("stopped", "step", p.steps[i].name, "elapsed", time.Since(began))
	}
	p.Logger.Info("process ended")
	return failed
}

// stamp is set by the linker if the source is built without its history.
var stamp string

// Version returns the version of the module, or the commit that it was built from.
func Version() string {
	if stamp != "" {
		return stamp
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	for _, setting := range info.Settings {
		if setting.Key == "vcs.revision" {
			return setting.Value[:min(12, len(setting.Value))]
		}
	}
	return info.Main.Version
}

// NewLogger returns a logger that writes lines of at least the level (debug, info,
// warn, error) to w. The format is text, json or auto, which is text on a terminal.
func NewLogger(w io.Writer, level, format string) (*slog.Logger, error) {
	var least slog.Level
	if err := least.UnmarshalText([]byte(level)); err != nil {
		return nil, fmt.Errorf("log level %q: %w", level, err)
	}
	options := &slog.HandlerOptions{Level: least}
	if format == "text" || format == "auto" && isTerminal(w) {
		return slog.New(slog.NewTextHandler(w, options)), nil
	}
	return slog.New(slog.NewJSONHandler(w, options)), nil
}

func isTerminal(w io.Writer) bool {
	file, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
