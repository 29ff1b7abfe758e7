// Command clickhouse serves the embedded engine to other machines. The cluster's
// tests run it in a container if no image of ClickHouse is available.
//
// The engine itself listens only on loopback. This command forwards connections to
// it. It is for tests only.
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

// run starts the engine with the data folder of ClickHouse's images and serves until
// ctx ends.
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

// serve forwards all connections until the listener is closed.
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
		open.Go(func() { forward(ctx, client, to) })
	}
}

// forward copies in both directions until either side ends.
func forward(ctx context.Context, client net.Conn, to string) {
	defer client.Close()
	server, err := (&net.Dialer{}).DialContext(ctx, "tcp", to)
	if err != nil {
		fmt.Fprintln(os.Stderr, "clickhouse:", strings.TrimSpace(err.Error()))
		return
	}
	defer server.Close()
	stop := context.AfterFunc(ctx, func() { client.Close(); server.Close() })
	defer stop()
	done := make(chan struct{}, 2) // capacity 2: one for each direction, so neither blocks
	for _, way := range [][2]net.Conn{{server, client}, {client, server}} {
		go func() {
			_, _ = io.Copy(way[0], way[1]) // any error ends the connection
			done <- struct{}{}
		}()
	}
	<-done
}
