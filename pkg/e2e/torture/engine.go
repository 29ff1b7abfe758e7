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

// engineMode is the argument that makes this program run ClickHouse, in a process
// that can be killed and started again with the same data.
const engineMode = "engine"

// The engine's settings are in the environment, because one is the password.
const (
	engineAddr     = "LOGBOOM_TORTURE_ENGINE_ADDR"
	engineData     = "LOGBOOM_TORTURE_ENGINE_DATA"
	enginePassword = "LOGBOOM_TORTURE_ENGINE_PASSWORD"
)

const engineStop = 30 * time.Second

func engineEnv(addr, data, password string) []string {
	return []string{engineAddr + "=" + addr, engineData + "=" + data, enginePassword + "=" + password}
}

// runEngine runs that process.
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
		LockTimeout: 20 * time.Second, // held by a child that was just killed
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
