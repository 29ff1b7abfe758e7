// Package telemetry is what every process shows of itself, and its life: log
// lines, metrics, health, the operations port, and a stop in named steps.
//
// Each main calls Main with a function that connects and composes. What a
// newcomer would get wrong: the order of Go and OnStop is the order of the
// stop, reversed. What others depend on is started first and so stopped last.
package telemetry

import (
	"context"
	"errors"
	"fmt"
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

// Config is what Main needs to know of the process.
type Config struct {
	Name        string        // ingest, writer, …
	OpsAddr     string        // metrics, health and pprof
	LogLevel    string        // debug, info, warn, error
	LogFormat   string        // auto, text, json
	StopTimeout time.Duration // all steps of a stop together
}

// Process is a running process: its logger, metrics and health, and what is to
// be stopped at its end.
type Process struct {
	Logger   *slog.Logger
	Registry *prometheus.Registry
	Health   *Health

	mu     sync.Mutex
	steps  []step
	failed chan error // one: the first failure ends the process, later ones are logged
}

type step struct {
	name string
	stop func(context.Context) error
}

// Main runs a process until it is told to stop (SIGINT, SIGTERM) or a part of
// it fails, and gives its exit code. A second signal ends it at once.
func Main(cfg Config, compose func(context.Context, *Process) error) int {
	logger, err := NewLogger(os.Stderr, cfg.LogLevel, cfg.LogFormat)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return exitFailure
	}
	ctx, forget := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer forget()
	context.AfterFunc(ctx, forget) // the next signal has its usual effect
	return Run(ctx, cfg, logger.With("service", cfg.Name), compose)
}

// Run is Main without signals: it stops when ctx ends.
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
		err = nil // told to stop before it was up
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
			return nil // a scrape or a profile ends with its process, which is no failure
		}
		return err
	})
	return nil
}

// Go runs a part of the process. It must go on until its context ends; if it
// returns earlier, the process stops. Stopping it is a step of that name.
func (p *Process) Go(name string, run func(context.Context) error) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1) // one: run returns once, whoever listens
	go func() {
		err := run(ctx)
		if ctx.Err() == nil {
			p.fail(name, err)
			err = nil // told by fail
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
		err = errors.New("ended by itself")
	}
	err = fmt.Errorf("%s: %w", name, err)
	select {
	case p.failed <- err:
	default:
		p.Logger.Error("another part failed", "err", err)
	}
}

// OnStop adds a named step to the stop; the last added is done first.
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
		p.Logger.Info("stop asked for")
		return nil
	}
}

// stop does the steps in reverse order under one deadline. Each is tried even
// where an earlier one failed.
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
			p.Logger.Error("step of the stop failed", "step", p.steps[i].name, "elapsed", time.Since(began), "err", err)
			continue
		}
		p.Logger.Info("stopped", "step", p.steps[i].name, "elapsed", time.Since(began))
	}
	p.Logger.Info("process ended")
	return failed
}

// stamp is set by the linker, where the source is built without its history.
var stamp string

// Version is the module's version, or the commit it was built from.
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
