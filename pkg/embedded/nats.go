// Package embedded runs the queue, a NATS server with JetStream, inside this
// process: for the standalone program and for tests.
//
// It sits beside the services, never between them: they connect to it as they
// would to a cluster. A newcomer's usual mistake is to keep JetStream's own
// default of syncing every two minutes; here every acknowledged message is on
// disk before its acknowledgement, because the rest of the system relies on
// exactly that.
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
)

const (
	defaultHost       = "127.0.0.1"
	defaultMaxPayload = 8 << 20
	minStore          = 64 << 20
	// Consumers keep their state in memory; this is far above what a hundred
	// of them take.
	maxMemory = 256 << 20
	// The server listens before Start returns, so this only bounds a fault.
	readyTimeout = 5 * time.Second
	// A process that stands still for a while comes late to both of its ends of
	// a connection: the default of 2 s would have it refuse itself.
	authTimeout = 30 * time.Second
)

// errNotRunning: the server is stopped, or a Restart did not bring it back.
var errNotRunning = errors.New("embedded queue: the server does not run")

// NATSConfig says how the server of this process runs.
type NATSConfig struct {
	// DataDir is the folder that JetStream stores in. It is made when missing
	// and belongs to one server at a time.
	DataDir string
	// Host is the address to listen on. Default 127.0.0.1.
	Host string
	// Port to listen on; 0 takes a free one.
	Port int
	// MaxPayload is the largest message in bytes. Default 8 MiB.
	MaxPayload int
	// MaxStore is the most that JetStream may store, in bytes. Default 70 % of
	// the capacity of DataDir's volume: a full volume stops the server for
	// good, a full store only refuses messages.
	MaxStore int64
	// Token is what a connection must present. Default: random, of this run.
	Token string
	// Logger takes the server's own lines. Default: none are kept.
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

// Validate names the first setting that cannot work.
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
	cfg     NATSConfig // complete, with the port that was taken
	addr    string
	lock    *folderLock
	running atomic.Pointer[instance]
	turn    chan struct{} // one: whoever holds its token starts or stops the server
	stop    func()
	stopped chan struct{} // closed when nothing of the server runs any more

	restarts atomic.Uint64
}

// instance is a server from its start to its stop.
type instance struct {
	srv   *server.Server
	lines *serverLog
}

// StartNATS starts the server and returns when it takes connections, which
// includes reading back what DataDir holds: that is not cut short, and a ctx
// that ends meanwhile only makes it an error. Later ctx does not matter.
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
	lock, err := lockFolder(cfg.DataDir)
	if err != nil {
		return nil, fmt.Errorf("embedded queue: %w", err)
	}
	first, err := launch(ctx, cfg)
	if err != nil {
		lock.release()
		return nil, fmt.Errorf("embedded queue: %w", err)
	}
	return newNATS(first, cfg, lock), nil
}

// launch starts a server, unless ctx ends first. Where that fails, nothing of
// it is left. The server cannot be stopped while it reads its store back.
func launch(ctx context.Context, cfg NATSConfig) (*instance, error) {
	srv, err := server.NewServer(options(cfg))
	if err != nil {
		return nil, err
	}
	i := &instance{srv: srv, lines: &serverLog{to: cfg.Logger}}
	srv.SetLoggerV2(i.lines, false, false, false)
	srv.Start() // returns once it listens; a shutdown beside it would race with it
	if err = context.Cause(ctx); err == nil {
		err = i.ready()
	}
	if err != nil {
		i.shutdown()
		return nil, fmt.Errorf("start: %w", err)
	}
	return i, nil
}

// ready tells why a started server is of no use.
func (i *instance) ready() error {
	if fatal := i.lines.fatal(); fatal != "" {
		return errors.New(fatal)
	}
	if !i.srv.ReadyForConnections(readyTimeout) || !i.srv.JetStreamEnabled() {
		return errors.New("the server does not take connections; its log lines say why")
	}
	return nil
}

// shutdown ends the server and waits until nothing of it runs any more.
func (i *instance) shutdown() {
	i.srv.Shutdown()
	i.srv.WaitForShutdown()
}

func newNATS(first *instance, cfg NATSConfig, lock *folderLock) *NATS {
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

// end stops the server for good: it never gives its turn back.
func (n *NATS) end() {
	defer close(n.stopped)
	<-n.turn
	if last := n.running.Swap(nil); last != nil {
		last.shutdown()
	}
	n.lock.release()
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
		NoSigs:                 true, // Go's own handlers decide when this process ends
	}
}

// URL is the address to connect to, with the token in it: never log it.
func (n *NATS) URL() string {
	u := url.URL{Scheme: "nats", User: url.User(n.cfg.Token), Host: n.addr}
	return u.String()
}

// Addr is the host and port that the server listens on.
func (n *NATS) Addr() string { return n.addr }

// Port is the port that the server listens on.
func (n *NATS) Port() int { return n.cfg.Port }

// MaxStore is the most that JetStream stores, in bytes: what the streams'
// limits may add up to.
func (n *NATS) MaxStore() int64 { return n.cfg.MaxStore }

// InProcess makes a connection to URL go through memory in place of a socket,
// also after a Restart.
func (n *NATS) InProcess() nats.Option { return nats.InProcessServer(n) }

// InProcessConn is for InProcess: a connection to the server that runs now.
func (n *NATS) InProcessConn() (net.Conn, error) {
	now := n.running.Load()
	if now == nil {
		return nil, errNotRunning
	}
	return now.srv.InProcessConn()
}

// Stop ends the server: connections are closed and files are synced. It may
// be called more than once; when ctx ends first the server still stops.
func (n *NATS) Stop(ctx context.Context) error {
	n.stop()
	select {
	case <-n.stopped:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("embedded queue: still stopping: %w", context.Cause(ctx))
	}
}
