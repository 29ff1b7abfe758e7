package engine

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v5"
)

// Engine is ClickHouse in a child process, which is restarted when it ends.
type Engine struct {
	config Config
	addr   string
	socket *os.File // the listening socket; each child inherits it

	pid  atomic.Int64
	stop context.CancelFunc // ends the child in order
	kill context.CancelFunc // kills the child
	done chan struct{}      // closed when the engine has stopped
}

// Start starts the engine and waits until it answers. ctx bounds only the start;
// the engine runs until Stop.
func Start(ctx context.Context, config Config) (*Engine, error) {
	if os.Getenv(childMode) != "" {
		return nil, errors.New("start the engine: this process was started as the engine's child, but its main does not call engine.Main first")
	}
	config, err := config.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("start the engine: %w", err)
	}
	if err := config.makeDataDir(); err != nil {
		return nil, fmt.Errorf("start the engine: %w", err)
	}
	e, err := listen(config)
	if err != nil {
		return nil, fmt.Errorf("start the engine: %w", err)
	}
	first, err := e.spawn(ctx)
	if err != nil {
		e.socket.Close()
		return nil, fmt.Errorf("start the engine: %w", err)
	}
	stopping, stop := context.WithCancel(context.Background())
	killing, kill := context.WithCancel(context.Background())
	e.stop, e.kill = stop, kill
	go e.supervise(stopping, killing, first)
	return e, nil
}

func listen(config Config) (*Engine, error) {
	listener, err := net.Listen("tcp", config.Addr)
	if err != nil {
		return nil, fmt.Errorf("address %q: %w", config.Addr, err)
	}
	defer listener.Close() // socket is a duplicate and stays open
	socket, err := listener.(*net.TCPListener).File()
	if err != nil {
		return nil, fmt.Errorf("address %q: %w", config.Addr, err)
	}
	return &Engine{
		config: config,
		addr:   listener.Addr().String(),
		socket: socket,
		done:   make(chan struct{}),
	}, nil
}

// URL is the engine's address for clickhouse-go. It contains the password: do
// not log it. It does not change while the engine runs.
func (e *Engine) URL() string {
	u := url.URL{Scheme: "http", User: url.UserPassword("default", e.config.Password), Host: e.addr, Path: "/default"}
	return u.String()
}

// PID is the child's process ID, or 0 while there is no child.
func (e *Engine) PID() int { return int(e.pid.Load()) }

// Stop accepts no new statements, waits for the running ones, closes the data
// and ends the child. If ctx ends first, the child is killed; rows whose insert
// was answered are not lost by that.
func (e *Engine) Stop(ctx context.Context) error {
	e.stop()
	select {
	case <-e.done:
		return nil
	case <-ctx.Done():
	}
	e.kill()
	<-e.done
	return fmt.Errorf("stop the engine: killed: %w", context.Cause(ctx))
}

// stableAfter is how long a child must have run for its restart to begin without
// a pause.
const stableAfter = time.Minute

// supervise restarts the child whenever it ends, until Stop.
func (e *Engine) supervise(stopping, killing context.Context, c *child) {
	defer close(e.done)
	defer e.socket.Close()
	wait := backoff.NewExponentialBackOff()
	wait.InitialInterval, wait.MaxInterval = 50*time.Millisecond, 5*time.Second
	for c != nil {
		select {
		case <-stopping.Done():
			e.endChild(killing, c)
			return
		case <-c.exited:
		}
		e.pid.Store(0)
		e.config.Logger.Error("engine process ended unexpectedly", "err", c.err, "elapsed", time.Since(c.started))
		if time.Since(c.started) > stableAfter {
			wait.Reset()
		}
		c = e.respawn(stopping, wait)
	}
}

// respawn starts a child and retries until one answers. It returns nil if Stop
// is called first.
func (e *Engine) respawn(stopping context.Context, wait backoff.BackOff) *child {
	for attempt := 1; ; attempt++ {
		select {
		case <-stopping.Done():
			return nil
		case <-time.After(wait.NextBackOff()):
		}
		c, err := e.spawn(stopping)
		if err == nil {
			e.config.Logger.Info("engine process restarted", "pid", e.PID(), "attempt", attempt, "elapsed", time.Since(c.started))
			return c
		}
		e.config.Logger.Error("engine process not restarted", "err", err, "attempt", attempt)
	}
}

// endChild ends a child in order, or kills it when killing ends.
func (e *Engine) endChild(killing context.Context, c *child) {
	c.askToStop()
	select {
	case <-c.exited:
	case <-killing.Done():
		c.destroy()
	}
	e.pid.Store(0)
	if c.err != nil {
		e.config.Logger.Warn("engine process ended with an error", "err", c.err)
	}
}
