// Package embedded runs the queue, a NATS server with JetStream, inside this
// process: for the standalone program and for tests.
//
// The services connect to it as they would to a cluster. JetStream by default
// syncs its files every two minutes. This server syncs every message before it
// acknowledges it, because the rest of Logboom relies on that.
package embedded

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/logboom/logboom/pkg/embedded/internal/folderlock"
)

const (
	defaultHost       = "127.0.0.1"
	defaultMaxPayload = 8 << 20
	minStore          = 64 << 20
	// Consumers keep their state in memory. A hundred of them need far less.
	maxMemory = 256 << 20
	// The server listens before Start returns, so only a fault takes this long.
	readyTimeout = 5 * time.Second
	// If this process is paused for a while, both ends of its own connection are
	// late. With the default of 2 s the server would then refuse its own process.
	authTimeout = 30 * time.Second
)

// errNotRunning is returned after Stop, and after a Restart that failed.
var errNotRunning = errors.New("embedded queue: the server is not running")

// NATSConfig configures the server.
type NATSConfig struct {
	// DataDir is the folder of JetStream's files. It is created if it is missing
	// and is locked while the server runs.
	DataDir string
	// Host is the address to listen on. Default 127.0.0.1.
	Host string
	// Port to listen on; 0 chooses a free one.
	Port int
	// MaxPayload is the largest message in bytes. Default 8 MiB.
	MaxPayload int
	// MaxStore limits what JetStream stores, in bytes. Default 70 % of the
	// capacity of DataDir's volume. A full store only refuses messages, but a
	// full volume stops the server until it is restarted.
	MaxStore int64
	// Token is the password of connections. Default: random for each run.
	Token string
	// Logger receives the server's own log lines. Default: they are discarded.
	Logger *slog.Logger
}

func (c *NATSConfig) setDefaults() error {
	if c.Host == "" {
		c.Host = defaultHost
	}
	if c.MaxPayload == 0 {
		c.MaxPayload = defaultMaxPayload
	}
	if c.Token == "" {
		c.Token = rand.Text()
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.MaxStore == 0 {
		volume, err := VolumeOf(c.DataDir)
		if err != nil {
			return fmt.Errorf("data folder: %w", err)
		}
		c.MaxStore = volume.Total / 10 * 7
	}
	return nil
}

// Validate returns an error that names the first invalid field.
func (c NATSConfig) Validate() error {
	switch {
	case c.DataDir == "":
		return errors.New("setting DataDir is empty: give the queue a folder to store in")
	case c.Port < 0 || c.Port > 65535:
		return fmt.Errorf("setting Port is %d: give 0 to 65535", c.Port)
	case c.MaxPayload < 0 || c.MaxPayload > server.MAX_PAYLOAD_MAX_SIZE:
		return fmt.Errorf("setting MaxPayload is %d: give up to %d bytes", c.MaxPayload, server.MAX_PAYLOAD_MAX_SIZE)
	case c.MaxStore < 0 || c.MaxStore > 0 && c.MaxStore < minStore:
		return fmt.Errorf("setting MaxStore is %d: give at least %d bytes, or 0 for 70 %% of the volume", c.MaxStore, minStore)
	}
	return nil
}

// NATS is a running server. Stop it before the process ends.
type NATS struct {
	cfg     NATSConfig // with defaults, and with the port that was chosen
	addr    string
	lock    *folderlock.Lock
	running atomic.Pointer[instance]
	turn    chan struct{} // capacity 1: only the holder of its token starts or stops the server
	stop    func()
	stopped chan struct{} // closed when the server has stopped for good

	restarts atomic.Uint64
}

// instance is one run of the server, from its start to its stop.
type instance struct {
	srv   *server.Server
	lines *serverLog
}

// StartNATS starts the server and returns when it accepts connections. Before
// that the server reads what DataDir holds. This cannot be interrupted: if ctx
// ends meanwhile, StartNATS finishes reading and returns an error. After
// StartNATS has returned, ctx has no effect.
func StartNATS(ctx context.Context, cfg NATSConfig) (*NATS, error) {
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("embedded queue: %w", err)
	}
	if err := os.MkdirAll(cfg.DataDir, 0o700); err != nil {
		return nil, fmt.Errorf("embedded queue: data folder: %w", err)
	}
	if err := cfg.setDefaults(); err != nil {
		return nil, fmt.Errorf("embedded queue: %w", err)
	}
	lock, err := folderlock.Acquire(cfg.DataDir, "queue.lock", 0)
	if err != nil {
		return nil, fmt.Errorf("embedded queue: %w", err)
	}
	first, err := startServer(ctx, cfg)
	if err != nil {
		lock.Release()
		return nil, fmt.Errorf("embedded queue: %w", err)
	}
	return newNATS(first, cfg, lock), nil
}

