package admin

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/logboom/logboom/pkg/project"
)

// Eraser deletes every row of a project: logs, events, usage and deliveries.
// Erasing again what is gone is no error.
type Eraser interface {
	Erase(ctx context.Context, projectID string) error
}

// Sweeper clears away what the record still has of deleted projects;
// project.Store does.
type Sweeper interface {
	Sweep(ctx context.Context) (project.Swept, error)
}

// When what is left of deleted projects is cleared away.
const (
	cleanupPause = time.Minute      // between two looks at the graves
	eraseAgain   = time.Hour        // after the burial: what the queue still held is stored by then
	eraseTimeout = 10 * time.Minute // of one project
	sweepPause   = time.Hour
)

// cleanup erases the rows of deleted projects: at once, and again when what was
// still on the queue is stored. Only then is the grave done with, so that a
// restart goes on where it was. Several processes may erase at once; it comes
// out the same. Rows that leave the queue still later stay until their
// retention ends: nobody can ask for them, since a new project of the name has
// another ID.
type cleanup struct {
	logger    *slog.Logger
	directory Directory
	graves    Graves
	eraser    Eraser
	sweeper   Sweeper
	wake      chan struct{} // one: a wake-up that waits stands for all

	// Only run touches these.
	erased map[string]bool // the pending project IDs whose rows this process erased
	swept  time.Time

	total    prometheus.Counter
	failures prometheus.Counter
	duration prometheus.Histogram
}

func newCleanup(deps Deps) *cleanup {
	c := &cleanup{
		logger: deps.Logger, directory: deps.Directory, graves: deps.Graves, eraser: deps.Eraser, sweeper: deps.Sweeper,
		wake: make(chan struct{}, 1), erased: map[string]bool{},
		total:    prometheus.NewCounter(prometheus.CounterOpts{Name: "logboom_admin_erasures_total", Help: "Times that a deleted project's rows were to be erased."}),
		failures: prometheus.NewCounter(prometheus.CounterOpts{Name: "logboom_admin_erasure_failures_total", Help: "Times that it failed; it is tried again."}),
		duration: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "logboom_admin_erasure_duration_seconds", Help: "To erase one project's rows.",
			Buckets: []float64{.01, .1, 1, 10, 60, 600},
		}),
	}
	deps.Registry.MustRegister(c.total, c.failures, c.duration)
	return c
}

// wakeUp has the graves looked at now.
func (c *cleanup) wakeUp() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// run clears away until ctx ends.
func (c *cleanup) run(ctx context.Context) error {
	pause := time.NewTicker(cleanupPause)
	defer pause.Stop()
	for {
		if err := c.round(ctx, time.Now()); err != nil && ctx.Err() == nil {
			c.logger.Warn("deleted projects not cleared away yet", "err", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-pause.C:
		case <-c.wake:
		}
	}
}

// round does what is due. One project's failure does not hold up the others.
func (c *cleanup) round(ctx context.Context, now time.Time) error {
	failed := c.sweep(ctx, now)
	if c.graves == nil || c.eraser == nil {
		return failed
	}
	pending, err := c.graves.Pending(ctx)
	if err != nil {
		return errors.Join(failed, err)
	}
	erased := c.erased
	c.erased = map[string]bool{} // forgets those that another process is done with
	for _, grave := range pending {
		c.erased[grave.ProjectID] = erased[grave.ProjectID]
		failed = errors.Join(failed, c.visit(ctx, grave, now))
	}
	return failed
}

// visit does what one grave needs now.
func (c *cleanup) visit(ctx context.Context, grave Grave, now time.Time) error {
	lives, err := c.lives(ctx, grave.ProjectID)
	if err != nil {
		return err
	}
	last := now.Sub(grave.Buried) >= eraseAgain
	if !lives && (last || !c.erased[grave.ProjectID]) {
		if err := c.erase(ctx, grave.ProjectID); err != nil {
			return err
		}
		c.erased[grave.ProjectID] = true
	}
	if last { // one that lives by now was never deleted
		return c.graves.Done(ctx, grave)
	}
	return nil
}

// lives tells whether the project is there: then its rows are not to be
// touched.
func (c *cleanup) lives(ctx context.Context, id string) (bool, error) {
	found, err := c.directory.Project(ctx, nameIn(id))
	if errors.Is(err, project.ErrNotFound) {
		return false, nil
	}
	return err == nil && found.ID == id, err
}

func (c *cleanup) erase(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeout(ctx, eraseTimeout)
	defer cancel()
	began := time.Now()
	err := c.eraser.Erase(ctx, id)
	c.total.Inc()
	c.duration.Observe(time.Since(began).Seconds())
	if err != nil {
		c.failures.Inc()
		return err
	}
	c.logger.Info("deleted project erased", "project", id, "elapsed", time.Since(began))
	return nil
}

// sweep clears the record, at the start and then from time to time.
func (c *cleanup) sweep(ctx context.Context, now time.Time) error {
	if !c.swept.IsZero() && now.Sub(c.swept) < sweepPause {
		return nil
	}
	found, err := c.sweeper.Sweep(ctx)
	if err != nil {
		return err
	}
	c.swept = now
	if found != (project.Swept{}) {
		c.logger.Info("record swept", "tokens", found.Tokens, "alerts", found.Alerts, "uses", found.Uses)
	}
	return nil
}
