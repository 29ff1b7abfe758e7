package embedded

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	canaryName    = "CANARY"
	canarySubject = "canary"

	defaultCanaryEvery   = 3 * time.Second
	defaultCanaryTimeout = 3 * time.Second
	// canaryFailures is how many probes in a row must fail before the server is
	// restarted, so that a slow disk does not cause a restart. One is enough if
	// the server itself has logged the fault.
	canaryFailures = 3
	// maxRestartPause bounds the pause between two restarts. The pause doubles
	// with each restart, because a restart may not remove the fault.
	maxRestartPause = time.Minute
)

// CanaryConfig configures Watch.
type CanaryConfig struct {
	// Every is the time between two probes. Default 3 s.
	Every time.Duration
	// Timeout is how long a probe waits for its acknowledgement. Default 3 s.
	Timeout time.Duration
	// Room returns an error while the volume is full. Meanwhile the server is
	// neither probed nor restarted, because neither would help. Default: the
	// volume is never full.
	Room func() error
	// Logger receives what was found and done. Default: it is discarded.
	Logger *slog.Logger
}

func (c *CanaryConfig) setDefaults() {
	if c.Every == 0 {
		c.Every = defaultCanaryEvery
	}
	if c.Timeout == 0 {
		c.Timeout = defaultCanaryTimeout
	}
	if c.Room == nil {
		c.Room = func() error { return nil }
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
}

// canary is the state of Watch. Only the goroutine of Watch uses it.
type canary struct {
	n        *NATS
	cfg      CanaryConfig
	js       jetstream.JetStream
	created  bool          // the canary's stream exists
	failures int           // probes in a row without an acknowledgement
	pause    time.Duration // between the last restart and the next
	next     time.Time     // no restart before this time
}

// Watch regularly publishes a few bytes to a stream of its own. It restarts the
// server if the server is stuck and the volume has room: after its disk was
// full, a server answers nothing and does not recover by itself. Each stream
// can be stuck alone, so the server's log lines count beside the probe. Watch
// runs until ctx ends and the current probe is answered. Stop the server after
// Watch has returned.
func (n *NATS) Watch(ctx context.Context, cfg CanaryConfig) error {
	cfg.setDefaults()
	nc, err := nats.Connect(n.URL(), n.InProcess(), nats.Name(canaryName), nats.RetryOnFailedConnect(true),
		nats.MaxReconnects(-1), nats.ReconnectWait(cfg.Every/10), nats.ReconnectBufSize(-1))
	if err != nil {
		return fmt.Errorf("embedded queue: canary: %w", err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return fmt.Errorf("embedded queue: canary: %w", err)
	}
	c := &canary{n: n, cfg: cfg, js: js, pause: cfg.Every}
	ticker := time.NewTicker(cfg.Every)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			c.check(ctx)
		case <-ctx.Done():
			return nil
		}
	}
}

// check probes the server once and restarts it if that is due. While the volume
// is full it does neither: nats-server 2.15.2 never closes the file of a stream
// that it could not create on a full disk, so each attempt would leak a file.
func (c *canary) check(ctx context.Context) {
	if c.cfg.Room() != nil {
		return
	}
	err := c.probe(ctx)
	if ctx.Err() != nil {
		return
	}
	switch {
	case c.n.stuck():
		c.failures = canaryFailures
	case err == nil:
		c.failures = 0
	default:
		c.failures++
	}
	now := time.Now()
	switch {
	case c.failures >= canaryFailures && !now.Before(c.next):
		c.restart(ctx, err)
	case c.failures == 0 && now.After(c.next.Add(c.pause)):
		c.pause = c.cfg.Every // the last restart was long ago, so the next may come soon
	}
}

// probe returns nil once the server has written the canary to disk. It goes on
// after ctx ends, because a server that is stopped while it creates a stream
// leaks the stream's goroutines.
func (c *canary) probe(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.cfg.Timeout)
	defer cancel()
	if !c.created {
		if err := c.create(ctx); err != nil {
			return err
		}
	}
	_, err := c.js.Publish(ctx, canarySubject, []byte(canaryName), jetstream.WithRetryAttempts(0))
	c.created = err == nil // the stream itself may be missing
	return err
}

// create creates the stream, which keeps only the last canary.
func (c *canary) create(ctx context.Context) error {
	_, err := c.js.CreateOrUpdateStream(ctx, jetstream.StreamConfig{
		Name: canaryName, Subjects: []string{canarySubject}, Storage: jetstream.FileStorage,
		Description: "the last probe of whether the queue can write", MaxMsgs: 1,
	})
	c.created = err == nil
	return err
}

// restart restarts the server and sets the time of the next restart.
func (c *canary) restart(ctx context.Context, found error) {
	log := c.cfg.Logger
	if found == nil {
		found = errors.New("a stream's file could not be written")
	}
	log.Warn("embedded queue was stuck; restarting it", "err", found)
	began := time.Now()
	err := c.n.Restart(ctx) // takes as long as reading the stored messages
	elapsed := time.Since(began)
	c.next, c.pause = time.Now().Add(c.pause), min(2*c.pause, maxRestartPause)
	if err != nil && ctx.Err() == nil {
		log.Error("embedded queue was not restarted; it will be tried again", "err", err, "retry_in", time.Until(c.next))
	}
	if err != nil {
		return
	}
	c.failures = 0
	log.Info("embedded queue restarted", "elapsed", elapsed)
}
