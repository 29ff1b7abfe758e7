package lease

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"

	"github.com/logboom/logboom/pkg/kv"
)

const (
	presenceBucket = "PROCESSES"
	presenceBytes  = 4 << 20
	presenceEvery  = 5 * time.Second
	presenceAge    = 17 * time.Second // three announcements and some
	maxUnready     = 512              // bytes of the reason
)

// Process is a running process.
type Process struct {
	ID      string    `json:"id"`   // of this run
	Name    string    `json:"name"` // ingest, writer, …
	Host    string    `json:"host"`
	Version string    `json:"version"`
	Ops     string    `json:"ops"` // address of its metrics
	Started time.Time `json:"started"`
	Unready string    `json:"unready,omitempty"` // why it is not ready for work
	Seen    time.Time `json:"-"`                 // when the queue stored its last announcement
}

// Presence announces that a process is running, for the page of operations.
// Nothing depends on it: where the queue does not store the announcement, the
// process goes on.
type Presence struct {
	js       jetstream.JetStream
	self     Process
	ready    func(context.Context) error
	replicas int
	log      *slog.Logger
	bucket   *kv.Bucket // nil: not opened
}

// NewPresence returns the presence of this process, which starts now. ready
// returns why it is not ready for work. Run announces it.
func NewPresence(js jetstream.JetStream, self Process, ready func(context.Context) error, replicas int, logger *slog.Logger) *Presence {
	self.ID, self.Started = nuid.Next(), time.Now().UTC()
	self.Host, _ = os.Hostname() // without a name it is shown without
	return &Presence{js: js, self: self, ready: ready, replicas: replicas, log: logger}
}

// Run announces the process every few seconds until ctx ends, and then that it
// has stopped.
func (p *Presence) Run(ctx context.Context) error {
	tick := time.NewTicker(presenceEvery)
	defer tick.Stop()
	failed := false
	for {
		err := p.announce(ctx)
		if err != nil && ctx.Err() == nil && !failed {
			p.log.Warn("process not announced, it is missing on the page of operations", "err", err)
		}
		failed = err != nil
		select {
		case <-tick.C:
		case <-ctx.Done():
			p.leave(context.WithoutCancel(ctx))
			return nil
		}
	}
}

func (p *Presence) announce(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if p.bucket == nil {
		if p.bucket, err = openPresence(ctx, p.js, p.replicas); err != nil {
			return err
		}
	}
	self := p.self
	if err := p.ready(ctx); err != nil {
		self.Unready = err.Error()
		self.Unready = self.Unready[:min(len(self.Unready), maxUnready)]
	}
	if _, err = p.bucket.Put(ctx, self.ID, self); err != nil {
		p.bucket = nil // it may have been removed: open it again
	}
	return err
}

// leave removes the process from the list. If that fails, its entry expires.
func (p *Presence) leave(ctx context.Context) {
	if p.bucket == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if err := p.bucket.Delete(ctx, p.self.ID, 0); err != nil {
		p.log.Debug("process not removed from the list; it expires", "err", err)
	}
}

// CreatePresence creates the bucket of Presence, for processes that may not
// create it themselves.
func CreatePresence(ctx context.Context, js jetstream.JetStream, replicas int) error {
	_, err := openPresence(ctx, js, replicas)
	return err
}

// openPresence opens the bucket. It is on disk, although it holds the last seconds
// only: a server that starts again would not know a bucket in memory, and most
// processes may not create one.
func openPresence(ctx context.Context, js jetstream.JetStream, replicas int) (*kv.Bucket, error) {
	return kv.Open(ctx, js, kv.Config{
		Name: presenceBucket, Description: "the processes that are running", MaxAge: presenceAge, MaxBytes: presenceBytes, Replicas: replicas,
	})
}

// Processes returns the running processes, by name. The error is
// kv.ErrUnavailable where they cannot be read.
func Processes(ctx context.Context, js jetstream.JetStream) ([]Process, error) {
	bucket, err := kv.Find(ctx, js, presenceBucket)
	if errors.Is(err, kv.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	entries, err := bucket.List(ctx)
	if err != nil {
		return nil, err
	}
	list := make([]Process, len(entries))
	for i, entry := range entries {
		if err := entry.Decode(&list[i]); err != nil {
			return nil, fmt.Errorf("bucket %s: %w", presenceBucket, err)
		}
		list[i].Seen = entry.Time
	}
	slices.SortFunc(list, func(a, b Process) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), a.Started.Compare(b.Started), cmp.Compare(a.ID, b.ID))
	})
	return list, nil
}

// RefuseRunning fails where a process with one of the names is running.
func RefuseRunning(ctx context.Context, js jetstream.JetStream, names ...string) error {
	list, err := Processes(ctx, js)
	if err != nil {
		return err
	}
	for _, p := range list {
		if slices.Contains(names, p.Name) {
			return fmt.Errorf("a %s runs on %s: stop it first; a killed one counts as running for %s", p.Name, p.Host, presenceAge)
		}
	}
	return nil
}
