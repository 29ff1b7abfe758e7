// Command collector is the Docker log-driver plugin: it receives containers'
// logs from dockerd, stores them in a bounded spool on disk, and sends them to
// Logboom.
//
// It runs as a managed plugin (make plugin-install). On hosts that allow none,
// it runs by itself and serves the socket on which dockerd expects plugins. What
// a newcomer would get wrong: the address and the token are options of each
// container, not settings of this process.
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
	Socket      string        `default:"/run/docker/plugins/collector.sock" help:"Socket on which dockerd sends its requests."`
	SpoolDir    string        `default:"/var/lib/logboom-collector" help:"Folder of the lines that are not delivered yet."`
	SpoolBytes  config.Size   `default:"1GiB" help:"Bound of the spool, for all containers together. When it is full, the oldest lines are dropped."`
	LogLevel    string        `default:"info" enum:"debug,info,warn,error" help:"Lowest level of log lines: ${enum}."`
	LogFormat   string        `default:"auto" enum:"auto,text,json" help:"Format of log lines: ${enum}; auto is text on a terminal, else json."`
	StopTimeout time.Duration `default:"5s" help:"How long a stop waits for the delivery of pending lines; the rest stays in the spool."`
}

// Validate returns an error that names the first setting that is out of range.
func (s *settings) Validate() error {
	if s.SpoolBytes < spool.MinBytes {
		return fmt.Errorf("--spool-bytes (%s): %s is less than %s", config.Variable("spool-bytes"), s.SpoolBytes, config.Size(spool.MinBytes))
	}
	if s.StopTimeout < 0 {
		return fmt.Errorf("--stop-timeout (%s): %s is negative", config.Variable("stop-timeout"), s.StopTimeout)
	}
	return nil
}

// exitFailure is the exit code after a failure.
const exitFailure = 1

func main() { os.Exit(run()) }

func run() int {
	var cfg settings
	values, code, ok := config.Command("collector", "Receives containers' logs from dockerd and sends them to Logboom.", &cfg)
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
	values.Log(logger)
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal kills the process
	if err := serve(ctx, cfg, logger); err != nil {
		logger.Error("process failed", "err", err)
		return exitFailure
	}
	logger.Info("process ended")
	return config.ExitOK
}

// serve resumes the sessions of the spool before it opens the socket, because
// containers may be blocked until their FIFOs are read.
func serve(ctx context.Context, cfg settings, logger *slog.Logger) error {
	service, err := plugin.Open(plugin.Config{SpoolDir: cfg.SpoolDir, SpoolBytes: int64(cfg.SpoolBytes), StopTimeout: cfg.StopTimeout}, logger)
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
