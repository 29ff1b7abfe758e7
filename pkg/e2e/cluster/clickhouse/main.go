// Command clickhouse serves the embedded engine to other machines, as a
// ClickHouse server does: it is what the cluster's tests run in a container
// where no image of ClickHouse can be had.
//
// The engine itself listens on loopback alone, on purpose; this passes
// connections on to it. It is no way to run ClickHouse for anybody.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"

	"github.com/logboom/logboom/pkg/embedded/engine"
)

func main() {
	engine.Main() // does not return in the engine's own process
	ctx, forget := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer forget()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "clickhouse:", err)
		os.Exit(1)
	}
}

// run starts the engine over the folder that ClickHouse's images use, and
// serves until ctx ends.
func run(ctx context.Context) error {
	e, err := engine.Start(ctx, engine.Config{
		Library:  os.Getenv("LOGBOOM_CLICKHOUSE_ENGINE"),
		Digest:   os.Getenv("LOGBOOM_CLICKHOUSE_ENGINE_SHA256"),
		DataDir:  "/var/lib/clickhouse",
		Addr:     "127.0.0.1:8124",
		Password: os.Getenv("CLICKHOUSE_PASSWORD"),
	})
	if err != nil {
		return err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", ":8123")
	if err != nil {
		return errors.Join(err, e.Stop(context.WithoutCancel(ctx)))
	}
	stop := context.AfterFunc(ctx, func() { listener.Close() })
	defer stop()
	serve(ctx, listener, "127.0.0.1:8124")
	return e.Stop(context.WithoutCancel(ctx))
}

// serve passes every connection on, until the listener is closed.
func serve(ctx context.Context, listener net.Listener, to string) {
	var open sync.WaitGroup
	defer open.Wait()
	for {
		client, err := listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "clickhouse: accept:", err)
			continue
		}
		open.Go(func() { pass(ctx, client, to) })
	}
}

// pass copies both ways until either side ends.
func pass(ctx context.Context, client net.Conn, to string) {
	defer client.Close()
	server, err := (&net.Dialer{}).DialContext(ctx, "tcp", to)
	if err != nil {
		fmt.Fprintln(os.Stderr, "clickhouse:", strings.TrimSpace(err.Error()))
		return
	}
	defer server.Close()
	stop := context.AfterFunc(ctx, func() { client.Close(); server.Close() })
	defer stop()
	done := make(chan struct{}, 2) // one for each direction, neither of which waits
	for _, way := range [][2]net.Conn{{server, client}, {client, server}} {
		go func() {
			_, _ = io.Copy(way[0], way[1]) // the end of a connection, however it comes
			done <- struct{}{}
		}()
	}
	<-done
}
