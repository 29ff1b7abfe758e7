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
)

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
		capacity, err := volumeCapacity(c.DataDir)
		if err != nil {
			return fmt.Errorf("data folder %q: capacity of its volume: %w", c.DataDir, err)
		}
		c.MaxStore = capacity / 10 * 7
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
	srv      *server.Server
	lock     *folderLock
	token    string
	maxStore int64
	stop     func()
	stopped  chan struct{} // closed when nothing of the server runs any more
}

// StartNATS starts the server and returns when it takes connections, which
// includes reading back what DataDir holds. ctx bounds the start only.
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
	n, err := launch(ctx, cfg, lock)
	if err != nil {
		lock.release()
		return nil, fmt.Errorf("embedded queue: %w", err)
	}
	return n, nil
}

func launch(ctx context.Context, cfg NATSConfig, lock *folderLock) (*NATS, error) {
	srv, err := server.NewServer(options(cfg))
	if err != nil {
		return nil, err
	}
	lines := &serverLog{to: cfg.Logger}
	srv.SetLoggerV2(lines, false, false, false)
	n := newNATS(srv, cfg, lock)

	started := make(chan struct{})
	go func() {
		srv.Start()
		close(started)
	}()
	select {
	case <-started:
	case <-ctx.Done():
		n.abandon(started)
		return nil, fmt.Errorf("start: %w", context.Cause(ctx))
	}
	if fatal := lines.fatal(); fatal != "" {
		n.abandon(started)
		return nil, fmt.Errorf("start: %s", fatal)
	}
	if !srv.ReadyForConnections(readyTimeout) || !srv.JetStreamEnabled() {
		n.abandon(started)
		return nil, errors.New("start: the server does not take connections; its log lines say why")
	}
	return n, nil
}

func newNATS(srv *server.Server, cfg NATSConfig, lock *folderLock) *NATS {
	n := &NATS{srv: srv, lock: lock, token: cfg.Token, maxStore: cfg.MaxStore, stopped: make(chan struct{})}
	n.stop = sync.OnceFunc(func() {
		go func() {
			defer close(n.stopped)
			srv.Shutdown()
			srv.WaitForShutdown()
			lock.release()
		}()
	})
	return n
}

// abandon ends a server that did not come up, and waits: its folder must be
// free when StartNATS returns.
func (n *NATS) abandon(started <-chan struct{}) {
	n.stop()
	<-started
	<-n.stopped
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
	u := url.URL{Scheme: "nats", User: url.User(n.token), Host: n.Addr()}
	return u.String()
}

// Addr is the host and port that the server listens on.
func (n *NATS) Addr() string {
	switch addr := n.srv.Addr().(type) {
	case *net.TCPAddr:
		return net.JoinHostPort(addr.IP.String(), strconv.Itoa(addr.Port))
	default:
		return ""
	}
}

// Port is the port that the server listens on.
func (n *NATS) Port() int {
	if addr, ok := n.srv.Addr().(*net.TCPAddr); ok {
		return addr.Port
	}
	return 0
}

// MaxStore is the most that JetStream stores, in bytes: what the streams'
// limits may add up to.
func (n *NATS) MaxStore() int64 { return n.maxStore }

// InProcess makes a connection to URL go through memory in place of a socket.
func (n *NATS) InProcess() nats.Option { return nats.InProcessServer(n.srv) }

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
