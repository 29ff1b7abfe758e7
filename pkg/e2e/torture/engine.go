//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/logboom/logboom/pkg/embedded/engine"
)

// engineMode is the argument that makes this program ClickHouse in a process
// of its own, which can be killed and started again over the same data.
const engineMode = "engine"

// The engine's settings; the password is one, so they do not travel as
// arguments.
const (
	engineAddr     = "LOGBOOM_TORTURE_ENGINE_ADDR"
	engineData     = "LOGBOOM_TORTURE_ENGINE_DATA"
	enginePassword = "LOGBOOM_TORTURE_ENGINE_PASSWORD"
)

const engineStop = 30 * time.Second

func engineEnv(addr, data, password string) []string {
	return []string{engineAddr + "=" + addr, engineData + "=" + data, enginePassword + "=" + password}
}

// runEngine is the whole of that process.
func runEngine() error {
	ctx, forget := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer forget()
	e, err := engine.Start(ctx, engine.Config{
		Library:     os.Getenv("LOGBOOM_CLICKHOUSE_ENGINE"),
		Digest:      os.Getenv("LOGBOOM_CLICKHOUSE_ENGINE_SHA256"),
		Addr:        os.Getenv(engineAddr),
		DataDir:     os.Getenv(engineData),
		Password:    os.Getenv(enginePassword),
		MemoryLimit: 4 << 30,
		LockTimeout: 20 * time.Second, // of a child that was killed just now
		Logger:      slog.New(slog.NewTextHandler(os.Stderr, nil)),
	})
	if errors.Is(err, engine.ErrNoLibrary) {
		return fmt.Errorf("%w (or: make engine)", err)
	}
	if err != nil {
		return err
	}
	<-ctx.Done()
	ctx, cancel := context.WithTimeout(context.Background(), engineStop)
	defer cancel()
	return e.Stop(ctx)
}
