package admin

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/logboom/logboom/pkg/kv"
	"github.com/logboom/logboom/pkg/project"
)

// Deletion is a project that was to be deleted and whose rows may still be
// stored.
type Deletion struct {
	ProjectID string    `json:"project_id"`
	Added     time.Time `json:"buried"`
	Revision  uint64    `json:"-"` // of the entry, so that Remove keeps a newer one
}

// The bucket of deletions and its bound. A deletion takes about 200 bytes and
// is removed after an hour.
const (
	deletionsBucket = "GRAVES"
	deletionsBytes  = 16 << 20
)

// Deletions stores, as durably as the projects, whose rows are to be erased. A
// deletion is added before its project is deleted, so that no crash leaves rows
// that nobody erases. As long as the project exists, the deletion has no
// effect.
type Deletions struct {
	bucket *kv.Bucket
}

// OpenDeletions opens the bucket and creates it if it is missing. Any number of
// processes may do so at the same time.
func OpenDeletions(ctx context.Context, js jetstream.JetStream, replicas int) (*Deletions, error) {
	bucket, err := kv.Open(ctx, js, kv.Config{Name: deletionsBucket, MaxBytes: deletionsBytes, Replicas: replicas})
	return &Deletions{bucket}, err
}

// deletionKey returns a digest, since an ID has characters that a key may not
// have.
func deletionKey(projectID string) string {
	sum := sha256.Sum256([]byte(projectID))
	return hex.EncodeToString(sum[:16])
}

// Add stores that the rows of the project are to be erased. Adding a project
// again starts its deletion again.
func (d *Deletions) Add(ctx context.Context, projectID string) error {
	_, err := d.bucket.Put(ctx, deletionKey(projectID), Deletion{ProjectID: projectID, Added: time.Now().UTC()})
	return err
}

// List returns the deletions that are not finished.
func (d *Deletions) List(ctx context.Context) ([]Deletion, error) {
	entries, err := d.bucket.List(ctx)
	if err != nil {
		return nil, err
	}
	list := make([]Deletion, len(entries))
	for i, entry := range entries {
		if err := entry.Decode(&list[i]); err != nil {
			return nil, fmt.Errorf("deletions: %w", err)
		}
		list[i].Revision = entry.Revision
	}
	return list, nil
}

// Remove removes a finished deletion, unless its project was added again since.
func (d *Deletions) Remove(ctx context.Context, deletion Deletion) error {
	err := d.bucket.Delete(ctx, deletionKey(deletion.ProjectID), deletion.Revision)
	if errors.Is(err, kv.ErrChanged) {
		return nil
	}
	return err
}

// Eraser deletes every row of a project: logs, events, usage and deliveries.
// Erasing rows that are gone is no error. clickhouse.Client implements it.
type Eraser interface {
	Erase(ctx context.Context, projectID string) error
}

// When the rows and entries of deleted projects are removed.
const (
	cleanupPause = time.Minute      // between two rounds
	eraseAgain   = time.Hour        // after the deletion: by then what the queue still held is stored
	eraseTimeout = 10 * time.Minute // of one project
	sweepPause   = time.Hour
)

// cleanup erases the rows of deleted projects: at once, and again an hour
// later, when what was still in the queue is stored. Only then is the deletion
// removed, so that a restarted process continues. Several processes may erase
// the same project. Rows that leave the queue even later stay until their
// retention ends. They cannot be read, since a new project with the name has
// another ID.
type cleanup struct {
	logger    *slog.Logger
	projects  *project.Store
	deletions *Deletions
	eraser    Eraser
	sweep     func(context.Context) (Swept, error)
	wake      chan struct{} // capacity 1: one pending wake-up is enough

	// Only run uses these.
	erased map[string]bool // the project IDs in the list whose rows this process has erased
	swept  time.Time

	erasures prometheus.Counter
	failures prometheus.Counter
	duration prometheus.Histogram
}

