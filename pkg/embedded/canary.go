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
	// A slow disk is no reason to restart: only so many probes in a row
	// without an answer are, unless the server itself has named the fault.
	canaryStrikes = 3
	// A fault that a restart does not cure must not become a loop of them:
	// each next restart waits twice as long, up to this.
	restartWaitMost = time.Minute
)

// CanaryConfig says how Watch probes the server.
type CanaryConfig struct {
	// Every is the time between two probes. Default 3 s.
	Every time.Duration
	// Timeout is how long a probe waits for its acknowledgement. Default 3 s.
	Timeout time.Duration
	// Room tells why the volume has no room now, or nil. Without room nothing
	// is probed or restarted: neither would help. Default: there always is.
	Room func() error
	// Logger takes what was found and done. Default: none is kept.
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

// canary is the loop of Watch; only its goroutine touches it.
type canary struct {
	n       *NATS
	cfg     CanaryConfig
	js      jetstream.JetStream
	made    bool          // the canary's stream is there
	strikes int           // probes in a row without an acknowledgement
	wait    time.Duration // from the last restart to the next
	next    time.Time     // no restart before
}

// Watch publishes a few bytes to a stream of its own from time to time, and
// restarts the server when it is stuck and the volume has room. A server whose
// disk was full answers nothing any more and does not recover by itself; each
// stream is stuck for itself, so the server's own word counts beside the
// probe. Watch runs until ctx ends and a probe
// under way is answered. Stop the server after it.
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
	c := &canary{n: n, cfg: cfg, js: js, wait: cfg.Every}
	ticker := time.NewTicker(cfg.Every)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			c.look(ctx)
		case <-ctx.Done():
			return nil
		}
	}
}

// look probes once and restarts the server where that is due. Without room it
// does neither: a server that is asked to make a stream on a full disk keeps
// the stream's file open for ever (nats-server 2.15.2), one for each attempt.
func (c *canary) look(ctx context.Context) {
	if c.cfg.Room() != nil {
		return
	}
	err := c.probe(ctx)
	if ctx.Err() != nil {
		return
	}
	c.judge(err)
	now := time.Now()
	switch {
	case c.strikes >= canaryStrikes && !now.Before(c.next):
		c.restart(ctx, err)
	case c.strikes == 0 && now.After(c.next.Add(c.wait)):
		c.wait = c.cfg.Every // the last restart is long ago: the next may come soon
	}
}

// judge counts what a probe found.
func (c *canary) judge(err error) {
	switch {
	case c.n.stuck():
		c.strikes = canaryStrikes
	case err == nil:
		c.strikes = 0
	default:
		c.strikes++
	}
}

// probe is nil when the server has put the canary on disk. It is seen through
// when ctx ends: a server that is stopped while it makes a stream leaves the
// stream's goroutines behind.
func (c *canary) probe(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.cfg.Timeout)
	defer cancel()
	if !c.made {
		if err := c.make(ctx); err != nil {
			return err
		}
	}
	_, err := c.js.Publish(ctx, canarySubject, []byte(canaryName), jetstream.WithRetryAttempts(0))
	c.made = err == nil // the stream itself may be what is missing
	return err
}

// make makes the stream that keeps the last canary only.
func (c *canary) make(ctx context.Context) error {
	_, err := c.js.CreateOrUpdateStream(ctx, jetstream.StreamConfig{
		Name: canaryName, Subjects: []string{canarySubject}, Storage: jetstream.FileStorage,
		Description: "the last probe of whether the queue can write", MaxMsgs: 1,
	})
	c.made = err == nil
	return err
}

// restart restarts the server, and says when it may be done again.
func (c *canary) restart(ctx context.Context, found error) {
	log := c.cfg.Logger
	if found == nil {
		found = errors.New("a stream's file could not be written")
	}
	log.Warn("embedded queue is stuck and is restarted", "err", found)
	began := time.Now()
	err := c.n.Restart(ctx) // as long as reading the store back takes
	took := time.Since(began)
	c.next, c.wait = time.Now().Add(c.wait), min(2*c.wait, restartWaitMost)
	if err != nil && ctx.Err() == nil {
		log.Error("embedded queue did not come back; it is tried again", "err", err, "retry_in", time.Until(c.next))
	}
	if err != nil {
		return
	}
	c.strikes = 0
	log.Info("embedded queue restarted", "elapsed", took)
}