// startServer starts a server, unless ctx ends first. After an error nothing of
// the server is left running.
func startServer(ctx context.Context, cfg NATSConfig) (*instance, error) {
	srv, err := server.NewServer(options(cfg))
	if err != nil {
		return nil, err
	}
	i := &instance{srv: srv, lines: &serverLog{to: cfg.Logger}}
	srv.SetLoggerV2(i.lines, false, false, false)
	srv.Start() // returns once it listens; a shutdown before that would race with it
	if err = context.Cause(ctx); err == nil {
		err = i.ready()
	}
	if err != nil {
		i.shutdown()
		return nil, fmt.Errorf("start: %w", err)
	}
	return i, nil
}

// ready returns an error if the started server does not work.
func (i *instance) ready() error {
	if fatal := i.lines.fatal(); fatal != "" {
		return errors.New(fatal)
	}
	if !i.srv.ReadyForConnections(readyTimeout) || !i.srv.JetStreamEnabled() {
		return errors.New("the server does not accept connections; its log lines say why")
	}
	return nil
}

// shutdown stops the server and waits until it has stopped.
func (i *instance) shutdown() {
	i.srv.Shutdown()
	i.srv.WaitForShutdown()
}

func newNATS(first *instance, cfg NATSConfig, lock *folderlock.Lock) *NATS {
	n := &NATS{cfg: cfg, lock: lock, turn: make(chan struct{}, 1), stopped: make(chan struct{})}
	if addr, ok := first.srv.Addr().(*net.TCPAddr); ok {
		n.cfg.Port = addr.Port
		n.addr = net.JoinHostPort(addr.IP.String(), strconv.Itoa(addr.Port))
	}
	n.running.Store(first)
	n.turn <- struct{}{}
	n.stop = sync.OnceFunc(func() { go n.end() })
	return n
}

// end stops the server for good. It keeps the turn, so no Restart follows.
func (n *NATS) end() {
	defer close(n.stopped)
	<-n.turn
	if last := n.running.Swap(nil); last != nil {
		last.shutdown()
	}
	n.lock.Release()
}

func options(cfg NATSConfig) *server.Options {
	port := cfg.Port
	if port == 0 {
		port = server.RANDOM_PORT
	}
	return &server.Options{
		ServerName:             "logboom",
		Host:                   cfg.Host,
		Port:                   port,
		Authorization:          cfg.Token,
		AuthTimeout:            authTimeout.Seconds(),
		MaxPayload:             int32(cfg.MaxPayload),
		JetStream:              true,
		StoreDir:               cfg.DataDir,
		SyncAlways:             true,
		JetStreamMaxStore:      cfg.MaxStore,
		JetStreamMaxMemory:     maxMemory,
		DisableJetStreamBanner: true,
		NoSigs:                 true, // this process handles its signals itself
	}
}

// URL is the address to connect to. It contains the token: never log it.
func (n *NATS) URL() string {
	u := url.URL{Scheme: "nats", User: url.User(n.cfg.Token), Host: n.addr}
	return u.String()
}

// Addr is the host and port that the server listens on.
func (n *NATS) Addr() string { return n.addr }

// Port is the port that the server listens on.
func (n *NATS) Port() int { return n.cfg.Port }

// MaxStore is the limit of what JetStream stores, in bytes. The limits of all
// streams together must not exceed it.
func (n *NATS) MaxStore() int64 { return n.cfg.MaxStore }

// InProcess is an option that makes a connection to URL use memory instead of a
// socket, also after a Restart.
func (n *NATS) InProcess() nats.Option { return nats.InProcessServer(n) }

// InProcessConn connects to the server that runs now. It serves InProcess.
func (n *NATS) InProcessConn() (net.Conn, error) {
	current := n.running.Load()
	if current == nil {
		return nil, errNotRunning
	}
	return current.srv.InProcessConn()
}

// Restart stops the server and starts it again with the same folder, port and
// token, so that clients reconnect by themselves. A stream whose file could not
// be written works again after it. Nothing that was acknowledged is lost. After
// an error the server may not be running; Restart may then be called again.
func (n *NATS) Restart(ctx context.Context) error {
	select {
	case <-n.turn:
	case <-n.stopped:
		return errNotRunning
	case <-ctx.Done():
		return fmt.Errorf("embedded queue: restart: %w", context.Cause(ctx))
	}
	defer func() { n.turn <- struct{}{} }()
	if before := n.running.Swap(nil); before != nil {
		before.shutdown()
	}
	next, err := startServer(ctx, n.cfg)
	if err != nil {
		return fmt.Errorf("embedded queue: restart: %w", err)
	}
	n.running.Store(next)
	n.restarts.Add(1)
	return nil
}

// Restarts counts the restarts that succeeded.
func (n *NATS) Restarts() uint64 { return n.restarts.Load() }

// stuck reports whether the server is not running, or has logged that it could
// not write a stream's file.
func (n *NATS) stuck() bool {
	current := n.running.Load()
	return current == nil || current.lines.stuck.Load()
}

// Stop closes all connections, syncs the files and stops the server. It may be
// called more than once. If ctx ends first, Stop returns an error and the server
// still stops.
func (n *NATS) Stop(ctx context.Context) error {
	n.stop()
	select {
	case <-n.stopped:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("embedded queue: still stopping: %w", context.Cause(ctx))
	}
}