func newCleanup(deps Deps) *cleanup {
	c := &cleanup{
		logger: deps.Logger, projects: deps.Projects, deletions: deps.Deletions, eraser: deps.Eraser, sweep: func(ctx context.Context) (Swept, error) { return sweepStores(ctx, deps) },
		wake: make(chan struct{}, 1), erased: map[string]bool{},
		erasures: prometheus.NewCounter(prometheus.CounterOpts{Name: "logboom_admin_erasures_total", Help: "Attempts to erase the rows of a deleted project."}),
		failures: prometheus.NewCounter(prometheus.CounterOpts{Name: "logboom_admin_erasure_failures_total", Help: "Failed attempts to erase the rows of a deleted project. They are retried."}),
		duration: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "logboom_admin_erasure_duration_seconds", Help: "Time to erase the rows of one deleted project.",
			Buckets: []float64{.01, .1, 1, 10, 60, 600},
		}),
	}
	deps.Registry.MustRegister(c.erasures, c.failures, c.duration)
	return c
}

// wakeUp starts a round now.
func (c *cleanup) wakeUp() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

func (c *cleanup) run(ctx context.Context) error {
	pause := time.NewTicker(cleanupPause)
	defer pause.Stop()
	for {
		if err := c.round(ctx, time.Now()); err != nil && ctx.Err() == nil {
			c.logger.Warn("deleted projects not erased; retrying", "err", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-pause.C:
		case <-c.wake:
		}
	}
}

// round does what is due. The failure of one project does not stop the others.
func (c *cleanup) round(ctx context.Context, now time.Time) error {
	failed := c.sweepStore(ctx, now)
	list, err := c.deletions.List(ctx)
	if err != nil {
		return errors.Join(failed, err)
	}
	erased := c.erased
	c.erased = map[string]bool{} // without the deletions that another process has removed
	for _, deletion := range list {
		c.erased[deletion.ProjectID] = erased[deletion.ProjectID]
		failed = errors.Join(failed, c.advance(ctx, deletion, now))
	}
	return failed
}

// advance does what one deletion needs now.
func (c *cleanup) advance(ctx context.Context, deletion Deletion, now time.Time) error {
	exists, err := c.exists(ctx, deletion.ProjectID)
	if err != nil {
		return err
	}
	last := now.Sub(deletion.Added) >= eraseAgain
	if !exists && (last || !c.erased[deletion.ProjectID]) {
		if err := c.erase(ctx, deletion.ProjectID); err != nil {
			return err
		}
		c.erased[deletion.ProjectID] = true
	}
	if last { // a project that exists by now was never deleted
		return c.deletions.Remove(ctx, deletion)
	}
	return nil
}

// exists reports whether the project exists, so that its rows must stay.
func (c *cleanup) exists(ctx context.Context, id string) (bool, error) {
	found, err := c.projects.Project(ctx, projectName(id))
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
	c.erasures.Inc()
	c.duration.Observe(time.Since(began).Seconds())
	if err != nil {
		c.failures.Inc()
		return err
	}
	c.logger.Info("deleted project erased", "project", id, "elapsed", time.Since(began))
	return nil
}

// sweepStore removes what deleted projects left in the store, at the start and
// then hourly.
func (c *cleanup) sweepStore(ctx context.Context, now time.Time) error {
	if !c.swept.IsZero() && now.Sub(c.swept) < sweepPause {
		return nil
	}
	found, err := c.sweep(ctx)
	if err != nil {
		return err
	}
	c.swept = now
	if found != (Swept{}) {
		c.logger.Info("entries of deleted projects removed", "tokens", found.Tokens, "alerts", found.Alerts, "uses", found.Uses)
	}
	// This is repeated, because a process that was started with an older key may
	// still encrypt with it.
	resealed, err := c.projects.ResealAlerts(ctx)
	if err != nil {
		c.logger.Warn("webhook addresses not encrypted with the current key", "err", err)
	}
	if resealed > 0 {
		c.logger.Info("webhook addresses encrypted with the current key", "projects", resealed)
	}
	return nil
}

// Swept counts what a sweep removed.
type Swept struct {
	Tokens int
	Alerts int // of projects
	Uses   int // of projects: when their tokens were last used
}

// sweepStores removes what deleted projects left in the stores.
func sweepStores(ctx context.Context, deps Deps) (swept Swept, err error) {
	tokens, err := deps.Tokens.Sweep(ctx)
	if err != nil {
		return swept, err
	}
	swept.Tokens, swept.Uses = tokens.Tokens, tokens.Uses
	swept.Alerts, err = deps.Projects.SweepAlerts(ctx)
	return swept, err
}
