package embedded

import (
	"context"
	"fmt"
)

// Restart stops the server and starts it again in place: the same folder, port
// and token, so that clients come back by themselves. It is what cures a
// stream whose file could once not be written. What was acknowledged is kept.
// After an error the server may not run, and Restart may be called again.
func (n *NATS) Restart(ctx context.Context) error {
	if err := n.takeTurn(ctx); err != nil {
		return err
	}
	defer func() { n.turn <- struct{}{} }()
	if before := n.running.Swap(nil); before != nil {
		before.shutdown()
	}
	next, err := launch(ctx, n.cfg)
	if err != nil {
		return fmt.Errorf("embedded queue: restart: %w", err)
	}
	n.running.Store(next)
	n.restarts.Add(1)
	return nil
}

func (n *NATS) takeTurn(ctx context.Context) error {
	select {
	case <-n.turn:
		return nil
	case <-n.stopped:
		return errNotRunning
	case <-ctx.Done():
		return fmt.Errorf("embedded queue: restart: %w", context.Cause(ctx))
	}
}

// Restarts is how often Restart brought the server back.
func (n *NATS) Restarts() uint64 { return n.restarts.Load() }

// stuck tells that the server does not run, or has said that it could not
// write a stream's file.
func (n *NATS) stuck() bool {
	now := n.running.Load()
	return now == nil || now.lines.stuck.Load()
}
