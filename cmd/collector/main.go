// Command collector is the Docker log-driver plugin: it takes containers' logs
// from dockerd, keeps them in a bounded spool on disk, and sends them to
// Logboom.
//
// It runs as a managed plugin (make plugin-install), or by itself on hosts that
// allow none, serving the socket where dockerd looks for plugins. What a
// newcomer would get wrong: where to send and with which token are options of
// each container, not settings of this process.
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

	"github.com/logboom/logboom/cmd/collector/internal/plugin"
	"github.com/logboom/logboom/cmd/collector/internal/spool"
	"github.com/logboom/logboom/pkg/config"
	"github.com/logboom/logboom/pkg/telemetry"
)

type settings struct {
	Socket      string        `default:"/run/docker/plugins/collector.sock" help:"Socket on which dockerd is answered."`
	SpoolDir    string        `default:"/var/lib/logboom-collector" help:"Folder of what is not delivered yet."`
	SpoolBytes  config.Size   `default:"1GiB" help:"Bound of the spool, all containers together; beyond it the oldest lines are dropped."`
	LogLevel    string        `default:"info" enum:"debug,info,warn,error" help:"Least level of log lines: ${enum}."`
	LogFormat   string        `default:"auto" enum:"auto,text,json" help:"Form of log lines: ${enum}; auto is text on a terminal, else json."`
	StopTimeout time.Duration `default:"5s" help:"How long a stop waits for what can still be delivered; the rest stays in the spool."`
}

// Validate refuses bounds that nothing could keep.
func (s *settings) Validate() error {
	if s.SpoolBytes < spool.MinBytes {
		return fmt.Errorf("--spool-bytes (%s): %s is under %s", config.Variable("spool-bytes"), s.SpoolBytes, config.Size(spool.MinBytes))
	}
	if s.StopTimeout < 0 {
		return fmt.Errorf("--stop-timeout (%s): %s is below zero", config.Variable("stop-timeout"), s.StopTimeout)
	}
	return nil
}

// exitFailure is the exit code of a process that could not go on.
const exitFailure = 1

func main() { os.Exit(run()) }

func run() int {
	var cfg settings
	read, code, ok := config.Command("collector", "Takes containers' logs from dockerd and sends them to Logboom.", &cfg)
	if !ok {
		return code
	}
	logger, err := telemetry.NewLogger(os.Stderr, cfg.LogLevel, cfg.LogFormat)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return config.ExitBadSettings
	}
	logger = logger.With("service", "collector")
	logger.Info("process started", "version", telemetry.Version(), "pid", os.Getpid())
	read.Log(logger)
	ctx, forget := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer forget()
	context.AfterFunc(ctx, forget) // the next signal has its usual effect
	if err := serve(ctx, cfg, logger); err != nil {
		logger.Error("process failed", "err", err)
		return exitFailure
	}
	logger.Info("process ended")
	return config.ExitOK
}

// serve takes up what the spool holds before it answers: containers may be
// waiting for their FIFOs to be read.
func serve(ctx context.Context, cfg settings, logger *slog.Logger) error {
	service, err := plugin.Open(plugin.Config{SpoolDir: cfg.SpoolDir, SpoolBytes: int64(cfg.SpoolBytes), StopWithin: cfg.StopTimeout}, logger)
	if err != nil {
		return err
	}
	listener, err := plugin.Listen(cfg.Socket)
	if err != nil {
		return errors.Join(err, service.Close())
	}
	logger.Info("process ready", "socket", cfg.Socket)
	return errors.Join(service.Serve(ctx, listener), service.Close())
}
