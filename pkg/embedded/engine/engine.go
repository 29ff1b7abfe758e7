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

// Engine is a running ClickHouse in a child process, kept running.
type Engine struct {
	config Config
	addr   string
	socket *os.File // the listening socket, handed to each child in turn

	pid  atomic.Int64
	stop context.CancelFunc // asks for an orderly end
	kill context.CancelFunc // asks for the end at once
	done chan struct{}      // closed when nothing of the engine is left
}

// Start starts the engine and waits until it answers. The context bounds the
// start alone; the engine runs until Stop.
func Start(ctx context.Context, config Config) (*Engine, error) {
	if os.Getenv(childMode) != "" {
		return nil, errors.New("start the engine: this process is to be the engine's child, but its main does not call engine.Main first")
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

// URL is where clickhouse-go finds the engine, password included: do not log
// it. It stays the same for the engine's life.
func (e *Engine) URL() string {
	u := url.URL{Scheme: "http", User: url.UserPassword("default", e.config.Password), Host: e.addr, Path: "/default"}
	return u.String()
}

// PID is the child's process, or 0 while there is none. It is there for tests
// that kill it.
func (e *Engine) PID() int { return int(e.pid.Load()) }

// Stop ends the engine: no new statements, the running ones finish, the data
// is closed, the child ends. When ctx ends first, the child is killed, which
// loses nothing that was answered.
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

// steady is how long a child must have run for the next restart to come at once.
const steady = time.Minute

// supervise owns the children, one after the other, until Stop.
func (e *Engine) supervise(stopping, killing context.Context, c *child) {
	defer close(e.done)
	defer e.socket.Close()
	wait := backoff.NewExponentialBackOff()
	wait.InitialInterval, wait.MaxInterval = 50*time.Millisecond, 5*time.Second
	for c != nil {
		select {
		case <-stopping.Done():
			e.end(killing, c)
			return
		case <-c.exited:
		}
		e.pid.Store(0)
		e.config.Logger.Error("engine process ended by itself", "err", c.err, "elapsed", time.Since(c.started))
		if time.Since(c.started) > steady {
			wait.Reset()
		}
		c = e.respawn(stopping, wait)
	}
}

// respawn tries until a child is up, and returns nil when Stop comes first.
func (e *Engine) respawn(stopping context.Context, wait backoff.BackOff) *child {
	for attempt := 1; ; attempt++ {
		select {
		case <-stopping.Done():
			return nil
		case <-time.After(wait.NextBackOff()):
		}
		c, err := e.spawn(stopping)
		if err == nil {
			e.config.Logger.Info("engine process restarted", "attempt", attempt, "elapsed", time.Since(c.started))
			return c
		}
		e.config.Logger.Error("engine process not restarted", "err", err, "attempt", attempt)
	}
}

// end stops a child in order, or at once when Stop lost patience.
func (e *Engine) end(killing context.Context, c *child) {
	c.askToStop()
	select {
	case <-c.exited:
	case <-killing.Done():
		c.destroy()
	}
	e.pid.Store(0)
	if c.err != nil {
		e.config.Logger.Warn("engine process ended in disorder", "err", c.err)
	}
}
